"""Matrix times vectors, equal bit for bit to :mod:`sim.golden.matrix`, arranged for BLAS.

A block's dot product stays below 2^24 up to 13 mantissa bits, so that float32 holds every partial sum exactly (float64
above). Dot times scale mantissa has at most 39 bits and powers of two cost none: the term before its rounding is exact
in float64, and ``rint`` is the law's rounding.
"""

import numpy as np

from sim.golden.block import BLOCK
from sim.golden.matrix import GUARD_BITS, row_results, split_fp16

__all__ = ["Matrix"]

CHUNK = 1 << 16
"""Terms worked on at once: they stay in the cache, and BLAS on one thread, whose waiting on busy cores costs more."""


class Matrix:
    """A weight matrix made ready for many operands of *bits* mantissa bits."""

    def __init__(self, weights, weight_exponent, bits):
        self.rows = weights.codes.shape[0]
        self.weight_exponent = weight_exponent
        self.bits = bits
        self._codes = np.ascontiguousarray(weights.codes.swapaxes(0, 1), np.float32 if bits <= 13 else np.float64)
        self._scales = self._on_grid(weights.scales)
        self._minima = None if weights.minima is None else self._on_grid(weights.minima)

    def _on_grid(self, patterns):
        """(blocks, rows) float64: FP16 values in units of the accumulator's grid for the operand's largest block."""
        mantissa, exponent = split_fp16(patterns)
        grid = np.ldexp(mantissa.astype(np.float64), exponent - self.weight_exponent + GUARD_BITS)
        return np.ascontiguousarray(grid.T)

    def accumulate(self, operands):
        """Accumulators (positions, rows) int64 of operands (positions, blocks, 32)."""
        positions, blocks = operands.exponents.shape
        x = np.ascontiguousarray(operands.mantissas.transpose(1, 2, 0), self._codes.dtype)  # (blocks, 32, positions)
        behind = np.ldexp(1.0, operands.exponents - operands.largest[:, None]).T[:, None, :]  # (blocks, 1, positions)
        sums = operands.sums.T[:, None, :] * behind
        result = np.empty((self.rows, positions), np.int64)
        step = max(BLOCK, CHUNK // (blocks * positions))
        for start in range(0, self.rows, step):
            rows = slice(start, start + step)
            terms = np.matmul(self._codes[:, rows], x) * self._scales[:, rows, None]
            terms *= behind
            np.rint(terms, out=terms)
            if self._minima is not None:
                minimum = self._minima[:, rows, None] * sums
                terms += np.rint(minimum, out=minimum)
            result[rows] = terms.astype(np.int64).sum(axis=0)
        return result.T

    def __call__(self, operands):
        """Row results (positions, rows) float32."""
        acc = self.accumulate(operands)
        return row_results(acc, operands.largest[:, None], self.weight_exponent, self.bits)
