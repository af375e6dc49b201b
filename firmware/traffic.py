"""Beats and bytes that a step moves, from layout and position alone."""

from dataclasses import dataclass
from math import ceil

from firmware.layout import DATA_BYTES, SUPERBLOCK
from hw.config import BEAT_BYTES, BLOCK

__all__ = ["StepTraffic", "key_beats", "step_traffic", "table_beats", "value_beats"]

TABLE_ENTRIES = 8
"""Block table entries in a beat."""


@dataclass(frozen=True)
class StepTraffic:
    """One step. Beats are lists with a number for each channel; bytes are of all channels together."""

    weights: list  # scale and data beats, padding included
    kv_read: list  # mantissas and exponents, unused exponent bytes included
    kv_written: list
    vectors: list  # norms, RoPE row, embedding row
    table: list
    logits: list  # written
    model_bytes: int  # weight blocks once at their GGUF size, KV of valid tokens read, KV written
    kv_bytes: int  # the part of model_bytes that is KV
    code_bytes: int  # weight codes alone, without scales, minima and KV

    @property
    def read(self):
        """Beats read in each channel."""
        return [sum(kinds) for kinds in zip(self.weights, self.kv_read, self.vectors, self.table, strict=True)]

    @property
    def written(self):
        """Beats written in each channel."""
        return [sum(kinds) for kinds in zip(self.kv_written, self.logits, strict=True)]

    @property
    def beats(self):
        """Beats of each channel; the largest is the roof of the step in clocks."""
        return [read + written for read, written in zip(self.read, self.written, strict=True)]

    @property
    def padding_bytes(self):
        """Weight bytes on the bus that are no weights."""
        return BEAT_BYTES * sum(self.weights) - self.weight_bytes

    @property
    def weight_bytes(self):
        """Weight blocks once at their GGUF size."""
        return self.model_bytes - self.kv_bytes


def block_bytes(fmt):
    """Bytes of a block in GGUF: codes and its part of a scale beat."""
    return DATA_BYTES[fmt] + BEAT_BYTES // SUPERBLOCK[fmt]


def table_beats(config, slot):
    """Beats of a layer's block table that a channel reads for the token in *slot*: up to the line of its page."""
    return slot // config.page_slots // TABLE_ENTRIES + 1


def key_beats(layout, tokens):
    """Beats of K of one KV head for *tokens* tokens of a channel: K, and the exponents of K and V, page by page."""
    pages = ceil(tokens / layout.config.page_slots)
    return tokens * layout.shape.head_blocks + 2 * layout.exponent_beats * pages


def value_beats(layout, tokens):
    """Beats of V of one KV head for *tokens* tokens of a channel."""
    return tokens * layout.shape.head_blocks


def step_traffic(layout, position, head=True, logits=False):
    """The :class:`StepTraffic` of the token at *position* (as many older tokens are read).

    *head*: logits are computed; *logits*: and written to memory.
    """
    shape, config = layout.shape, layout.config
    channels, layers = config.channels, shape.caches
    slot, owner = divmod(position, channels)
    counts = {role: shape.reads(role) for role in shape.roles} | {"head": int(head)}
    weights = sum(layout.shares[role].beats * count for role, count in counts.items())
    blocks = [(layout.shares[role].results * layout.shares[role].blocks * count, layout.shares[role].format)
              for role, count in counts.items()]

    def kv_read(channel):
        tokens = slot + (channel < owner)
        return layers * shape.kv_heads * (key_beats(layout, tokens) + value_beats(layout, tokens))

    newest = layers * shape.kv_heads * 2 * (shape.head_blocks + 1)
    vectors = layout.rope.stride + layout.attn_norm.beats + layout.ffn_norm.beats + layout.embedding.stride
    table = layers * table_beats(config, slot)
    kv_bytes = (position + 1) * layers * shape.kv_heads * 2 * shape.head_blocks * (BLOCK + 1)
    return StepTraffic(
        weights=[weights] * channels,
        kv_read=[kv_read(channel) for channel in range(channels)],
        kv_written=[newest * (channel == owner) for channel in range(channels)],
        vectors=[vectors] * channels,
        table=[table] * channels,
        logits=[logits_beats(layout, channel) if head and logits else 0 for channel in range(channels)],
        model_bytes=sum(count * block_bytes(fmt) for count, fmt in blocks) + kv_bytes,
        kv_bytes=kv_bytes,
        code_bytes=sum(count * DATA_BYTES[fmt] for count, fmt in blocks))


def logits_beats(layout, channel):
    """Beats of logits that *channel* is given: beat j goes to channel j mod channels."""
    return len(range(channel, ceil(layout.shape.vocab * 4 / BEAT_BYTES), layout.config.channels))
