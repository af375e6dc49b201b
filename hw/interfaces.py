"""Signatures of the buses between blocks, each declared once.

Streams are :mod:`amaranth.lib.stream`. Broadcast buses have no ready: every receiver takes them in the clock they come.
"""

from amaranth.lib import enum, stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out, Signature

from hw.config import BLOCK, Config
from hw.isa import ADDRESS_BITS, AccessKind, Format, Region, SliceRecord

__all__ = ["BEAT", "GUARD_BITS", "SCORE_BITS", "SUM_BITS", "ChunkCommand", "LogitBeat", "MaximumItem", "NewestKind",
           "OperandBus", "Geometry", "MergedItem", "PartialItem", "Position", "ReaderRecord", "SliceDispatch",
           "accumulator_bits", "chunk_read_signature", "write_signature"]

BEAT = 256
"""Bits of a beat."""

GUARD_BITS = 12
"""G of docs/numerics.md section 3."""

SCORE_BITS = 24
SUM_BITS = 40
"""Bits of a channel's P.V and softmax sums."""


def accumulator_bits(config: Config):
    """Width of a row accumulator: dot + FP16 mantissa + guard + log2 of the most blocks in a row."""
    return (config.mantissa_bits + 12) + 11 + GUARD_BITS + 11


ChunkCommand = StructLayout({
    "beat": ADDRESS_BITS,  # first beat
    "last": 7,  # beats - 1; a chunk never crosses a multiple of 128 beats (one row of a bank pair)
})
"""A run of beats in one row of a bank pair."""


def chunk_read_signature():
    """Native read port of a channel controller, seen from the reader.

    ``command``: chunks, answered in order. ``valid``/``data``: one beat a clock, no ready: the controller issues a
    read only against a credit. ``credit``: entries freed in the receiving FIFOs this clock (0 to 2); the controller
    starts with ``Config.fifo_beats`` credits. ``flush``: asks for pending writes to be drained now.
    """
    return Signature({
        "command": Out(stream.Signature(ChunkCommand)),
        "credit": Out(2),
        "flush": Out(1),
        "valid": In(1),
        "data": In(BEAT),
    })


def write_signature():
    """Native write port of a channel controller, seen from the writer: whole beats, no mask.

    ``idle`` is high when no accepted write is still on its way to the DRAM (its WR command has been issued, so that
    a read accepted now returns the new data).
    """
    return Signature({
        "beats": Out(stream.Signature(StructLayout({"beat": ADDRESS_BITS, "data": BEAT}))),
        "idle": In(1),
    })


class NewestKind(enum.Enum, shape=2):
    """What an operand block is."""

    OPERAND = 0  # to pool rows 0 and 1 at ``address`` of ``region``
    QUERY = 1  # to pool row ``row`` at ``address`` of region QUERY
    KEY = 2  # newest K: 8-bit mantissas in the low bits, head and block in ``address`` (head * head_blocks + block)
    VALUE = 3  # newest V, likewise


def OperandBus(config: Config):  # noqa: N802
    """Broadcast of one quantised block from the quantiser to every slice and KV writer, at most one a clock.

    ``address``: block index within the region (OPERAND); (kv_head * passes + pass) * head_blocks + block (QUERY),
    where passes = ceil(group / v_kv) and head_blocks = head width / 32 *of the model*; kv_head * head_blocks + block
    (KEY, VALUE).
    ``last``: last block of the operand, of all queries, of all keys or of all values: completes a fence.
    """
    return Signature({
        "valid": Out(1),
        "kind": Out(NewestKind),
        "region": Out(Region),
        "row": Out(range(max(2, config.pool_rows))),
        "address": Out(range(max(config.max_hidden // BLOCK, config.max_ffn // BLOCK, config.query_blocks) + 1)),
        "last": Out(1),
        "exponent": Out(8),
        "sum": Out(config.mantissa_bits + 5),  # signed
        "mantissas": Out(ArrayLayout(config.mantissa_bits, BLOCK)),  # each signed
    })


def MaximumItem(config: Config):  # noqa: N802
    """What a channel reports after the K phase of a head, once a pass: score maxima and largest V exponents."""
    return StructLayout({
        "score": ArrayLayout(SCORE_BITS, config.v_kv),  # each signed; -(2**23 - 1) if the channel has no token
        "exponent": ArrayLayout(8, config.head_blocks),
    })


def PartialItem(config: Config, bits=SUM_BITS):  # noqa: N802
    """Sums after the V phase, for each query head in turn: one item with ``is_sum`` and S in element 0, then
    head width / lanes items of ``lanes`` elements of P.V in element order."""
    return StructLayout({
        "is_sum": 1,
        "elements": ArrayLayout(bits, config.lanes),  # each signed
    })


LogitBeat = StructLayout({"data": BEAT, "last": 1})
"""Eight binary32 logits, zeros beyond the last; ``last`` ends the step's logits."""


def MergedItem(config: Config):  # noqa: N802
    """:func:`PartialItem` summed over the channels (46 bits), with the block's largest V exponent."""
    return StructLayout({
        "is_sum": 1,
        "exponent": 8,
        "elements": ArrayLayout(SUM_BITS + 6, config.lanes),
    })


def Position(config: Config):  # noqa: N802
    """Where the newest token goes; held stable during a token's attention.

    Token t lives in channel t mod channels, slot t div channels: the fields are those of the newest token.
    A channel c holds slot + (c < channel) older tokens, and is the owner of the newest if c == channel.
    """
    return StructLayout({
        "slot": range(config.max_slots + 1),
        "channel": range(max(2, config.channels)),
    })


def ReaderRecord(config: Config):  # noqa: N802
    """An access record as dispatched to the readers: address resolved, position attached; WEIGHTS to KV_V only."""
    return StructLayout({
        "kind": AccessKind,
        "format": Format,
        "head": 6,
        "beats": 24,
        "beat": ADDRESS_BITS,  # first beat (WEIGHTS, VECTOR, TABLE)
        "position": Position(config),
    })


def SliceDispatch(config: Config):  # noqa: N802
    """A slice record as dispatched, with the position of the step."""
    return StructLayout({"record": SliceRecord, "position": Position(config)})


def Geometry(config: Config):  # noqa: N802
    """Shape of the model and its KV cache, from registers that the driver writes once a model."""
    return StructLayout({
        "kv_heads": 6,
        "group": 5,  # query heads a KV head
        "passes": 4,  # ceil(group / v_kv)
        "head_blocks": 4,  # head width / 32: 1, 2, 4 or 8
        "kv_base": ADDRESS_BITS,  # beat address of physical page 0
        "page_beats": 16,  # beats of a page in one channel
        "head_beats": 14,  # beats of one KV head in a page: 2 * exponent_beats + 2 * page_slots * head_blocks
        "exponent_beats": 6,  # ceil(page_slots * head_blocks / 32)
    })
