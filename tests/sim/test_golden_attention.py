"""Attention of the golden model against Python integers, a float softmax, and the merging over channels."""

from fractions import Fraction

import numpy as np
import pytest

from sim.golden.attention import (
    NO_SCORE,
    attend,
    largest_scores,
    largest_values,
    normalise,
    numerators,
    scores,
    weighted_sums,
)
from sim.golden.block import KV_BITS, Blocks, quantise, values
from sim.golden.fp32 import fp, mul
from sim.golden.functions import rcp, softmax_p

TOKENS, GROUP, WIDTH = 23, 3, 64


def heads(seed, bits=12, spread=1.0, positions=1):
    """Queries, keys and values; *spread* widens the range of the V blocks' exponents."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((positions, GROUP, WIDTH)).astype(np.float32)
    k = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    v = rng.standard_normal((TOKENS, WIDTH)) * np.exp2(np.round(rng.normal(0, spread, (TOKENS, 1))))
    return quantise(q, bits), quantise(k, KV_BITS), quantise(v.astype(np.float32), KV_BITS)


def clip24(x):
    return max(-(2**23 - 1), min(2**23 - 1, x))


def plain_attention(queries, keys, vals, bits, tokens):
    """The law's section 7 for one position in Python integers; *tokens* are the visible ones."""
    results = []
    ev = [max(int(vals.exponents[t, b]) for t in tokens) for b in range(WIDTH // 32)]
    for g in range(GROUP):
        s = {}
        for t in tokens:
            total = 0
            for b in range(WIDTH // 32):
                pairs = zip(queries.mantissas[0, g, b].tolist(), keys.mantissas[t, b].tolist(), strict=True)
                dot = sum(x * y for x, y in pairs)
                unit = int(queries.exponents[0, g, b]) - 127 - (bits - 2) + int(keys.exponents[t, b]) - 127 - 6 + 12
                total += clip24(round(dot * Fraction(2) ** unit))
            s[t] = clip24(total)
        largest = max(s.values())
        p = {t: int(softmax_p(s[t] - largest)) for t in tokens}
        sums = []
        for b, e in enumerate(ev):
            placed = {t: round(Fraction(p[t], 2 ** (e - int(vals.exponents[t, b])))) for t in tokens}
            sums += [sum(placed[t] * int(vals.mantissas[t, b, i]) for t in tokens) for i in range(32)]
        scale = rcp(fp(sum(p.values()), 0))
        results.append([mul(fp(o, ev[i // 32] - 133), scale) for i, o in enumerate(sums)])
    return np.array(results, np.float32)


@pytest.mark.parametrize("bits, spread", [(12, 1.0), (12, 12.0), (16, 1.0), (8, 3.0)])
def test_attention_equals_python_integers(bits, spread):
    queries, keys, vals = heads(bits, bits, spread)
    visible = np.ones((1, TOKENS), bool)
    visible[0, -4:] = False
    vals.exponents[-1] += 9  # of a token that isn't visible: must not count
    got = attend(queries, keys, vals, bits, visible).out[0]
    assert got.tolist() == plain_attention(queries, keys, vals, bits, range(TOKENS - 4)).tolist()


def test_attention_is_near_a_float_softmax():
    queries, keys, vals = heads(1)
    out = attend(queries, keys, vals, 12, np.ones((1, TOKENS), bool)).out[0]
    weights = np.exp2(values(queries, 12)[0] @ values(keys, KV_BITS).T)
    real = weights / weights.sum(axis=-1, keepdims=True) @ values(vals, KV_BITS)
    assert np.abs(out - real).max() < 1e-3 * np.abs(real).max()


def test_scores_saturate():
    queries, keys, _ = heads(2)
    loud = Blocks(keys.mantissas, keys.exponents + 20, keys.sums)
    s = scores(queries, loud, 12)
    assert np.abs(s).max() == 2**23 - 1
    silent = Blocks(keys.mantissas, keys.exponents - 100, keys.sums)
    assert (scores(queries, silent, 12) == 0).all()


@pytest.mark.parametrize("channels", [2, 3, 4, 32])
def test_channels_merge_to_the_same_bits(channels):
    """Maxima by maximum, sums by addition, for tokens dealt round the channels; some channels have none."""
    queries, keys, vals = heads(3, spread=4.0)
    whole = attend(queries, keys, vals, 12, np.ones((1, TOKENS), bool))

    def share(c):
        return [Blocks(*(part[c::channels] for part in b)) for b in (keys, vals)]

    shares = [share(c) for c in range(channels)]
    alls = [np.ones((1, len(k.exponents)), bool) for k, _ in shares]
    s = [scores(queries, k, 12) for k, _ in shares]
    largest = np.max([largest_scores(x, a) for x, a in zip(s, alls, strict=True)], axis=0)
    exponents = np.max([largest_values(v, a) for (_, v), a in zip(shares, alls, strict=True)], axis=0)
    p = [numerators(x, largest, a) for x, a in zip(s, alls, strict=True)]
    sums = sum(weighted_sums(x, v, exponents) for x, (_, v) in zip(p, shares, strict=True))
    total = sum(x.sum(axis=-1) for x in p)
    assert (largest == whole.largest).all() and (exponents == whole.exponents).all()
    assert (total == whole.total).all() and (sums == whole.sums).all()
    assert (normalise(sums, total, exponents) == whole.out).all()


def test_no_tokens_give_the_least_score():
    queries, keys, vals = heads(4)
    none = np.zeros((1, 0), bool)
    s = scores(queries, Blocks(*(part[:0] for part in keys)), 12)
    assert largest_scores(s, none).tolist() == [[NO_SCORE] * GROUP]
    assert largest_values(Blocks(*(part[:0] for part in vals)), none).tolist() == [[0, 0]]


def test_a_tiny_value_block_contributes_nothing():
    queries, keys, vals = heads(5, spread=0.0)
    faint = vals.exponents.copy()
    faint[7] -= 18
    visible = np.ones((1, TOKENS), bool)
    with_it = attend(queries, keys, Blocks(vals.mantissas, faint, vals.sums), 12, visible)
    mantissas = vals.mantissas.copy()
    mantissas[7] = 0
    without = attend(queries, keys, Blocks(mantissas, faint, vals.sums), 12, visible)
    assert (with_it.sums == without.sums).all()


def test_sums_fit_forty_bits_in_a_channel():
    """The longest context of a preset, all in one channel, with the largest p and v."""
    assert 131072 // 32 * 65535 * 127 < 2**39 and 131072 * 65535 * 127 < 2**45
