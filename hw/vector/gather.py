"""Gather: what the channels deal out in turn becomes one stream in order again."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Gather"]


class Gather(Component):
    """Item i of the whole comes from channel i mod ``channels``; ``lanes`` items leave together as a group.

    A group is channels k*lanes to k*lanes + lanes - 1; it leaves when all of them have their item, and they give it up
    in the same clock. Latency 1 clock; one group a clock. Knows no records: every record brings a multiple of
    ``channels`` items (padding included, which the receiver drops), so that the first item of each comes from channel
    0.

    Parameters: ``shape`` of an item; ``channels``; ``lanes``, a divisor of it. Members: ``i``, one stream a channel;
    ``o``, the groups (arrays of ``lanes`` items).
    """

    def __init__(self, shape, channels, lanes=1):
        if channels % lanes:
            raise ValueError(f"gather: {lanes} lanes do not divide {channels} channels")
        self._shape, self._channels, self._lanes = shape, channels, lanes
        super().__init__({
            "i": In(stream.Signature(shape)).array(channels),
            "o": Out(stream.Signature(ArrayLayout(shape, lanes))),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, turns = self._lanes, self._channels // self._lanes
        turn = Signal(range(max(2, turns)))
        complete, take = Signal(turns), Signal()
        for k in range(turns):
            group = [self.i[k * lanes + lane] for lane in range(lanes)]
            for item in group:
                m.d.comb += item.ready.eq(take & (turn == k))
            valid = group[0].valid
            for item in group[1:]:
                valid = valid & item.valid
            m.d.comb += complete[k].eq(valid)
        full, held = Signal(), Signal(ArrayLayout(self._shape, lanes), reset_less=True)
        m.d.comb += [
            take.eq(complete.bit_select(turn, 1) & (~full | self.o.ready)),
            self.o.valid.eq(full),
            self.o.payload.eq(held),
        ]
        m.d.sync += full.eq(take | (full & ~self.o.ready))
        with m.If(take):
            for lane in range(lanes):
                m.d.sync += held[lane].eq(Array(self.i[k * lanes + lane].payload for k in range(turns))[turn])
            m.d.sync += turn.eq(0 if turns == 1 else turn + 1)
            if turns & (turns - 1):
                with m.If(turn == turns - 1):
                    m.d.sync += turn.eq(0)
        return m
