"""Integers, binary32 and block floating point of the golden model against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from sim.golden.block import quantise, values
from sim.golden.fixed import bit_length, round_shift, saturate
from sim.golden.fp32 import add, flush, fp, from_bits, mul, sub, to_bits

SMALLEST = Fraction(1, 2**126)


def power(e):
    return Fraction(2) ** e


def round_to_bits(x, bits):
    """Nearest fraction with a mantissa of *bits* bits, ties to even, unbounded exponent."""
    if x == 0:
        return x
    e = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    e = e if abs(x) >= power(e) else e - 1
    unit = power(e - bits + 1)
    return round(x / unit) * unit  # round() of a Fraction is ties to even


def law_value(x):
    """A float32's value with small magnitudes counted as zero."""
    x = Fraction(float(x))
    return x if abs(x) >= SMALLEST else Fraction(0)


def patterns(rng, count):
    """Finite float32: random fields, crowded near the smallest normal, and special cases."""
    field = rng.choice([0, 1, 2, 20, 63, 64, 100, 126, 127, 128, 150], count).astype(np.uint32)
    sign, fraction = (rng.integers(0, n, count).astype(np.uint32) for n in (2, 2**23))
    x = from_bits(sign << 31 | field << 23 | fraction)
    x[:8] = [0.0, -0.0, 2.0**-126, -(2.0**-126), 1.0, -1.0, 2.0**-149, 1.9999999]
    return x


def test_round_shift_equals_fractions():
    rng = np.random.default_rng(1)
    widths = rng.integers(0, 62, 4000)
    values = np.array([int(rng.integers(-(2**w), 2**w + 1)) for w in widths], np.int64)
    shifts = rng.integers(0, 80, 4000)
    ties = (np.arange(-200, 201), np.full(401, 3))
    for v, s in ((values, shifts), ties, (np.array([2**62 - 1, 1 - 2**62]), np.array([62, 62]))):
        expected = [round(Fraction(int(a), 2 ** int(b))) for a, b in zip(v, s, strict=True)]
        assert round_shift(v, s).tolist() == expected


def test_bit_length_near_powers_of_two():
    values = [max(0, 2**n + d) for n in range(63) for d in (-2, -1, 0, 1) if 2**n + d < 2**63]
    assert bit_length(values).tolist() == [v.bit_length() for v in values]


def test_saturate_is_symmetric():
    assert saturate(np.array([-129, -128, -127, 127, 128]), 8).tolist() == [-127, -127, -127, 127, 127]


@pytest.mark.parametrize("name", ["mul", "add", "sub"])
def test_binary32_equals_fractions(name):
    rng = np.random.default_rng(2)
    a, b = patterns(rng, 3000), patterns(np.random.default_rng(3), 3000)
    a[100:200] = -b[100:200]
    got = {"mul": mul, "add": add, "sub": sub}[name](a, b)
    for x, y, z in zip(a, b, got, strict=True):
        x, y = law_value(x), law_value(y)
        exact = {"mul": x * y, "add": x + y, "sub": x - y}[name]
        if abs(exact) < SMALLEST:
            assert z == 0
        elif abs(exact) < power(127):
            assert Fraction(float(z)) == round_to_bits(exact, 24), (x, y, z)


def test_signs_of_zero():
    tiny, one = np.float32(2.0**-126), np.float32(1)
    half = np.float32(0.5)
    signs = {
        "product below the smallest": (mul(-tiny, half), True),
        "product that would round up to the smallest": (mul(-tiny, np.float32(1 - 2**-24)), True),
        "sum below the smallest": (add(np.float32(-1.5 * 2.0**-126), tiny), True),
        "x - x": (sub(one, one), False),
        "-0 + -0": (add(np.float32(-0.0), np.float32(-0.0)), True),
        "-0 + 0": (add(np.float32(-0.0), np.float32(0.0)), False),
        "input below the smallest": (flush(np.float32(-(2.0**-130))), True),
        "negative integer below the smallest": (fp(-1, -140), False),
    }
    for what, (value, negative) in signs.items():
        assert value == 0 and np.signbit(value) == negative, what


def test_fp_equals_fractions():
    rng = np.random.default_rng(4)
    v = np.array([int(rng.integers(-(2**w), 2**w)) for w in rng.integers(0, 62, 4000)], np.int64)
    e = rng.integers(-200, 60, 4000)
    v[:4], e[:4] = [2**25 - 1, 2**61 - 1, 2**24 - 1, 1], [-151, -187, -150, -126]
    for a, b, z in zip(v, e, fp(v, e), strict=True):
        exact = int(a) * power(int(b))
        if abs(exact) < SMALLEST:
            assert z == 0 and not np.signbit(z)
        elif abs(exact) < power(127):
            assert Fraction(float(z)) == round_to_bits(exact, 24)


def test_overflow_is_not_finite():
    big = np.float32(3e38)
    assert not np.isfinite([mul(big, big), add(big, big), fp(2**60, 70)]).any()


def test_bits_round_trip():
    x = patterns(np.random.default_rng(5), 100)
    assert (to_bits(from_bits(to_bits(x))) == to_bits(x)).all()


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_block_equals_fractions(bits):
    rng = np.random.default_rng(bits)
    x = (rng.standard_normal((7, 96)) * np.exp2(rng.integers(-30, 30, (7, 96)))).astype(np.float32)
    x[0] = 0
    x[1, :32] = np.float32(2.0**-140)
    x[2, 0] = np.nextafter(np.float32(2), np.float32(0))  # saturates
    x[2, 1:32] = 0
    blocks = quantise(x, bits)
    for row, mantissas, exponents, sums in zip(x, *blocks, strict=True):
        for b in range(3):
            part = [law_value(e) for e in row[32 * b:32 * b + 32]]
            largest = max(map(abs, part))
            e = 0
            while largest and not power(e - 127) <= largest < power(e - 126):
                e += 1
            limit = 2 ** (bits - 1) - 1
            expected = [max(-limit, min(limit, round(p * power(127 - e + bits - 2)))) for p in part]
            assert exponents[b] == e and mantissas[b].tolist() == expected and sums[b] == sum(expected)


def test_block_error_is_half_a_unit_of_the_last_place():
    x = np.random.default_rng(6).standard_normal((50, 64)).astype(np.float32)
    blocks = quantise(x, 12)
    unit = np.exp2(blocks.exponents - 127.0 - 10).repeat(32, axis=-1)
    error = np.abs(values(blocks, 12) - x) / unit
    saturated = np.abs(blocks.mantissas.reshape(x.shape)) == 2047
    assert error[~saturated].max() <= 0.5 and error.max() <= 1
