"""binary32 with round to nearest even and everything below 2^-126 flushed to zero (docs/numerics.md section 1).

Arrays are float32 in and out and broadcast. Where the law calls for the error flag the result here is infinite or
NaN (without a NumPy warning); what the hardware gives then is unspecified.
"""

import numpy as np

from sim.golden.fixed import bit_length, round_shift

__all__ = ["MIN_NORMAL", "add", "flush", "fp", "from_bits", "mul", "round_product", "sub", "to_bits"]

MIN_NORMAL = 2.0**-126


def to_bits(x):
    """The 32 bits of float32 values, as uint32."""
    return np.asarray(x, np.float32).view(np.uint32)


def from_bits(bits):
    """float32 values of 32-bit patterns."""
    return np.asarray(bits, np.uint32).view(np.float32)


def flush(x):
    """Values below 2^-126 in magnitude become zero of their sign."""
    x = np.asarray(x, np.float32)
    return np.where(np.abs(x) < np.float32(MIN_NORMAL), np.copysign(np.float32(0), x), x)


def round_product(exact):
    """Rounds exact binary64 values once; exact magnitudes below 2^-126 become zero of their sign."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32)
    return np.where(np.abs(exact) < MIN_NORMAL, np.copysign(np.float32(0), rounded), rounded)


def mul(a, b):
    """RN(a * b)."""
    with np.errstate(invalid="ignore"):
        return round_product(flush(a).astype(np.float64) * flush(b).astype(np.float64))  # 48 bits: exact


def add(a, b):
    """RN(a + b); x + (-x) is +0."""
    with np.errstate(over="ignore", invalid="ignore"):
        return flush(flush(a) + flush(b))


def sub(a, b):
    """RN(a - b)."""
    return add(a, -np.asarray(b, np.float32))


def fp(value, exponent):
    """binary32 of integer *value* (below 2^62 in magnitude) times 2^exponent, rounded once.

    An exact magnitude below 2^-126 gives +0, whatever the sign; so does 0.
    """
    value, exponent = np.broadcast_arrays(np.asarray(value, np.int64), np.asarray(exponent, np.int64))
    length = bit_length(np.abs(value))
    shift = np.maximum(length - 24, 0)
    mantissa = round_shift(value, shift)
    with np.errstate(over="ignore", under="ignore"):
        result = np.ldexp(mantissa.astype(np.float64), exponent + shift).astype(np.float32)
    return np.where((value == 0) | (length + exponent < -125), np.float32(0), result)
