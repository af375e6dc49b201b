"""Performance counters: what the channels' clocks were spent on."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.dram.causes import Cause
from hw.host.register_map import COUNTERS
from hw.host.registers import CounterValues

__all__ = ["Counters"]


class Counters(Component):
    """Counts clocks and, for each cause, channel clocks, while ``enable`` is high; they sum to clocks x channels.

    ``cause`` has each channel's cause of this clock. ``clear`` sets all to 0. ``values`` lag two clocks behind.
    """

    def __init__(self, config: Config):
        self._channels = config.channels
        super().__init__({
            "enable": In(1),
            "clear": In(1),
            "cause": In(ArrayLayout(Cause, config.channels)),
            "values": Out(CounterValues),
        })

    def elaborate(self, platform):
        m = Module()
        enabled = Signal()
        m.d.sync += enabled.eq(self.enable)
        m.d.sync += self.values.clocks.eq(self.values.clocks + enabled)
        for cause, name in zip(Cause, COUNTERS[1:], strict=True):
            channels = Signal(range(self._channels + 1), name=f"{name}_channels")
            total = self.values[name]
            m.d.sync += channels.eq(sum(self.cause[n] == cause for n in range(self._channels)))
            with m.If(enabled):
                m.d.sync += total.eq(total + channels)
        with m.If(self.clear):
            m.d.sync += self.values.eq(0)
        return m
