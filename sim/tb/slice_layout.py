"""Beats of a channel's share of a matrix and of its KV pages, and random blocks, for the slice benches.

Written from the memory layout alone, so that the compiler's packer is not its own witness.
"""

import numpy as np

from hw.config import BEAT_BYTES, BLOCK
from hw.isa import Format
from sim.golden.block import Blocks
from sim.golden.matrix import Weights

__all__ = ["exponent_beats", "matrix_beats", "random_blocks", "random_weights"]

SUPERBLOCK = {Format.Q4_1: 8, Format.Q4_0: 16, Format.Q8_0: 16}
"""Blocks that share a scale beat."""


def integer(octets):
    """A beat as a number: byte 0 lowest, padded with zeros."""
    return int.from_bytes(bytes(octets), "little")


def nibble_bytes(codes, offset):
    """16 bytes of a block: low nibbles are elements 0 to 15."""
    nibbles = (codes.astype(np.int64) + offset) & 15
    return (nibbles[:16] | nibbles[16:] << 4).astype(np.uint8).tobytes()


def matrix_beats(weights, fmt):
    """(data beats, scale beats) of *weights*: a run of blocks across row borders."""
    blocks = weights.codes.reshape(-1, BLOCK)
    halves = [weights.scales.reshape(-1)]
    if fmt is Format.Q4_1:
        halves.append(weights.minima.reshape(-1))
    offset = 8 if fmt is Format.Q4_0 else 0
    raw = [codes.astype(np.uint8).tobytes() if fmt is Format.Q8_0 else nibble_bytes(codes, offset) for codes in blocks]
    each = 1 if fmt is Format.Q8_0 else 2
    data, scales = [], []
    for first in range(0, len(raw), SUPERBLOCK[fmt]):
        last = min(first + SUPERBLOCK[fmt], len(raw))
        scales.append(integer(np.stack([h[first:last] for h in halves], axis=1).astype("<u2").tobytes()))
        data += [integer(b"".join(raw[n:min(n + each, last)])) for n in range(first, last, each)]
    return data, scales


def exponent_beats(exponents, beats, rng):
    """One kind of exponents of a page, (slots, blocks), in *beats* beats; bytes of slots without a token are random."""
    used = exponents.astype(np.uint8).tobytes()
    octets = used + rng.bytes(beats * BEAT_BYTES - len(used))
    return [integer(octets[n:n + BEAT_BYTES]) for n in range(0, len(octets), BEAT_BYTES)]


def random_blocks(rng, shape, bits, exponents):
    """Blocks (*shape*, 32) with mantissas over the whole range and exponents drawn from the range *exponents*."""
    limit = 2 ** (bits - 1) - 1
    mantissas = rng.integers(-limit, limit, (*shape, BLOCK), endpoint=True).astype(np.int32)
    extreme = rng.random((*shape, BLOCK)) < 0.05
    mantissas = np.where(extreme, np.where(mantissas < 0, -limit, limit), mantissas)
    chosen = rng.integers(exponents[0], exponents[1], shape, endpoint=True).astype(np.int32)
    empty = rng.random(shape) < 0.05
    mantissas, chosen = np.where(empty[..., None], 0, mantissas), np.where(empty, 0, chosen)
    return Blocks(mantissas, chosen, mantissas.sum(axis=-1, dtype=np.int32))


def random_weights(rng, rows, blocks, fmt):
    """Weights with codes over the whole range and finite FP16 scales of any size, zeros and subnormals among them."""
    low, high = {Format.Q4_0: (-8, 7), Format.Q4_1: (0, 15), Format.Q8_0: (-128, 127)}[fmt]
    codes = rng.integers(low, high, (rows, blocks, BLOCK), endpoint=True).astype(np.int8)

    def halves():
        fields = np.where(rng.random((rows, blocks)) < 0.8, rng.integers(8, 16, (rows, blocks)),
                          rng.integers(0, 31, (rows, blocks)))
        return (rng.integers(0, 2, (rows, blocks)) << 15 | fields << 10
                | rng.integers(0, 1024, (rows, blocks))).astype(np.uint16)

    return Weights(codes, halves(), halves() if fmt is Format.Q4_1 else None)
