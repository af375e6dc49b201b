"""Tables, functions, norm, RoPE and SiLU of the golden model: plain Python formulations and the stated error bounds."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

from hw import tables
from sim.golden.activation import silu_mul
from sim.golden.fp32 import from_bits, to_bits
from sim.golden.functions import exp2, rcp, rsqrt, softmax_p
from sim.golden.norm import inverse_rms, partial_sums, query_scale, sum_of_squares
from sim.golden.rope import rotate


def nearest_root(n, d, power):
    """The integer nearest to (n / d)^(1 / power), by bisection on exact integers."""
    low, high = 0, 2**30
    while low < high:  # largest r with (r - 1/2)^power <= n / d
        middle = (low + high + 1) // 2
        if (2 * middle - 1) ** power * d <= n * 2**power:
            low = middle
        else:
            high = middle - 1
    return low


def test_tables_are_rounded_exactly():
    for k in range(257):
        assert tables.RCP[k] == round(Fraction(2**24 * 256, 256 + k))
        assert tables.RSQRT_EVEN[k] == nearest_root(2**48 * 256, 256 + k, 2)
        assert tables.RSQRT_ODD[k] == nearest_root(2**48 * 128, 256 + k, 2)
    for k in range(0, 257, 16):
        assert tables.EXP2[k] == nearest_root(2 ** (23 * 256 + k), 1, 256)
    for k in range(0, 129, 8):
        assert tables.SOFTMAX[k] == nearest_root(2 ** (16 * 128 + k), 1, 128)
    assert tables.RSQRT_ODD[0] == isqrt(2**47)


def plain_line(table, k, r):
    return table[k] + (((table[k + 1] - table[k]) * r + 2**14) >> 15)


def plain(name, x):
    """rcp, rsqrt or exp2 of one float in Python integers, as a Fraction."""
    if name == "exp2":
        n = max(-126 * 65536, min(126 * 65536, round(Fraction(float(x)) * 65536)))
        i, g = divmod(n, 65536)
        return plain_line(tables.EXP2, g // 256, g % 256 * 128) * Fraction(2) ** (i - 23)
    pattern = int(to_bits(x))
    e, k, r = (pattern >> 23) - 127, pattern >> 15 & 255, pattern & 32767
    if name == "rcp":
        value = plain_line(tables.RCP, k, r) * Fraction(2) ** (-24 - e)
    elif e % 2 == 0:
        value = plain_line(tables.RSQRT_EVEN, k, r) * Fraction(2) ** (-24 - e // 2)
    else:
        value = plain_line(tables.RSQRT_ODD, k, r) * Fraction(2) ** (-24 - (e - 1) // 2)
    return value if value >= Fraction(1, 2**126) else Fraction(0)


@pytest.mark.parametrize("name", ["rcp", "rsqrt", "exp2"])
def test_functions_equal_plain_integers(name):
    rng = np.random.default_rng(1)
    if name == "exp2":
        x = np.concatenate([rng.uniform(-130, 130, 1500), rng.normal(0, 1, 500), [0.0, -0.0, 126, -126, 1e30, -1e30]])
        x = x.astype(np.float32)
    else:
        fields = rng.integers(1, 255, 2000).astype(np.uint32)
        x = from_bits(fields << 23 | rng.integers(0, 2**23, 2000).astype(np.uint32))
        x[:5] = [2.0**126, 2.0**126 * 1.5, 2.0**127, 2.0**-126, 1.0]
    got = {"rcp": rcp, "rsqrt": rsqrt, "exp2": exp2}[name](x)
    assert got.dtype == np.float32
    assert [Fraction(float(y)) for y in got] == [plain(name, v) for v in x]


@pytest.mark.parametrize("name, exponent, bound", [
    ("rcp", 127, 2.0**-17), ("rsqrt", 127, 2.0**-18), ("rsqrt", 128, 2.0**-18)])
def test_error_bound_over_every_significand(name, exponent, bound):
    """The exponent only moves the result, so that one (two for rsqrt) proves the bound."""
    x = from_bits(np.arange(2**23, dtype=np.uint32) | np.uint32(exponent << 23))
    wide = x.astype(np.float64)
    got, scale = (rcp(x), wide) if name == "rcp" else (rsqrt(x), np.sqrt(wide))
    assert np.abs(got * scale - 1).max() < bound


def test_exp2_error_bound():
    far = np.random.default_rng(2).uniform(-126, 126, 500_000)
    t = np.concatenate([np.arange(2**18) / 2**18, far]).astype(np.float32)
    assert np.abs(exp2(t) / np.exp2(t.astype(np.float64)) - 1).max() < 2.0**-16


def test_softmax_numerator():
    d = -np.arange(40 * 4096)
    p = softmax_p(d)
    assert np.abs(p / 2**16 - np.exp2(d / 4096)).max() < 2.0**-15
    for v in [*range(0, -140_000, -617), -(2**24), -(2**25)]:
        i, f = -(v // 4096), v % 4096
        k, r = divmod(f, 32)
        y = 32 * tables.SOFTMAX[k] + (tables.SOFTMAX[k + 1] - tables.SOFTMAX[k]) * r
        assert softmax_p(v) == min(65535, round(Fraction(y, 2 ** (5 + i))))
    assert (np.diff(p) <= 0).all() and p[0] == 65535 and p[-1] == 0


def test_silu_is_near_the_real_one():
    rng = np.random.default_rng(3)
    a = np.concatenate([rng.normal(0, 4, 100_000), rng.uniform(-80, 80, 100_000)]).astype(np.float32)
    b = rng.normal(0, 2, a.size).astype(np.float32)
    wide = a.astype(np.float64)
    real = wide / (1 + np.exp(-wide)) * b
    assert np.abs(silu_mul(a, b) / real - 1).max() < 2.0**-15


def test_silu_rounds_in_the_laws_order():
    rng = np.random.default_rng(3)
    pairs = rng.normal(0, 3, (500, 2)).astype(np.float32)
    for (a, b), y in zip(pairs, silu_mul(*pairs.T), strict=True):
        d = np.float32(1) + np.float32(float(plain("exp2", a * np.float32(-1.4426950408889634))))
        assert y == a * np.float32(float(plain("rcp", d))) * b


def test_sum_of_squares_has_the_laws_order():
    x = np.random.default_rng(4).standard_normal(160).astype(np.float32)
    sums = [np.float32(0)] * 32
    for i, v in enumerate(x):
        sums[i % 32] = sums[i % 32] + v * v
    assert partial_sums(x).tolist() == sums
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [sums[j] + sums[j + half] for j in range(half)]
    assert sum_of_squares(x) == sums[0]


def test_inverse_rms_and_query_scale():
    x = np.random.default_rng(5).standard_normal((3, 96)).astype(np.float32)
    real = 1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1) + 1e-5)
    assert np.abs(inverse_rms(x, 1e-5) / real - 1).max() < 2.0**-17
    assert query_scale(64) == np.float32(0.18033688011112042)


def test_rope_turns_each_pair():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 3, 8)).astype(np.float32)
    angles = rng.uniform(-9, 9, 4)
    row = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1).astype(np.float32)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    got = rotate(x, row)
    assert np.abs(got[..., 0::2] + 1j * got[..., 1::2] - turned).max() < 1e-6
    a, b, c, s = x[1, 2, 2], x[1, 2, 3], row[2], row[3]
    assert got[1, 2, 2:4].tolist() == [a * c - b * s, a * s + b * c]
