"""Prefetch FIFO: beats of a channel on their way to the slice, scales apart from data."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.config import Config
from hw.interfaces import BEAT

__all__ = ["BeatFifo", "PrefetchFifo", "prefetch_signature", "scale_depth"]


def prefetch_signature():
    """Tagged beats into the prefetch FIFO, seen from the reader: one a clock, no ready.

    ``scale``: the beat holds scales or exponents. ``credit``: entries freed, 0 to 2.
    """
    return Signature({
        "valid": Out(1),
        "scale": Out(1),
        "data": Out(BEAT),
        "credit": In(2),
    })


def scale_depth(config: Config):
    """Depth of the scale FIFO in beats: 5/8 of the credits.

    No run of ``fifo_beats`` beats of an access program holds more scale beats. A weight record has at least as many
    data beats as scale beats. KV_K of a head has 2 * Xb exponent beats and at least head_blocks >= Xb beats of K; as
    many beats of V follow one head later. So scale beats are at most half of any run, and 1.5 * Xb + 1 more.
    """
    return config.fifo_beats * 5 // 8


class BeatFifo(Component):
    """First-in first-out memory without back-pressure: the writer counts the room.

    A beat is visible at the output in the clock after it is taken in. A beat in and one out a clock. The memory has
    a synchronous read port that is transparent to the write port, so it maps to block RAM.

    Members: ``valid``/``data`` in; ``o`` out; ``pop``: an entry is being freed in this clock; ``level``: entries held.
    """

    def __init__(self, depth, shape=BEAT):
        self._depth = depth
        self._shape = shape
        super().__init__({
            "valid": In(1),
            "data": In(shape),
            "o": Out(stream.Signature(shape)),
            "pop": Out(1),
            "level": Out(range(depth + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        head, tail = Signal(range(self._depth)), Signal(range(self._depth))
        following = Signal(range(self._depth))
        level = self.level
        m.d.comb += [
            self.o.valid.eq(level != 0),
            self.o.payload.eq(read.data),
            self.pop.eq(self.o.valid & self.o.ready),
            following.eq(Mux(head == self._depth - 1, 0, head + 1)),
            write.addr.eq(tail),
            write.data.eq(self.data),
            write.en.eq(self.valid),
            # The port always holds the entry at the head of the next clock, even if it is being written now.
            read.addr.eq(Mux(self.pop, following, head)),
            read.en.eq(self.pop | (level == 0)),
        ]
        with m.If(self.pop):
            m.d.sync += head.eq(following)
        with m.If(self.valid):
            m.d.sync += tail.eq(Mux(tail == self._depth - 1, 0, tail + 1))
        with m.If(self.valid != self.pop):
            m.d.sync += level.eq(Mux(self.pop, level - 1, level + 1))
        m.d.sync += Assert(~(self.valid & ~self.pop & (level == self._depth)), "beat FIFO overflow")
        return m


class PrefetchFifo(Component):
    """Splits tagged beats into a data stream and a scale stream; up to one of each a clock goes out.

    A beat is visible in the clock after it comes in. The sender holds ``fifo_beats`` credits; an entry that is freed
    is reported by ``i.credit`` one clock later.

    Members: ``i`` (:func:`prefetch_signature`), ``data``, ``scales``; ``drop``: beats are thrown away as they come;
    ``data_level``, ``scale_level``, beats held.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "i": In(prefetch_signature()),
            "drop": In(1),
            "data": Out(stream.Signature(BEAT)),
            "scales": Out(stream.Signature(BEAT)),
            "data_level": Out(range(config.fifo_beats + 1)),
            "scale_level": Out(range(scale_depth(config) + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.data = data = BeatFifo(self._config.fifo_beats)
        m.submodules.scales = scales = BeatFifo(scale_depth(self._config))
        m.d.comb += [
            data.valid.eq(self.i.valid & ~self.i.scale),
            scales.valid.eq(self.i.valid & self.i.scale),
            data.data.eq(self.i.data),
            scales.data.eq(self.i.data),
            self.data_level.eq(data.level),
            self.scale_level.eq(scales.level),
        ]
        for fifo, port in ((data, self.data), (scales, self.scales)):
            m.d.comb += [
                port.valid.eq(fifo.o.valid & ~self.drop),
                port.payload.eq(fifo.o.payload),
                fifo.o.ready.eq(port.ready | self.drop),
            ]
        m.d.sync += self.i.credit.eq(data.pop + scales.pop)
        return m
