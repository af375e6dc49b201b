"""Codes of a data beat and FP16 scales of its blocks, as signed integers."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK
from hw.interfaces import BEAT
from hw.isa import Format
from hw.slice.pipe import LANE, extended

__all__ = ["Dequantiser", "Half", "unpack_half"]

Half = StructLayout({
    "mantissa": signed(12),  # magnitude below 2^11
    "exponent": 5,  # 1 to 30
})
"""A finite FP16 number, mantissa * 2^(exponent - 25)."""


def unpack_half(m, bits, result):
    """Drive *result* (:data:`Half`) with the FP16 pattern *bits*; combinational."""
    field = bits[10:15]
    normal = field.any()
    magnitude = Cat(bits[:10], normal)
    m.d.comb += [
        result.mantissa.eq(Mux(bits[15], -magnitude, magnitude)),
        result.exponent.eq(Mux(normal, field, 1)),
    ]


class Dequantiser(Component):
    """Signed codes of one beat for the multiplier pool. Latency 1, one beat a clock.

    A nibble beat is two blocks, the first in the low 16 bytes: low nibbles are elements 0 to 15, high nibbles 16 to
    31. Any other beat (Q8_0, K, V) is 32 signed bytes.

    Members: ``beat``; ``nibbles``, the beat has nibbles, of ``format``; ``low``, codes of the first block or the 32
    bytes (pool row 0 and rows above 1); ``high``, codes of the second block or the 32 bytes (pool row 1).
    """

    beat: In(BEAT)
    nibbles: In(1)
    format: In(Format)
    low: Out(LANE).array(BLOCK)
    high: Out(LANE).array(BLOCK)

    def elaborate(self, platform):
        m = Module()
        bias = Signal(LANE)
        m.d.comb += bias.eq(Mux(self.format == Format.Q4_0, 8, 0))
        for codes, first in ((self.low, 0), (self.high, BEAT // 2)):
            for lane, code in enumerate(codes):
                nibble = self.beat[first + lane % 16 * 8 + lane // 16 * 4:][:4]
                register = Signal(LANE, reset_less=True, name=f"code_{first}_{lane}")
                byte = self.beat[lane * 8:][:8].as_signed()
                m.d.sync += register.eq(Mux(self.nibbles, (nibble - bias)[:32].as_signed(), extended(byte)))
                m.d.comb += code.eq(register)
        return m
