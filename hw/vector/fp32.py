"""binary32 adder, multiplier and conversion from integers: docs/numerics.md section 1.

Free-running pipelines, one result a clock: inputs with ``valid`` in clock t give the result in clock t + LATENCY.
``error`` is high beside a valid result that is infinite or NaN (or came from an operand that is); such a result is
unspecified.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.vector.pipe import delay, delay_valid

__all__ = ["FLOAT", "Adder", "FromInteger", "Multiplier", "normalise"]

FLOAT = StructLayout({"fraction": 23, "exponent": 8, "sign": 1})
"""Fields of binary32."""

INFINITE = 255
"""Exponent byte of infinity and NaN."""

BIAS = 127


def normalise(m, value, name):
    """(*value* shifted left until its top bit is set, the number of places); a zero stays zero."""
    width = len(value)
    places = []
    step = 1 << (width - 1).bit_length() - 1
    while step:
        shift = Signal(name=f"{name}_by_{step}")
        shifted = Signal(width, name=f"{name}_{step}")
        m.d.comb += [
            shift.eq(value[max(0, width - step):] == 0),
            shifted.eq(Mux(shift, value << step, value)),
        ]
        places.insert(0, shift)
        value = shifted
        step >>= 1
    return value, Cat(*places)


def round_and_pack(m, mantissa, exponent, sign, name):
    """(32 bits, overflow) of *mantissa* (top bit set, at least 25 bits, the lowest sticky), rounded once to 24 bits.

    *exponent* is biased and signed. Exact magnitudes below 2^-126, and a mantissa without its top bit, give zero of
    *sign*.
    """
    rest = len(mantissa) - 24
    up, nonzero = Signal(name=f"{name}_up"), Signal(name=f"{name}_nonzero")
    rounded = Signal(signed(23 + len(exponent)), name=f"{name}_rounded")
    overflow = Signal(name=f"{name}_overflow")
    sticky = (mantissa[:rest - 1] != 0) | mantissa[rest] if rest > 1 else mantissa[rest]
    m.d.comb += [
        up.eq(mantissa[rest - 1] & sticky),
        nonzero.eq(mantissa[-1] & (exponent > 0)),
        rounded.eq(Cat(mantissa[rest:-1], exponent).as_signed() + up),
        overflow.eq(nonzero & ((rounded >> 23) >= INFINITE)),
    ]
    return Cat(Mux(nonzero, rounded[:31], 0), sign), overflow


class Adder(Component):
    """RN(a + b); sums below 2^-126 are zero of their sign, x + (-x) is +0. Subtract by flipping b's sign bit."""

    LATENCY = 4

    valid: In(1)
    a: In(32)
    b: In(32)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        swap = Signal()
        larger, smaller = Signal(FLOAT, reset_less=True), Signal(FLOAT, reset_less=True)
        m.d.comb += swap.eq(self.b[:31] > self.a[:31])
        m.d.sync += [
            larger.eq(Mux(swap, self.b, self.a)),
            smaller.eq(Mux(swap, self.a, self.b)),
        ]

        # Three bits below the larger mantissa keep the sum exact enough for one rounding, if the last is sticky.
        behind, places = Signal(8), Signal(5)
        aligned = Signal(50)
        left, right = Signal(27), Signal(27)
        subtract = Signal()
        total, sign = Signal(28, reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            behind.eq(larger.exponent - smaller.exponent),
            places.eq(Mux(behind > 31, 31, behind)),
            aligned.eq(Mux(smaller.exponent == 0, 0, Cat(smaller.fraction, 1) << 26) >> places),
            left.eq(Mux(larger.exponent == 0, 0, Cat(larger.fraction, 1) << 3)),
            right.eq(Cat(aligned[23] | (aligned[:23] != 0), aligned[24:])),
            subtract.eq(larger.sign ^ smaller.sign),
        ]
        m.d.sync += [
            total.eq(Mux(subtract, left - right, left + right)),
            sign.eq(larger.sign & ~(subtract & (left == right))),
        ]

        top = delay(m, larger.exponent, 1, "top")
        shifted, lead = normalise(m, total, "normalise")
        mantissa = Signal(28, reset_less=True)
        exponent = Signal(signed(10), reset_less=True)
        m.d.sync += [mantissa.eq(shifted), exponent.eq(top + 1 - lead)]

        packed, overflow = round_and_pack(m, mantissa, exponent, delay(m, sign, 1, "sign"), "pack")
        bad = delay(m, larger.exponent == INFINITE, 2, "bad")
        done = delay_valid(m, self.valid, 3, "valid")
        o = Signal(32, reset_less=True)
        m.d.sync += [o.eq(packed), self.error.eq(done & (overflow | bad))]
        m.d.comb += self.o.eq(o)
        return m


class Multiplier(Component):
    """RN(a * b); products whose exact magnitude is below 2^-126 are zero of their sign."""

    LATENCY = 2

    valid: In(1)
    a: In(32)
    b: In(32)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        a, b = Signal(FLOAT), Signal(FLOAT)
        zero = Signal()
        exact = Signal(48, reset_less=True)
        exponent = Signal(signed(11), reset_less=True)
        m.d.comb += [
            Cat(a).eq(self.a), Cat(b).eq(self.b),
            zero.eq((a.exponent == 0) | (b.exponent == 0)),
        ]
        m.d.sync += [
            exact.eq(Cat(a.fraction, 1) * Cat(b.fraction, 1)),
            exponent.eq(Mux(zero, 0, a.exponent + b.exponent - BIAS)),
        ]
        sign = delay(m, a.sign ^ b.sign, 1, "sign")
        bad = delay(m, (a.exponent == INFINITE) | (b.exponent == INFINITE), 1, "bad")
        nonzero = delay(m, ~zero, 1, "nonzero")

        mantissa = Signal(48)
        normal = Signal(signed(11))
        m.d.comb += [
            mantissa.eq(Mux(exact[47], exact, exact << 1) & nonzero.replicate(48)),
            normal.eq(exponent + exact[47]),
        ]
        packed, overflow = round_and_pack(m, mantissa, normal, sign, "pack")
        done = delay_valid(m, self.valid, 1, "valid")
        o = Signal(32, reset_less=True)
        m.d.sync += [o.eq(packed), self.error.eq(done & (overflow | bad))]
        m.d.comb += self.o.eq(o)
        return m


class FromInteger(Component):
    """fp(value, exponent): RN of the signed ``value`` times 2^``exponent``; exact magnitudes below 2^-126 give +0.

    ``exponent`` is signed, 12 bits.
    """

    LATENCY = 3

    def __init__(self, width):
        self._width = width
        super().__init__({
            "valid": In(1),
            "value": In(signed(width)),
            "exponent": In(signed(12)),
            "o": Out(32),
            "error": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        width = max(self._width, 26)
        magnitude = Signal(width, reset_less=True)
        biased = Signal(signed(13), reset_less=True)
        m.d.sync += [
            magnitude.eq(Mux(self.value[-1], -self.value, self.value)),
            biased.eq(self.exponent + (BIAS + width - 1)),
        ]
        shifted, lead = normalise(m, magnitude, "normalise")
        mantissa = Signal(26, reset_less=True)
        exponent = Signal(signed(13), reset_less=True)
        m.d.sync += [
            mantissa.eq(Cat(shifted[:width - 25] != 0, shifted[width - 25:])),
            exponent.eq(biased - lead),
        ]
        packed, overflow = round_and_pack(m, mantissa, exponent, 0, "pack")
        sign = delay(m, self.value[-1], 2, "sign")
        done = delay_valid(m, self.valid, 2, "valid")
        o = Signal(32, reset_less=True)
        m.d.sync += [
            o.eq(Cat(packed[:31], sign & (packed[:31] != 0))),
            self.error.eq(done & overflow),
        ]
        m.d.comb += self.o.eq(o)
        return m
