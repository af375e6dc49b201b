"""Reciprocal, inverse square root, 2^t, softmax numerator: table and straight line (docs/numerics.md section 4)."""

import numpy as np

from hw import tables
from sim.golden.fixed import round_shift
from sim.golden.fp32 import MIN_NORMAL, flush, to_bits

__all__ = ["exp2", "rcp", "rsqrt", "softmax_p"]

RCP = np.array(tables.RCP, np.int64)
RSQRT = np.array([tables.RSQRT_EVEN, tables.RSQRT_ODD], np.int64)
EXP2 = np.array(tables.EXP2, np.int64)
SOFTMAX = np.array(tables.SOFTMAX, np.int64)


def line(left, right, r):
    """left + (right - left) * r / 2^15, rounded half up; r has 15 bits."""
    return left + ((right - left) * r + 2**14 >> 15)


def parts(x):
    """Exponent e, segment k (8 bits) and rest r (15 bits) of positive normal float32."""
    bits = to_bits(x).astype(np.int64)
    return (bits >> 23) - 127, bits >> 15 & 0xFF, bits & 0x7FFF


def scaled(y, exponent):
    """y * 2^exponent for y of at most 24 significant bits; +0 below 2^-126."""
    result = np.ldexp(y.astype(np.float64), exponent)
    return np.where(result < MIN_NORMAL, 0, result).astype(np.float32)


def rcp(x):
    """1/x of x > 0; relative error below 2^-17."""
    e, k, r = parts(x)
    return scaled(line(RCP[k], RCP[k + 1], r), -24 - e)


def rsqrt(x):
    """1/sqrt(x) of x > 0; relative error below 2^-18."""
    e, k, r = parts(x)
    odd = e & 1
    return scaled(line(RSQRT[odd, k], RSQRT[odd, k + 1], r), -24 - (e - odd >> 1))


def exp2(t):
    """2^t, t clipped to +-126; relative error below 2^-16."""
    n = np.clip(np.rint(flush(t).astype(np.float64) * 2**16), -126 * 2**16, 126 * 2**16).astype(np.int64)
    g = n & 0xFFFF
    k = g >> 8
    return scaled(line(EXP2[k], EXP2[k + 1], (g & 255) << 7), (n >> 16) - 23)


def softmax_p(d):
    """2^(d / 4096) of integers d <= 0, in units of 2^-16, at most 65535 (int64); absolute error below 2^-15."""
    d = np.asarray(d, np.int64)
    i, f = -(d >> 12), d & 0xFFF
    k, r = f >> 5, f & 31
    return np.minimum(round_shift(32 * SOFTMAX[k] + (SOFTMAX[k + 1] - SOFTMAX[k]) * r, 5 + i), 65535)
