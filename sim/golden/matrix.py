"""Matrix times vector on GGUF codes (docs/numerics.md section 3), step by step in integers.

The same law arranged for speed is :mod:`sim.golden.matvec`.
"""

from typing import NamedTuple

import numpy as np

from sim.golden.fixed import round_shift
from sim.golden.fp32 import fp

__all__ = ["GUARD_BITS", "Weights", "accumulate", "dot", "largest_exponent", "row_results", "split_fp16", "term",
           "terms"]

GUARD_BITS = 12
"""G: bits of the row accumulator below the grid of the largest scale."""


class Weights(NamedTuple):
    """Rows of weights as GGUF has them."""

    codes: np.ndarray  # (rows, blocks, 32) int8: nibble - 8 (Q4_0), nibble (Q4_1), signed byte (Q8_0)
    scales: np.ndarray  # (rows, blocks) uint16, binary16 bits
    minima: np.ndarray | None = None  # (rows, blocks) uint16, binary16 bits; Q4_1 only


def split_fp16(bits):
    """(ms, es) of finite binary16 patterns: value = ms * 2^(es - 25), |ms| < 2^11, 1 <= es <= 30."""
    bits = np.asarray(bits).astype(np.int64)
    field, fraction = bits >> 10 & 31, bits & 0x3FF
    magnitude = np.where(field == 0, fraction, fraction | 0x400)
    return np.where(bits >> 15 == 1, -magnitude, magnitude), np.maximum(field, 1)


def largest_exponent(*weights):
    """E_w: the largest es of all scales and minima of the given :class:`Weights`."""
    patterns = [p for w in weights for p in (w.scales, w.minima) if p is not None]
    return int(max(split_fp16(p)[1].max() for p in patterns))


def dot(codes, mantissas):
    """Integer dot products along the last axis of 32."""
    return (codes.astype(np.int64) * mantissas).sum(axis=-1)


def term(product, fp16_mantissa, shift):
    """A dot product (or an operand block's sum) times an FP16 mantissa, placed on the accumulator's grid."""
    return round_shift(product * fp16_mantissa << GUARD_BITS, shift)


def terms(weights, operand, weight_exponent):
    """Terms (rows, blocks) of one operand (blocks, 32), scale and minimum terms added up."""
    behind = operand.largest - operand.exponents.astype(np.int64)
    ms, es = split_fp16(weights.scales)
    total = term(dot(weights.codes, operand.mantissas), ms, behind + (weight_exponent - es))
    if weights.minima is not None:
        mm, em = split_fp16(weights.minima)
        total = total + term(operand.sums.astype(np.int64), mm, behind + (weight_exponent - em))
    return total


def accumulate(weights, operand, weight_exponent):
    """Row accumulators (rows,) of one operand."""
    return terms(weights, operand, weight_exponent).sum(axis=-1)


def row_results(accumulators, largest, weight_exponent, bits):
    """binary32 of accumulators; *largest* is the operand's largest exponent, *bits* its mantissa width."""
    return fp(accumulators, np.int64(largest) - 127 - (bits - 2) + weight_exponent - 25 - GUARD_BITS)
