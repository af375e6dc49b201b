"""Rounding and saturation of signed integers (docs/numerics.md, notation)."""

import numpy as np

__all__ = ["bit_length", "round_shift", "saturate"]


def round_shift(value, shift):
    """RN(value / 2^shift), ties to even: int64 of magnitude below 2^62, any shift >= 0; broadcasts."""
    value = np.asarray(value, np.int64)
    shift = np.minimum(np.asarray(shift, np.int64), 63)
    kept = value >> shift
    half = np.left_shift(np.int64(1), np.maximum(shift - 1, 0))
    rest = value - np.left_shift(kept, shift)
    up = (rest > half) | ((rest == half) & (kept & 1 == 1))
    return np.where(shift == 0, value, np.where(shift == 63, 0, kept + up))


def saturate(value, bits):
    """Clips to +-(2^(bits-1) - 1): symmetric, so that negation never overflows."""
    limit = 2 ** (bits - 1) - 1
    return np.clip(value, -limit, limit)


def bit_length(value):
    """Bits of a non-negative int64 (0 for 0)."""
    value = np.asarray(value, np.int64)
    _, length = np.frexp(value.astype(np.float64))
    length = length.astype(np.int64)
    # binary64 may have rounded 2^n - 1 up to 2^n
    return np.where((length > 0) & (value >> np.maximum(length - 1, 0) == 0), length - 1, length)
