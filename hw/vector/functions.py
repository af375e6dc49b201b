"""Reciprocal, inverse square root and 2^t of binary32 by table and straight line: docs/numerics.md section 4.

Free-running pipelines, one result a clock, ``LATENCY`` clocks after ``valid`` with ``x``. ``error`` is high beside a
valid result whose argument was zero, infinite or NaN where the function has no finite value.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw import tables
from hw.vector.fp32 import BIAS, FLOAT, INFINITE
from hw.vector.pipe import delay, delay_valid

__all__ = ["Exp2", "InverseRoot", "Reciprocal"]

SEGMENT = StructLayout({"left": 25, "step": signed(17)})
"""A table entry and the way to its successor."""

REST = 15
"""Bits of the position inside a segment."""


def segments(table):
    return [{"left": left, "step": right - left} for left, right in zip(table, table[1:], strict=False)]


def lookup(m, rows, address):
    """The :data:`SEGMENT` at *address*, one clock later."""
    m.submodules.table = table = Memory(shape=SEGMENT, depth=len(rows), init=rows)
    port = table.read_port(domain="comb")
    m.d.comb += port.addr.eq(address)
    return delay(m, port.data, 1, "segment")


def interpolate(m, segment, rest):
    """left + (step * rest + 2^14 >> 15), 25 bits, in the same clock."""
    product, y = Signal(signed(32)), Signal(25)
    m.d.comb += [product.eq(segment.step * rest + (1 << REST - 1)), y.eq(segment.left + (product >> REST))]
    return y


class Reciprocal(Component):
    """1/x of x > 0; results below 2^-126 are +0. Relative error below 2^-17."""

    LATENCY = 2

    valid: In(1)
    x: In(FLOAT)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        segment = lookup(m, segments(tables.RCP), self.x.fraction[REST:])
        y = interpolate(m, segment, delay(m, self.x.fraction[:REST], 1, "rest"))
        exponent = Signal(signed(10))
        m.d.comb += exponent.eq(2 * BIAS - 1 - delay(m, self.x.exponent, 1, "exponent") + y[24])
        bad = delay(m, (self.x.exponent == 0) | (self.x.exponent == INFINITE), 1, "bad")
        o = Signal(32, reset_less=True)
        m.d.sync += [
            o.eq(Mux(exponent > 0, Cat(y[:23], exponent[:8]), 0)),
            self.error.eq(delay_valid(m, self.valid, 1, "valid") & bad),
        ]
        m.d.comb += self.o.eq(o)
        return m


class InverseRoot(Component):
    """1/sqrt(x) of x > 0. Relative error below 2^-18."""

    LATENCY = 2

    valid: In(1)
    x: In(FLOAT)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        even = Signal()
        m.d.comb += even.eq(self.x.exponent[0] == BIAS & 1)
        segment = lookup(m, segments(tables.RSQRT_ODD) + segments(tables.RSQRT_EVEN),
                         Cat(self.x.fraction[REST:], even))
        y = interpolate(m, segment, delay(m, self.x.fraction[:REST], 1, "rest"))
        half = delay(m, (self.x.exponent + 1) >> 1, 1, "half")
        exponent = Signal(8)
        m.d.comb += exponent.eq(BIAS - 1 + (BIAS + 1) // 2 - half + y[24])
        bad = delay(m, (self.x.exponent == 0) | (self.x.exponent == INFINITE), 1, "bad")
        o = Signal(32, reset_less=True)
        m.d.sync += [
            o.eq(Cat(y[:23], exponent)),
            self.error.eq(delay_valid(m, self.valid, 1, "valid") & bad),
        ]
        m.d.comb += self.o.eq(o)
        return m


class Exp2(Component):
    """2^x, x clipped to +-126 (infinity too). Relative error below 2^-16."""

    LATENCY = 3

    POINT = 16
    """Fraction bits of the fixed-point argument."""
    LIMIT = 126 << POINT

    valid: In(1)
    x: In(FLOAT)
    o: Out(32)

    def elaborate(self, platform):
        m = Module()
        # x = fraction * 2^(exponent - 150); the fixed-point value is fraction >> (134 - exponent), rounded.
        largest = BIAS + 6
        behind, places = Signal(9), Signal(5)
        shifted = Signal(49)
        rounded = Signal(24)
        magnitude = Signal(23, reset_less=True)
        m.d.comb += [
            behind.eq(largest - self.x.exponent),
            places.eq(Mux(behind > 25, 25, behind)),
            shifted.eq(Cat(self.x.fraction, self.x.exponent != 0) << 25 >> places),
            rounded.eq(shifted[26:] + (shifted[25] & (shifted[26] | (shifted[:25] != 0)))),
        ]
        m.d.sync += magnitude.eq(Mux((self.x.exponent > largest) | (rounded > self.LIMIT), self.LIMIT, rounded))

        fixed = Signal(signed(24))
        m.d.comb += fixed.eq(Mux(delay(m, self.x.sign, 1, "sign"), -magnitude, magnitude))
        segment = lookup(m, segments(tables.EXP2), fixed[8:self.POINT])
        y = interpolate(m, segment, Cat(*[0] * 7, delay(m, fixed[:8], 1, "rest")))
        exponent = Signal(8)
        m.d.comb += exponent.eq(delay(m, fixed[self.POINT:], 1, "exponent").as_signed() + BIAS)
        m.d.comb += self.o.eq(delay(m, Cat(y[:23], exponent), 1, "o"))
        return m
