"""Logits for memory: groups packed into beats of eight."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from hw.fork import Queue
from hw.interfaces import BEAT, LogitBeat
from hw.vector.pipe import groups

__all__ = ["LogitBeats"]

A_BEAT = BEAT // 32


class LogitBeats(Component):
    """Packs groups of logits, lowest index in the lowest bits; the beat of the ``last`` group is filled up with zeros.

    No back-pressure on ``i``: the user sends groups only while ``room`` is high, and at most ``in_flight`` more after
    it fell. ``idle`` is high when nothing is held. ``count`` is the number of real logits in a group.
    """

    def __init__(self, lanes, in_flight):
        self._lanes = lanes
        self._reserve = -(-in_flight * lanes // A_BEAT) + 1
        super().__init__({
            "i": In(groups(lanes)),
            "count": In(range(lanes + 1)),
            "room": Out(1),
            "idle": Out(1),
            "beats": Out(stream.Signature(LogitBeat)),
        })

    def elaborate(self, platform):
        m = Module()
        depth = 1 << (2 * self._reserve - 1).bit_length()
        m.submodules.queue = queue = Queue(LogitBeat, depth)
        turns = A_BEAT // self._lanes
        turn, full, last = Signal(range(turns)), Signal(), Signal()
        beat = Signal(ArrayLayout(ArrayLayout(32, self._lanes), turns))
        with m.If(full):
            m.d.sync += beat.eq(0)
        with m.If(self.i.valid):
            for n in range(self._lanes):
                m.d.sync += beat[turn][n].eq(Mux(self.count > n, self.i.values[n], 0))
            m.d.sync += turn.eq(Mux(self.i.last, 0, turn + 1))
        m.d.sync += [full.eq(self.i.valid & (self.i.last | (turn == turns - 1))), last.eq(self.i.last)]
        m.d.comb += [
            queue.i.valid.eq(full), queue.i.payload.data.eq(Cat(beat)), queue.i.payload.last.eq(last),
            self.beats.valid.eq(queue.o.valid), self.beats.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.beats.ready),
            self.room.eq(queue.level < depth - self._reserve),
            self.idle.eq(~full & (queue.level == 0)),
        ]
        return m
