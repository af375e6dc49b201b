"""Contents for a model of which only the sizes are known: seeded, non-zero and legal, for the parts that a run reads.

Weights are blocks of a pool of random ones, tiled over the matrices; K and V likewise. One token always wins the
argmax, so that every run embeds the same row: element 0 of its embedding is large and stays so, and its row of the LM
head has a large weight there. The rows of the other tokens' embeddings are never read and stay unwritten.
"""

import numpy as np

from firmware.image import block_table, put, write_vectors
from firmware.layout import DATA_BYTES, EXPERT_ROLES, SUPERBLOCK
from hw.config import BEAT_BYTES
from hw.isa import Format

__all__ = ["EPSILON", "GeneratedContents"]

EPSILON = 1e-5
"""Of the RMS norms."""

SUPERBLOCKS = 509
"""Of a pool; a prime, so that rows of a matrix differ."""

PAGES = 13
"""Pages in the pool of K and V."""

CODE_DEVIATION = {Format.Q4_0: 4.3, Format.Q4_1: 4.6, Format.Q8_0: 73.3}
"""Standard deviation of a random code."""

LARGE = 64.0
"""Element 0 of the embedding; the others are random around 0, with standard deviation 1."""

LOUD = np.float16(32)
"""How much larger the scale is of the block that lets a token win."""

EXPONENTS = (118, 126)
"""Exponent bytes of K and V: 8-bit values below 1."""


class GeneratedContents:
    """Contents for *layout*, that of the whole model, made from *seed*; *table_seed* (default: the same) orders pages.

    ``exponents``: E_w of each role; ``token``: the one that wins the argmax of every step.
    """

    def __init__(self, layout, seed, table_seed=None):
        self.layout = layout
        self._rng = np.random.default_rng(seed)
        self._table = block_table(layout, seed if table_seed is None else table_seed)
        self._pools = {role: self._pool(role) for role in (*layout.shape.roles, "head")}
        self.token = layout.shape.vocab // 3
        self.exponents = {role: int(self._scales(role).max()) >> 10 & 31 for role in self._pools}
        loud = self._loud_scale(self._scales("head")[0]).view(np.uint16)
        self.exponents["head"] = max(self.exponents["head"], int(loud) >> 10 & 31)

    def write(self, channels, layers, first, last):
        """Write to *channels* (a writable uint8 array each, from beat 0) what steps *first* to *last* read.

        These are steps of programs of up to *layers* layers. K and V of all older tokens are there.
        """
        for role, pool in self._pools.items():
            for number, beats in enumerate(self._places(role, layers)):
                for channel, memory in enumerate(channels):
                    offset = (number * len(channels) + channel) * 11 % SUPERBLOCKS
                    self._write_share(memory, role, beats, np.roll(pool, -offset, axis=0))
        self._let_token_win(channels)
        self._write_vectors(channels, layers, first, last)
        self._write_pages(channels, layers)

    def _places(self, role, layers):
        """Beats from the layout's share of *role* to each of its matrices that programs of *layers* layers read."""
        layout = self.layout
        if role in layout.shape.once:
            return [0]
        experts = layout.drawn[:layers] if layout.drawn and role in EXPERT_ROLES else [(0,)] * layers
        return [layout.offset(layer, expert) for layer, chosen in enumerate(experts) for expert in chosen]

    def _pool(self, role):
        """Superblocks (SUPERBLOCKS, bytes) of a role: scales that keep row results around 1, and codes around 0.

        Codes of another mean would move all elements of the residual the same way, further with every layer.
        """
        fmt, columns = self.layout.shape.formats[role], self.layout.shape.matrix(role)[1]
        blocks = SUPERBLOCK[fmt]
        size = (SUPERBLOCKS, BEAT_BYTES + blocks * DATA_BYTES[fmt])
        if fmt is Format.Q8_0:
            pool = self._rng.integers(-127, 128, size, np.int8).view(np.uint8)
        else:
            low, high = self._rng.integers(1 if fmt is Format.Q4_0 else 0, 16, (2, *size), np.uint8)
            pool = low | high << 4
        deviation = columns ** -0.5 / CODE_DEVIATION[fmt]
        scales = (deviation * self._rng.uniform(0.5, 1.5, (SUPERBLOCKS, blocks))).astype("<f2")
        if fmt is Format.Q4_1:
            scales = np.stack([scales, -np.float16(7.5) * scales], axis=-1)
        pool[:, :BEAT_BYTES] = scales.reshape(SUPERBLOCKS, -1).view(np.uint8)
        return pool

    def _scales(self, role):
        """binary16 bits of all scales (and minima) in the pool of *role*."""
        return np.ascontiguousarray(self._pools[role][:, :BEAT_BYTES]).view("<u2").reshape(-1)

    @staticmethod
    def _loud_scale(bits):
        return LOUD * bits.view(np.float16)

    def _write_share(self, memory, role, offset, pool):
        """One channel's share: superblocks of *pool* in turn; what is behind the last block stays zero."""
        share = self.layout.shares[role]
        target = memory[(share.base + offset) * BEAT_BYTES:][:share.beats * BEAT_BYTES]
        whole = target.size // pool.size * pool.size
        target[:whole].reshape(-1, pool.size)[:] = pool.reshape(-1)
        target[whole:] = pool.reshape(-1)[:target.size - whole]
        left = share.rows * share.blocks % SUPERBLOCK[share.format]
        if left:
            start = (share.scale_beats - 1) * pool.shape[1]
            target[start + left * BEAT_BYTES // SUPERBLOCK[share.format]:start + BEAT_BYTES] = 0
            target[start + BEAT_BYTES + left * DATA_BYTES[share.format]:] = 0

    def _let_token_win(self, channels):
        """Make weight 0 of the token's row of the LM head by far the largest of its column."""
        share = self.layout.shares["head"]
        row, channel = divmod(self.token, len(channels))
        superblock, block = divmod(row * share.blocks, SUPERBLOCK[share.format])
        size, scale = DATA_BYTES[share.format], BEAT_BYTES // SUPERBLOCK[share.format]
        start = share.base * BEAT_BYTES + superblock * (BEAT_BYTES + SUPERBLOCK[share.format] * size)
        memory = channels[channel][start:]
        memory[block * scale:][:2] = self._loud_scale(self._scales("head")[:1]).view(np.uint8)
        memory[BEAT_BYTES + block * size] = 127 if share.format is Format.Q8_0 else 255

    def _write_vectors(self, channels, layers, first, last):
        layout, shape, rng = self.layout, self.layout.shape, self._rng
        read = layout.first_layers(layers)
        for place in (read.attn_norm, read.ffn_norm):
            write_vectors(place, 0, rng.uniform(0.5, 1.5, (place.count, shape.hidden)), channels)
        angles = rng.uniform(0, 2 * np.pi, (last - first + 1, shape.head_dim // 2))
        turns = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(len(angles), -1)
        write_vectors(layout.rope, first, turns, channels)
        embedding = rng.standard_normal((1, shape.hidden))
        embedding[0, 0] = LARGE
        write_vectors(layout.embedding, self.token, embedding, channels)

    def _write_pages(self, channels, layers):
        """The block tables of *layers* layers, and K and V in all slots of their pages."""
        layout = self.layout
        entries = layout.table_stride * BEAT_BYTES // 4
        table = np.zeros((layers, entries), "<u4")
        table[:, :layout.pages] = self._table[:layers]
        pool = self._rng.integers(-127, 128, (PAGES, layout.shape.kv_heads, layout.head_beats * BEAT_BYTES), np.int8)
        exponents = pool.view(np.uint8)[..., :2 * layout.exponent_beats * BEAT_BYTES]
        exponents[:] = self._rng.integers(*EXPONENTS, exponents.shape, np.uint8)
        pages = pool.view(np.uint8).reshape(PAGES, -1)
        for channel, memory in enumerate(channels):
            put(memory, layout.table_base, table.view(np.uint8).reshape(-1))
            for number, page in enumerate(self._table[:layers].reshape(-1).tolist()):
                put(memory, layout.kv_base + page * layout.page_beats, pages[(number + 3 * channel) % PAGES])
