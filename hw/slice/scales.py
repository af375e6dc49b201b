"""Scale beats of a superblock, handed out block by block."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.interfaces import BEAT
from hw.isa import Format
from hw.slice.dequant import Half, unpack_half

__all__ = ["ScaleFeed"]

WORD = 64
"""Bits that one beat of Q4_1 uses; the others use a half or a quarter of a word."""


class ScaleFeed(Component):
    """Scales and minima of the blocks of a data beat. Latency 1.

    Members, given with a data beat: ``beat``, the scale beat if ``first`` data beat of a superblock (else it is
    remembered); ``index`` of the data beat in the superblock; ``format``; ``second``, the beat has a second block;
    ``take``, a data beat is issued. One clock later: ``scale[block]``, ``minimum[block]``, 0 for a block or minimum
    that isn't there.
    """

    beat: In(BEAT)
    first: In(1)
    index: In(4)
    format: In(Format)
    second: In(1)
    take: In(1)
    scale: Out(Half).array(2)
    minimum: Out(Half).array(2)

    def elaborate(self, platform):
        m = Module()
        held = [Signal(WORD, reset_less=True, name=f"held_{n}") for n in range(BEAT // WORD)]
        with m.If(self.take & self.first):
            m.d.sync += [word.eq(self.beat[n * WORD:][:WORD]) for n, word in enumerate(held)]
        place = Signal(2)
        with m.Switch(self.format):
            with m.Case(Format.Q4_1):
                m.d.comb += place.eq(self.index[:2])
            with m.Case(Format.Q4_0):
                m.d.comb += place.eq(self.index[1:3])
            with m.Default():
                m.d.comb += place.eq(self.index[2:4])
        word = Signal(WORD, reset_less=True)
        inside = Signal(2, reset_less=True)
        format = Signal(Format, reset_less=True)
        second = Signal(reset_less=True)
        m.d.sync += [
            word.eq(Mux(self.first, self.beat[:WORD], Array(held)[place])),
            inside.eq(self.index[:2]), format.eq(self.format), second.eq(self.second),
        ]
        half = Signal(32)
        patterns = [Signal(16, name=f"pattern_{name}") for name in ("d0", "d1", "m0", "m1")]
        m.d.comb += half.eq(Mux(Mux(format == Format.Q4_0, inside[0], inside[1]), word[32:], word[:32]))
        with m.Switch(format):
            with m.Case(Format.Q4_1):
                m.d.comb += [patterns[0].eq(word[:16]), patterns[2].eq(word[16:32])]
                with m.If(second):
                    m.d.comb += [patterns[1].eq(word[32:48]), patterns[3].eq(word[48:])]
            with m.Case(Format.Q4_0):
                m.d.comb += patterns[0].eq(half[:16])
                with m.If(second):
                    m.d.comb += patterns[1].eq(half[16:])
            with m.Default():
                m.d.comb += patterns[0].eq(Mux(inside[0], half[16:], half[:16]))
        for pattern, result in zip(patterns, (*self.scale, *self.minimum), strict=True):
            unpack_half(m, pattern, result)
        return m
