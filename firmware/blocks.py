"""GGUF's 32-element blocks: bytes to codes and back, to binary32, and quantisation to Q8_0.

A block is 16 bytes of nibbles (low nibbles are elements 0 to 15, high nibbles 16 to 31) or 32 signed bytes, behind its
binary16 scale d and, for Q4_1, minimum m. Raw blocks are uint8 arrays (..., blocks, BLOCK_BYTES[format]).
"""

from typing import NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, quants

from hw.config import BLOCK
from hw.isa import Format

__all__ = ["BLOCK_BYTES", "Unpacked", "dequantise", "pack", "quantise_q8_0", "unpack"]

BLOCK_BYTES = {Format.Q4_0: 18, Format.Q4_1: 20, Format.Q8_0: 34}
"""Bytes of a block in the file."""


class Unpacked(NamedTuple):
    """Blocks taken apart; leading axes as the raw blocks'."""

    codes: np.ndarray  # (..., blocks, 32) int8: nibble - 8 (Q4_0), nibble (Q4_1), signed byte (Q8_0)
    scales: np.ndarray  # (..., blocks) uint16, binary16 bits of d
    minima: np.ndarray | None  # (..., blocks) uint16, binary16 bits of m; Q4_1 only


def halves(raw, offset):
    """The binary16 bits at byte *offset* of each block."""
    return np.ascontiguousarray(raw[..., offset:offset + 2]).view("<u2")[..., 0]


def unpack(raw, fmt):
    """Codes, scales and minima of raw blocks."""
    scales = halves(raw, 0)
    if fmt is Format.Q8_0:
        return Unpacked(np.ascontiguousarray(raw[..., 2:]).view(np.int8), scales, None)
    nibbles = raw[..., -BLOCK // 2:]
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1).astype(np.int8)
    if fmt is Format.Q4_0:
        return Unpacked(codes - np.int8(8), scales, None)
    return Unpacked(codes, scales, halves(raw, 2))


def pack(unpacked, fmt):
    """Raw blocks of *unpacked*: the inverse of :func:`unpack`."""
    codes = unpacked.codes
    heads = [p[..., None].astype("<u2").view(np.uint8) for p in (unpacked.scales, unpacked.minima) if p is not None]
    if fmt is Format.Q8_0:
        return np.concatenate([*heads, codes.view(np.uint8)], axis=-1)
    nibbles = (codes + np.int8(8) if fmt is Format.Q4_0 else codes).view(np.uint8)
    return np.concatenate([*heads, nibbles[..., :16] | nibbles[..., 16:] << 4], axis=-1)


def dequantise(raw, fmt):
    """binary32 values (..., 32 * blocks): RN(q d), for Q4_1 RN(RN(q d) + m)."""
    codes, scales, minima = unpack(raw, fmt)
    values = codes.astype(np.float32) * scales.view(np.float16).astype(np.float32)[..., None]
    if minima is not None:
        values = values + minima.view(np.float16).astype(np.float32)[..., None]
    return values.reshape(*values.shape[:-2], -1)


def quantise_q8_0(values):
    """Raw Q8_0 blocks of float32 *values* (rows, 32 * blocks), by GGML's rule."""
    with np.errstate(all="ignore"):  # an infinity becomes an infinite scale, which the reader of the model refuses
        raw = quants.quantize(np.ascontiguousarray(values, np.float32), GGMLQuantizationType.Q8_0)
    return raw.reshape(values.shape[0], -1, BLOCK_BYTES[Format.Q8_0])
