"""Records of the access and execute programs: opcodes and field layouts, shared by hardware and firmware.

The access program says what the readers fetch, in order, from every channel alike. The execute program says
what the slices and the vector unit do with it. Both loop over layers; ``stride`` times the layer is added to a
record's base address.
"""

from amaranth.lib import enum
from amaranth.lib.data import StructLayout

__all__ = ["ADDRESS_BITS", "PROGRAM_DEPTH", "AccessKind", "AccessRecord", "Condition", "ExecuteKind", "ExecuteRecord",
           "Format", "Index", "Region", "RowScale", "SliceKind", "SliceRecord", "VectorKind", "VectorRecord"]

ADDRESS_BITS = 27
"""Width of a beat address inside a channel (32 Gb = 2**27 beats)."""

PROGRAM_DEPTH = 256
"""Records that each of the two program memories holds."""


class Format(enum.Enum, shape=2):
    """Weight formats of a stream (GGUF block types)."""

    Q4_0 = 0
    Q4_1 = 1
    Q8_0 = 2


class Index(enum.Enum, shape=2):
    """What an access record's ``stride`` is multiplied with."""

    NONE = 0
    LAYER = 1
    TOKEN = 2
    POSITION = 3


class Condition(enum.Enum, shape=2):
    """In which steps a record takes part."""

    ALWAYS = 0
    WITH_HEAD = 1  # only in steps that compute logits
    WITHOUT_HEAD = 2  # only in steps that don't


class AccessKind(enum.Enum, shape=4):
    """Access opcodes."""

    END = 0  # end of the token's program
    WEIGHTS = 1  # a matrix share: scale beats to the scale FIFO, data beats to the data FIFO
    VECTOR = 2  # binary32 beats for the vector unit (norms, RoPE rows, embedding rows), through the data FIFO
    TABLE = 3  # block table of a layer, into the KV fetch unit
    KV_K = 4  # exponents of K and V, then K, of one KV head, page by page
    KV_V = 5  # V of one KV head
    LOOP = 6  # start of the layer loop; count in ``beats``
    NEXT = 7  # end of the layer loop


AccessRecord = StructLayout({
    "kind": AccessKind,
    "index": Index,  # what ``stride`` is multiplied with
    "format": Format,
    "head": 6,  # KV head of KV_K and KV_V
    "wait_token": 1,  # wait until the token to embed is known
    "condition": Condition,
    "beats": 24,  # beats a channel
    "base": ADDRESS_BITS,  # beat address inside the channel
    "stride": 24,  # beats
})


class Region(enum.Enum, shape=2):
    """Operand regions of a slice's operand memory; each has its own fence counter."""

    HIDDEN = 0  # normed hidden state: operand of Q, K, V, gate, up and the LM head
    ATTENTION = 1  # attention output: operand of O; after O, a second operand of down
    FFN = 2  # SiLU(gate) * up: operand of down
    QUERY = 3  # query heads


class ExecuteKind(enum.Enum, shape=3):
    """Which queue an execute record goes to."""

    END = 0
    SLICE = 1
    VECTOR = 2
    LOOP = 3
    NEXT = 4


class SliceKind(enum.Enum, shape=3):
    """Slice opcodes."""

    MATRIX = 0
    BYPASS = 1  # beats go to the vector unit as they are
    KEYS = 2
    VALUES = 3


SliceRecord = StructLayout({
    "kind": SliceKind,
    "format": Format,
    "region": Region,
    "take_fence": 1,  # wait for (and take) one completion of ``region`` before the first beat
    "head": 6,  # KV head of KEYS and VALUES
    "rows": 20,  # rows a channel (MATRIX); beats a channel (BYPASS)
    "blocks": 11,  # K / 32 (MATRIX)
    "weight_exponent": 5,  # E_w of docs/numerics.md (MATRIX)
})


class VectorKind(enum.Enum, shape=4):
    """Vector unit opcodes."""

    LOAD_NORM = 0  # bypass beats into the norm weight buffer ``slot``
    LOAD_ROPE = 1  # bypass beats into the RoPE row
    EMBED = 2  # bypass beats are the new residual; norm weights of ``slot``; operand to HIDDEN
    QUERY = 3  # row results: scale, RoPE, quantise to QUERY
    KEY = 4  # row results: scale, RoPE, quantise to 8 bits, to slices and KV writers
    VALUE = 5  # row results: scale, quantise to 8 bits, to slices and KV writers
    ATTENTION = 6  # merged heads: normalise by the softmax sum, quantise to ATTENTION
    RESIDUAL = 7  # row results: add to the residual; norm weights of ``slot``; operand to HIDDEN
    GLU = 8  # row results, gate and up groups in turn: SiLU(gate) * up, quantise to FFN, or with ``slot`` to ATTENTION
    HEAD = 9  # row results: scale, argmax, logits to memory when asked for
    ADD = 10  # row results: add to the residual, and nothing else: no norm, no operand
    ROUTER = 11  # row results, scores of experts: dropped, as the program has chosen the experts already


class RowScale(enum.Enum, shape=2):
    """What a row result is multiplied with."""

    ONE = 0
    NORM = 1  # 1/rms of the last completed norm
    NORM_QUERY = 2  # 1/rms times log2(e)/sqrt(head width)


VectorRecord = StructLayout({
    "kind": VectorKind,
    "scale": RowScale,
    "slot": 1,  # norm weight buffer; of GLU the region
    "count": 20,  # elements; for GLU gate and up together
    "weight_exponent": 5,  # E_w of the rows' matrix
    "region": Region,  # operand that the rows were computed with (its largest exponent scales the results)
})

ExecuteRecord = StructLayout({
    "kind": ExecuteKind,
    "condition": Condition,
    "payload": max(SliceRecord.size, VectorRecord.size),
    "count": 8,  # layers of LOOP
})
