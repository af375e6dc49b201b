"""The softmax numerator 2^(d/4096) by table and straight line (docs/numerics.md section 4)."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.interfaces import SCORE_BITS
from hw.slice.pipe import round_shift, rounded
from hw.tables import SOFTMAX, SOFTMAX_SEGMENTS

__all__ = ["NUMERATOR_BITS", "SHIFT_LIMIT", "SoftmaxLine"]

NUMERATOR_BITS = 16
FRACTION_BITS = 12
REST_BITS = FRACTION_BITS - (SOFTMAX_SEGMENTS.bit_length() - 1)

LARGEST = 2**NUMERATOR_BITS - 1
"""p(0) would be one more."""

SHIFT_LIMIT = 31
"""A larger shift of a 22-bit line or a 16-bit numerator gives the same: 0."""


class SoftmaxLine(Component):
    """``numerator`` = p(``difference``), in units of 2^-16, 5 clocks after its difference; one a clock.

    ``zero``, given 4 clocks after the difference, makes the numerator 0. Stands still while ``active`` is low.
    """

    active: In(1)
    difference: In(signed(SCORE_BITS + 1))
    zero: In(1)
    numerator: Out(NUMERATOR_BITS)

    def elaborate(self, platform):
        m = Module()
        steps = [right - left for left, right in zip(SOFTMAX, SOFTMAX[1:], strict=False)]
        left_bits = SOFTMAX[-2].bit_length()
        m.submodules.table = table = Memory(
            shape=StructLayout({"left": left_bits, "step": max(steps).bit_length()}), depth=SOFTMAX_SEGMENTS,
            init=[{"left": left, "step": step} for left, step in zip(SOFTMAX, steps, strict=False)])
        read = table.read_port()
        d = Signal.like(self.difference, reset_less=True)
        whole = d[FRACTION_BITS:].as_signed()
        shift = [Signal(range(SHIFT_LIMIT + 1), reset_less=True, name=f"shift_{n}") for n in range(2)]
        rest = Signal(REST_BITS, reset_less=True)
        line = Signal(left_bits + REST_BITS, reset_less=True)
        p = Signal(NUMERATOR_BITS, reset_less=True)
        m.d.comb += [read.addr.eq(d[REST_BITS:FRACTION_BITS]), read.en.eq(self.active), self.numerator.eq(p)]
        with m.If(self.active):
            parts = round_shift(m, line, shift[1], "line")
            m.d.sync += [
                d.eq(self.difference),
                rest.eq(d[:REST_BITS]),
                shift[0].eq(Mux(whole < REST_BITS - SHIFT_LIMIT, SHIFT_LIMIT, REST_BITS - whole)),
                line.eq((read.data.left << REST_BITS) + read.data.step * rest),
                shift[1].eq(shift[0]),
                p.eq(Mux(parts[0] >= LARGEST, LARGEST, parts[0] + rounded(*parts))),
            ]
            with m.If(self.zero):
                m.d.sync += p.eq(0)
        return m
