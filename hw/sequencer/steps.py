"""Steps and positions of a run, as each engine counts them."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import Position
from hw.sequencer.control import TOKEN_BITS, RunSettings

__all__ = ["StepCounter"]


class StepCounter(Component):
    """Position of the current step, and whether it is the last of the run.

    ``start`` loads position and steps from ``settings``; ``next`` goes on to the next token, in the next channel, or
    in the next slot of channel 0. ``number`` is the position as a token number. All change in the clock after.
    """

    def __init__(self, config: Config):
        self._channels = config.channels
        super().__init__({
            "settings": In(RunSettings(config)),
            "start": In(1),
            "next": In(1),
            "position": Out(Position(config)),
            "number": Out(24),
            "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        left = Signal(TOKEN_BITS)
        slot, channel = self.position.slot, self.position.channel
        first = self.settings.position
        m.d.comb += self.last.eq(left == 1)
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.settings.steps),
                self.position.eq(first),
                self.number.eq(first.slot * self._channels + first.channel),
            ]
        with m.Elif(self.next):
            m.d.sync += [left.eq(left - 1), self.number.eq(self.number + 1), channel.eq(channel + 1)]
            with m.If(channel == self._channels - 1):
                m.d.sync += [channel.eq(0), slot.eq(slot + 1)]
        return m
