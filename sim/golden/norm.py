"""RMS norm, split round the matrix that follows it (docs/numerics.md section 5).

Vectors lie along the last axis; leading axes are positions.
"""

from math import e, log2, sqrt

import numpy as np

from sim.golden.block import BLOCK, quantise
from sim.golden.fp32 import add, mul
from sim.golden.functions import rsqrt

__all__ = ["fold", "inverse_rms", "operand", "partial_sums", "query_scale", "sum_of_squares"]


def operand(x, weights, bits):
    """Blocks of RN(x * weights): the operand of the next matrix, not yet divided by the rms."""
    return quantise(mul(x, weights), bits)


def partial_sums(x):
    """32 running sums (..., 32): sum j takes RN(x_i^2) for i = j mod 32 in rising i."""
    x = np.asarray(x, np.float32)
    squares = mul(x, x).reshape(*x.shape[:-1], -1, BLOCK)
    sums = np.zeros(squares.shape[:-2] + (BLOCK,), np.float32)
    for i in range(squares.shape[-2]):
        sums = add(sums, squares[..., i, :])
    return sums


def fold(sums):
    """The sum of 32 partial sums: s_j + s_(j+16), then + s_(j+8), ... s_0 + s_1."""
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = add(sums[..., :half], sums[..., half:])
    return sums[..., 0]


def sum_of_squares(x):
    """Sum of squares in the law's order, (...)."""
    return fold(partial_sums(x))


def inverse_rms(x, eps):
    """rsqrt(RN(RN(ss * RN(1/n)) + eps)), (...) float32."""
    mean = mul(sum_of_squares(x), np.float32(1 / np.shape(x)[-1]))
    return rsqrt(add(mean, np.float32(eps)))


def query_scale(head_width):
    """RN(log2(e) / sqrt(head width)): scores come out in log2 units."""
    return np.float32(log2(e) / sqrt(head_width))
