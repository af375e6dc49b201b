"""Function tables of docs/numerics.md section 4, as tuples of integers.

Each table has one entry more than it has segments, so that a segment's right end is its successor. Values come
from binary64 and are rounded to nearest; none lies near enough to a half for the host's last place to matter
(tests/sim/test_golden_functions.py proves it in integers). Widths are unsigned bits of the largest entry.
"""

from math import sqrt

__all__ = ["EXP2", "FUNCTION_SEGMENTS", "RCP", "RSQRT_EVEN", "RSQRT_ODD", "SOFTMAX", "SOFTMAX_SEGMENTS"]

FUNCTION_SEGMENTS = 256
"""Segments of rcp, rsqrt and exp2: the 8 leading fraction bits choose one."""

SOFTMAX_SEGMENTS = 128
"""Segments of the softmax numerator: the 7 leading bits of a 12-bit fraction choose one."""

RCP = tuple(round(2**24 / (1 + k / 256)) for k in range(FUNCTION_SEGMENTS + 1))
"""2^24 / (1 + k/256); 25 bits (only k = 0 needs the last), falling to 2^23."""

RSQRT_EVEN = tuple(round(2**24 / sqrt(1 + k / 256)) for k in range(FUNCTION_SEGMENTS + 1))
"""T0: 2^24 / sqrt(1 + k/256), for even exponents; 25 bits (only k = 0 needs the last)."""

RSQRT_ODD = tuple(round(2**24 / sqrt(2 * (1 + k / 256))) for k in range(FUNCTION_SEGMENTS + 1))
"""T1: 2^24 / sqrt(2 (1 + k/256)), for odd exponents; 24 bits, falling to 2^23."""

EXP2 = tuple(round(2**23 * 2 ** (k / 256)) for k in range(FUNCTION_SEGMENTS + 1))
"""2^23 * 2^(k/256), 24 bits but for the last entry, 2^24."""

SOFTMAX = tuple(round(2**16 * 2 ** (k / 128)) for k in range(SOFTMAX_SEGMENTS + 1))
"""2^16 * 2^(k/128), 17 bits but for the last entry, 2^17."""
