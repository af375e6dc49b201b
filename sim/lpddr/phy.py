"""Model of a PHY that takes its time, between a controller and an ideal device."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.dram.interface import dfi_signature

__all__ = ["Phy"]


class Phy(Component):
    """Carries each part of a DFI bus to the device, and back, some controller clocks later.

    *command*: commands, WCK and the start of training; *write*: write data and its enable; *enable*: ``rddata_en``;
    *read*: read data and the end of training. With *write* = *enable* = *command* the device sees what it would
    without the PHY, later. A PHY with more *write* or *enable* needs ``dfi_write_ahead`` and ``dfi_read_ahead`` of
    :class:`hw.dram.timing.Timing`, two CK a clock.

    Members: ``controller``, ``device``: the two sides.
    """

    def __init__(self, command=1, write=1, enable=1, read=1):
        self._clocks = {"wrdata_en": write, "wrdata": write, "rddata_en": enable, "rddata_valid": read,
                        "rddata": read, "init_complete": read}
        self._command = command
        super().__init__({"controller": In(dfi_signature()), "device": Out(dfi_signature())})

    def elaborate(self, platform):
        m = Module()
        for path, member, signal in dfi_signature().flatten(self.device):
            other = self.controller
            for name in path:
                other = getattr(other, name)
            source, target = (other, signal) if member.flow is Out else (signal, other)
            for clock in range(self._clocks.get(path[0], self._command)):
                later = Signal.like(source, name=f"{'_'.join(path)}_{clock + 1}")
                m.d.sync += later.eq(source)
                source = later
            m.d.comb += target.eq(source)
        return m
