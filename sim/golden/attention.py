"""Attention of one KV head and its group of query heads (docs/numerics.md section 7).

Queries are blocks (positions, group, blocks, 32); keys and values blocks (tokens, blocks, 32). *visible* (positions,
tokens) says which tokens a position sees. Every step is a function of its own, so that a bench can call it with the
tokens of one channel: maxima, p sums and P.V sums of the channels then merge by maximum and by addition.
"""

from typing import NamedTuple

import numpy as np

from sim.golden.block import KV_BITS
from sim.golden.fixed import round_shift, saturate
from sim.golden.fp32 import fp, mul
from sim.golden.functions import rcp, softmax_p

__all__ = ["NO_SCORE", "SCORE_BITS", "Attended", "attend", "largest_scores", "largest_values", "normalise",
           "numerators", "scores", "weighted_sums"]

SCORE_BITS = 24
SCORE_UNIT = 12
"""Scores are in units of 2^-12 of a log2."""

NO_SCORE = -(2 ** (SCORE_BITS - 1) - 1)
"""Largest score of no tokens."""


def scores(queries, keys, bits):
    """s (positions, group, tokens) int64, 24 bits; *bits* is the queries' mantissa width."""
    total = 0
    for b in range(keys.exponents.shape[-1]):
        dots = queries.mantissas[..., b, :].astype(np.float64) @ keys.mantissas[:, b].astype(np.float64).T  # exact
        exponents = queries.exponents[..., b, None] - 127 - (bits - 2) + keys.exponents[:, b] - 127 - (KV_BITS - 2)
        total = total + saturate(np.rint(np.ldexp(dots, exponents + SCORE_UNIT)), SCORE_BITS)
    return saturate(total, SCORE_BITS).astype(np.int64)


def largest_scores(s, visible):
    """Mx (positions, group) over the visible tokens."""
    return np.where(visible[:, None, :], s, NO_SCORE).max(axis=-1, initial=NO_SCORE)


def largest_values(values, visible):
    """EV (positions, blocks): largest V exponent of each block over the visible tokens."""
    return np.where(visible[:, :, None], values.exponents, 0).max(axis=1, initial=0)


def numerators(s, largest, visible):
    """p (positions, group, tokens) int64, units of 2^-16; 0 for a token that isn't visible."""
    return np.where(visible[:, None, :], softmax_p(np.minimum(s - largest[..., None], 0)), 0)


def weighted_sums(p, values, largest):
    """o (positions, group, blocks, 32) int64: sum of p' v, on the grid of *largest* (EV)."""
    sums = []
    for b in range(values.exponents.shape[-1]):
        behind = np.maximum(largest[:, b, None] - values.exponents[:, b], 0)  # negative only where p is 0
        placed = round_shift(p, behind[:, None, :])
        sums.append(placed.astype(np.float64) @ values.mantissas[:, b].astype(np.float64))  # below 2^53: exact
    return np.stack(sums, axis=-2).astype(np.int64)


def normalise(sums, total, largest):
    """Attention output (positions, group, 32 * blocks) float32 from o, S and EV."""
    out = mul(fp(sums, largest[:, None, :, None] - 127 - (KV_BITS - 2)), rcp(fp(total, 0))[..., None, None])
    return out.reshape(*out.shape[:-2], -1)


class Attended(NamedTuple):
    """Attention of one KV head with its intermediate values."""

    scores: np.ndarray  # (positions, group, tokens) int64
    largest: np.ndarray  # Mx (positions, group) int64
    numerators: np.ndarray  # p (positions, group, tokens) int64
    total: np.ndarray  # S (positions, group) int64
    exponents: np.ndarray  # EV (positions, blocks)
    sums: np.ndarray  # o (positions, group, blocks, 32) int64
    out: np.ndarray  # (positions, group, 32 * blocks) float32


def attend(queries, keys, values, bits, visible):
    """All of the law's section 7."""
    s = scores(queries, keys, bits)
    largest = largest_scores(s, visible)
    p = numerators(s, largest, visible)
    total = p.sum(axis=-1)
    exponents = largest_values(values, visible)
    sums = weighted_sums(p, values, exponents)
    return Attended(s, largest, p, total, exponents, sums, normalise(sums, total, exponents))
