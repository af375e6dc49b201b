"""Rotary position embedding of neighbouring pairs (docs/numerics.md section 6)."""

import numpy as np

from sim.golden.fp32 import add, mul, sub

__all__ = ["rotate"]


def rotate(x, row):
    """Rotates the pairs (2i, 2i+1) of *x* (..., width) by *row* (..., width) = cos 0, sin 0, cos 1, sin 1, ..."""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = row[..., 0::2], row[..., 1::2]
    even = sub(mul(a, cos), mul(b, sin))
    odd = add(mul(a, sin), mul(b, cos))
    return np.stack([even, odd], axis=-1).reshape(even.shape[:-1] + (-1,))
