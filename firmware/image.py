"""Contents of the channels' memories, straight from a model's blocks. The layout is firmware.layout's."""

import numpy as np

from firmware.layout import LAYER_ROLES, SUPERBLOCK
from hw.config import BEAT_BYTES
from hw.isa import Format

__all__ = ["POISON", "block_table", "glu_row_order", "pair_row_order", "put", "share_bytes", "write_image",
           "write_vectors"]

POISON = 0xFE
"""Byte that fills KV pages before they are written: as an exponent the largest, so that a read of it shows."""

ELEMENTS = BEAT_BYTES // 4
"""binary32 numbers in a beat."""

CHUNK = 8192
"""Embedding rows or positions that are worked on at once."""


def pair_row_order(rows, head_dim, lanes):
    """Rows of Q or K as they are stored: in each head, ``lanes`` even rows, then the odd rows of the same pairs."""
    return np.arange(rows).reshape(rows // head_dim, -1, lanes, 2).swapaxes(2, 3).reshape(-1)


def glu_row_order(ffn, lanes):
    """Rows of gate over up (2 * ffn) as they are stored: ``lanes`` of gate, then the same of up."""
    return np.arange(2 * ffn).reshape(2, -1, lanes).swapaxes(0, 1).reshape(-1)


def share_bytes(raw, share, channel, channels):
    """Bytes of *channel*'s share of a matrix of raw blocks (rows in stored order)."""
    own = raw[channel::channels]
    size, width = SUPERBLOCK[share.format], own.shape[-1]
    used = own.shape[0] * share.blocks
    superblocks = share.scale_beats
    blocks = np.zeros((superblocks * size, width), np.uint8)
    blocks[:used] = own.reshape(used, width)
    scale = 4 if share.format is Format.Q4_1 else 2
    beats = np.empty((superblocks, 1 + size * (width - scale) // BEAT_BYTES, BEAT_BYTES), np.uint8)
    beats[:, 0] = blocks[:, :scale].reshape(superblocks, BEAT_BYTES)
    beats[:, 1:] = blocks[:, scale:].reshape(superblocks, -1, BEAT_BYTES)
    return beats.reshape(-1)[:share.beats * BEAT_BYTES]


def block_table(layout, seed):
    """Physical pages (layers, logical pages): a random permutation of all of them."""
    order = np.random.default_rng(seed).permutation(layout.physical_pages)
    return order.reshape(layout.shape.layers, layout.pages).astype(np.uint32)


def write_image(model, layout, channels, seed=0):
    """Write the image of *model* to *channels*: for each channel a writable uint8 array of its memory, from beat 0.

    *seed* gives the order of the KV pages. The logits region is left alone.
    """
    if len(channels) != layout.config.channels:
        raise ValueError(f"{len(channels)} memories for {layout.config.channels} channels")
    write_matrices(model, layout, channels)
    vectors = [(layout.attn_norm, np.stack([*(layer.attn_norm for layer in model.layers), model.output_norm])),
               (layout.ffn_norm, np.stack([layer.ffn_norm for layer in model.layers]))]
    for place, values in vectors:
        write_vectors(place, 0, values, channels)
    tables = [(layout.rope, model.rope_rows), (layout.embedding, lambda a, b: model.embedding.rows(slice(a, b)))]
    for place, rows in tables:
        for start in range(0, place.count, CHUNK):
            write_vectors(place, start, rows(start, min(start + CHUNK, place.count)), channels)
    table = np.zeros((layout.shape.layers, layout.table_stride * ELEMENTS), np.uint32)
    table[:, :layout.pages] = block_table(layout, seed)
    for memory in channels:
        put(memory, layout.table_base, table.view(np.uint8).reshape(-1))
        memory[layout.kv_base * BEAT_BYTES:][:layout.physical_pages * layout.page_beats * BEAT_BYTES] = POISON


def put(memory, beat, data):
    """Write bytes at beat address *beat*."""
    memory[beat * BEAT_BYTES:beat * BEAT_BYTES + data.size] = data


def write_matrices(model, layout, channels):
    """All matrix shares."""
    shape, lanes = layout.shape, layout.config.lanes
    pairs = {role: pair_row_order(shape.matrix(role)[0], shape.head_dim, lanes) for role in ("q", "k")}
    glu = glu_row_order(shape.ffn, lanes)
    for number, layer in enumerate(model.layers):
        for role in LAYER_ROLES:
            if role == "gate_up":
                raw = np.concatenate([layer.gate.raw, layer.up.raw])[glu]
            else:
                raw = getattr(layer, role).raw
                if role in pairs and lanes > 1:
                    raw = raw[pairs[role]]
            write_matrix(raw, layout.shares[role], number * layout.layer_stride, channels)
    write_matrix(model.head.raw, layout.shares["head"], 0, channels)


def write_matrix(raw, share, offset, channels):
    for channel, memory in enumerate(channels):
        put(memory, share.base + offset, share_bytes(raw, share, channel, len(channels)))


def write_vectors(place, first, values, channels):
    """Rows of binary32 *values* from vector *first* on; beat j of a row in channel j mod channels."""
    rows, elements = values.shape
    padded = np.zeros((rows, place.stride * len(channels) * ELEMENTS), "<f4")
    padded[:, :elements] = values
    beats = padded.view(np.uint8).reshape(rows, place.stride, len(channels), BEAT_BYTES)
    for channel, memory in enumerate(channels):
        put(memory, place.base + first * place.stride, beats[:, :, channel].reshape(-1))


