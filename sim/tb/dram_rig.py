"""Controller and device model of one channel, joined by their DFI bus or by a PHY model."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.config import Config
from hw.dram.controller import ChannelController
from hw.dram.interface import dfi_signature
from sim.lpddr.device import Device
from sim.lpddr.table import device_timing as timing_of

__all__ = ["DramChannel", "join"]


def join(m: Module, controller, device):
    """Connect both ends of a DFI bus; either may have it among other members."""
    join_buses(m, controller.dfi, device.dfi)


def join_buses(m: Module, controller, device):
    """Connect *controller*, the side that commands, and *device*."""
    for path, member, value in controller.signature.flatten(controller):
        other = device
        for part in path:
            other = getattr(other, part)
        m.d.comb += other.eq(value) if member.flow is Out else value.eq(other)


class DramChannel(Component):
    """The controller's native ports and pulses, the device's store and reports; ``seen``: its command bus.

    *phy*: a :class:`sim.lpddr.phy.Phy` between the two.
    """

    def __init__(self, config: Config, timing=None, policy=None, device_timing=None, phy=None):
        self._phy = phy
        self._controller = ChannelController(config, timing, policy)
        self._device = Device(config.beat_address_bits, device_timing or timing_of(config.density_gbit))
        controller = {name: member for name, member in self._controller.signature.members.items() if name != "dfi"}
        device = {name: member for name, member in self._device.signature.members.items() if name != "dfi"}
        phases = {name: Out(dfi_signature().members[name].signature) for name in ("p0", "p1")}
        super().__init__({**controller, **device, "seen": Out(Signature(phases))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = self._controller
        m.submodules.device = device = self._device
        if self._phy is None:
            join(m, controller, device)
        else:
            m.submodules.phy = phy = self._phy
            join_buses(m, controller.dfi, phy.controller)
            join_buses(m, phy.device, device.dfi)
        for part in (controller, device):
            for path, member, inner in part.signature.flatten(part):
                if path[0] == "dfi":
                    continue
                outer = self
                for name in path:
                    outer = getattr(outer, name)
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        for phase in ("p0", "p1"):
            pins = getattr(controller.dfi, phase)
            m.d.comb += [getattr(self.seen, phase).cs.eq(pins.cs), getattr(self.seen, phase).address.eq(pins.address)]
        return m
