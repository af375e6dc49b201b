"""Block floating point: 32 elements share an exponent byte (docs/numerics.md section 2)."""

from typing import NamedTuple

import numpy as np

from sim.golden.fixed import saturate
from sim.golden.fp32 import flush, to_bits

__all__ = ["BLOCK", "KV_BITS", "Blocks", "quantise", "values"]

BLOCK = 32
KV_BITS = 8
"""Mantissa bits of K and V in the cache."""


class Blocks(NamedTuple):
    """Quantised blocks; leading axes are the caller's."""

    mantissas: np.ndarray  # (..., blocks, 32) int32, signed
    exponents: np.ndarray  # (..., blocks) int32, biased exponent byte
    sums: np.ndarray  # (..., blocks) int32, sum of the mantissas

    @property
    def largest(self):
        """Largest exponent of the whole operand, (...)."""
        return self.exponents.max(axis=-1)


def quantise(x, bits):
    """Blocks of float32 *x* (..., 32 * blocks) with mantissas of *bits* bits, sign included."""
    x = flush(x)
    x = x.reshape(*x.shape[:-1], -1, BLOCK)
    exponents = ((to_bits(x) >> 23) & 0xFF).astype(np.int32).max(axis=-1)
    scaled = np.ldexp(x.astype(np.float64), (127 - exponents + bits - 2)[..., None])
    mantissas = saturate(np.rint(scaled), bits).astype(np.int32)
    return Blocks(mantissas, exponents, mantissas.sum(axis=-1, dtype=np.int32))


def values(blocks, bits):
    """What the blocks stand for, (..., 32 * blocks) binary64, exact."""
    scaled = np.ldexp(blocks.mantissas.astype(np.float64), (blocks.exponents - 127 - (bits - 2))[..., None])
    return scaled.reshape(*scaled.shape[:-2], -1)
