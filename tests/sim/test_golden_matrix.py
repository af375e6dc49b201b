"""Matrix times vector of the golden model against Python integers, floats and the widths that the law states."""

from fractions import Fraction

import numpy as np
import pytest

from sim.golden.block import Blocks, quantise
from sim.golden.matrix import Weights, accumulate, largest_exponent, row_results, split_fp16
from sim.golden.matvec import Matrix

ROWS, BLOCKS = 5, 3


def weights(rng, kind, rows=ROWS, blocks=BLOCKS):
    low, high = {"Q4_0": (-8, 8), "Q4_1": (0, 16), "Q8_0": (-128, 128)}[kind]
    codes = rng.integers(low, high, (rows, blocks, 32)).astype(np.int8)

    def halves():
        x = rng.normal(0, 0.1, (rows, blocks)) * np.exp2(rng.integers(-16, 3, (rows, blocks)))
        return x.astype(np.float16).view(np.uint16)

    return Weights(codes, halves(), halves() if kind == "Q4_1" else None)


def operands(rng, bits, positions=4, blocks=BLOCKS):
    x = rng.standard_normal((positions, blocks, 32)) * np.exp2(rng.integers(-40, 10, (positions, blocks, 1)))
    x[-1, 1] = 0
    return quantise(x.reshape(positions, -1).astype(np.float32), bits)


def one(blocks, position):
    return Blocks(*(part[position] for part in blocks))


def plain_row(w, row, operand, weight_exponent):
    """The law's section 3 for one row in Python integers."""
    acc = 0
    emax = max(operand.exponents.tolist())
    for b, e in enumerate(operand.exponents.tolist()):
        q = [int(c) for c in w.codes[row, b]]
        x = operand.mantissas[b].tolist()
        pairs = [(sum(c * m for c, m in zip(q, x, strict=True)), w.scales)]
        if w.minima is not None:
            pairs.append((sum(x), w.minima))
        for product, patterns in pairs:
            pattern = int(patterns[row, b])
            field, mantissa = pattern >> 10 & 31, pattern & 1023
            mantissa += 1024 if field else 0
            mantissa = -mantissa if pattern >> 15 else mantissa
            shift = (emax - e) + (weight_exponent - max(field, 1))
            acc += round(Fraction(product * mantissa * 2**12, 2**shift))
    return acc


def test_split_fp16_of_every_finite_pattern():
    bits = np.arange(65536, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    ms, es = split_fp16(bits)
    assert (np.ldexp(ms.astype(np.float64), es - 25) == bits.view(np.float16)).all()
    assert np.abs(ms).max() < 2**11 and es.min() == 1 and es.max() == 30


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("bits", [8, 12, 13, 16])
def test_accumulators_equal_python_integers(kind, bits):
    rng = np.random.default_rng(bits)
    w = weights(rng, kind)
    x = operands(rng, bits)
    exponent = largest_exponent(w)
    fast = Matrix(w, exponent, bits).accumulate(x)
    for p in range(4):
        operand = one(x, p)
        expected = [plain_row(w, r, operand, exponent) for r in range(ROWS)]
        assert accumulate(w, operand, exponent).tolist() == expected
        assert fast[p].tolist() == expected


def test_largest_exponent_is_over_scales_and_minima_of_all():
    def with_scales(scale, minimum):
        half = [np.full((1, 1), v, np.float16).view(np.uint16) for v in (scale, minimum)]
        return Weights(np.zeros((1, 1, 32), np.int8), *half)

    assert largest_exponent(with_scales(0.5, 1.0), with_scales(0.25, 4.0)) == 17
    assert largest_exponent(with_scales(0.0, 2.0**-24)) == 1


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_results_are_near_the_real_product(kind):
    rng = np.random.default_rng(7)
    w = weights(rng, kind, 40, 9)
    x = rng.standard_normal((6, 288)).astype(np.float32)
    real = w.codes * w.scales.view(np.float16).astype(np.float64)[..., None]
    real = real if w.minima is None else real + w.minima.view(np.float16).astype(np.float64)[..., None]
    real = real.reshape(40, -1)
    error = Matrix(w, largest_exponent(w), 16)(quantise(x, 16)) - x @ real.T
    assert np.abs(error).max() < 2e-4 * np.abs(real).sum(axis=1).max()


def test_fast_path_holds_the_largest_dots():
    """Every product near its largest: float32 dots stay exact to 13 bits, and 16 bits take float64."""
    rng = np.random.default_rng(8)
    for bits in (12, 13, 16):
        w = Weights(rng.integers(-128, -124, (2, 4, 32)).astype(np.int8), np.full((2, 4), 0x7BFF, np.uint16))
        top = 2 ** (bits - 1) - rng.integers(1, 4, (1, 4, 32)).astype(np.int32)
        x = Blocks(top, np.full((1, 4), 130, np.int32), top.sum(axis=-1))
        assert Matrix(w, 30, bits).accumulate(x)[0].tolist() == [plain_row(w, r, one(x, 0), 30) for r in range(2)]


@pytest.mark.parametrize("bits, width", [(12, 58), (16, 62)])
def test_accumulator_width_of_the_longest_row(bits, width):
    """65,536 columns with every factor at its largest, minima included, stay inside the width that the law states."""
    dot = 32 * 128 * 2 ** (bits - 1)
    sums = 32 * 2 ** (bits - 1)
    blocks = 65536 // 32
    assert blocks * (dot * 2047 << 12) < 2 ** (width - 1)
    nibble = 32 * 15 * 2 ** (bits - 1)
    assert blocks * (nibble + sums) * (2047 << 12) < 2 ** (width - 1)


def test_row_results_scale():
    """A one-element operand of 1.0 times a weight of 3 * 0.5."""
    codes = np.zeros((1, 1, 32), np.int8)
    codes[0, 0, 0] = 3
    w = Weights(codes, np.array([[0x3800]], np.uint16))
    x = quantise(np.eye(1, 32, dtype=np.float32), 12)
    acc = accumulate(w, one(x, 0), 20)
    assert row_results(acc, x.largest[0], 20, 12).tolist() == [1.5]
