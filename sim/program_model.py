"""Executes compiled programs on memory images, in NumPy: what the hardware would do, without its timing.

Everything comes from the images, the program records and the register values; nothing from the model file. Beats leave
each channel's stream in order, slice and vector records run in order beside each other with the shortest queues, and
fences are counted, so that a wrong order, size or fence shows as an error and not as a wrong number.
"""

from collections import deque

import numpy as np

from firmware.blocks import Unpacked
from firmware.program import slice_of, vector_of, walk
from hw.config import BEAT_BYTES, BLOCK
from hw.isa import ExecuteKind, Format, Region, RowScale, SliceKind, VectorKind
from sim.golden.activation import silu_mul
from sim.golden.attention import attend
from sim.golden.block import KV_BITS, Blocks, quantise
from sim.golden.fp32 import add, mul
from sim.golden.functions import rsqrt
from sim.golden.matrix import Weights
from sim.golden.matvec import Matrix
from sim.golden.norm import sum_of_squares
from sim.golden.rope import rotate
from sim.program_memory import ChannelMemories, ProgramError

__all__ = ["ProgramModel"]

class ProgramModel:
    """An accelerator of *config* with *memories*, a uint8 array a channel, from beat 0.

    *registers* has field values by register, as :func:`firmware.compiler.model_registers` gives them.
    """

    def __init__(self, config, memories, program, registers):
        self.config = config
        self.program = program
        self._memories = ChannelMemories(config, memories, registers)
        self._shape = registers["heads"]
        self._exponent_beats = registers["page_head"]["exponent_beats"]
        self.hidden = registers["hidden"]["elements"]
        constants = [np.uint32(registers[name]["value"]) for name in ("inverse_hidden", "epsilon", "query_scale")]
        self._inverse_hidden, self._epsilon, self._query_scale = (bits.view(np.float32) for bits in constants)
        self._norms = {}
        self._fences = dict.fromkeys(Region, 0)

    def step(self, token, position, head=True):
        """Run one step; logits (vocab,) float32, or None without head."""
        self.position = position
        self._rope = self._x = self._logits = None
        self._operands, self._newest = {}, {}
        self._newest_ready = 0
        self._heads, self._attended = [], []
        self._streams = [self._memories.fetch(channel, self.program.access, token, position, head)
                         for channel in range(self.config.channels)]
        self._layer_tables = deque(zip(*(stream.tables for stream in self._streams), strict=True))
        self._run(deque(record for record, _ in walk(self.program.execute, head)))
        left = [(stream.data.count, stream.scales.count) for stream in self._streams]
        if any(map(any, left)) or any(self._fences.values()) or self._newest_ready:
            raise ProgramError(f"left after the step: beats {left}, fences {self._fences}, newest {self._newest_ready}")
        return self._logits

    def _run(self, todo):
        """Dispatch and execute in order, with one record at each of slices and vector unit."""
        slice_record = vector_record = None
        produced = deque()
        while todo or slice_record is not None or vector_record is not None:
            moved = False
            if todo and todo[0].kind is ExecuteKind.SLICE and slice_record is None:
                slice_record, moved = slice_of(todo.popleft()), True
            elif todo and todo[0].kind is ExecuteKind.VECTOR and vector_record is None:
                vector_record, moved = vector_of(todo.popleft()), True
            if slice_record is not None and not produced and self._take_fence(slice_record):
                produced.extend(self._slice(slice_record))
                slice_record, moved = None, True
            if vector_record is not None and produced:
                if self._vector(vector_record, *produced.popleft()):
                    vector_record = None
                moved = True
            if not moved:
                raise ProgramError(f"deadlock: slices at {slice_record}, vector unit at {vector_record}")
        if produced:
            raise ProgramError("results that no vector record takes")

    def _take_fence(self, record):
        if record.kind is SliceKind.KEYS and record.head == 0 and not self._newest_ready:
            return False
        if record.take_fence:
            if not self._fences[record.region]:
                return False
            self._fences[record.region] -= 1
        return True

    def _slice(self, record):
        """What the slices of all channels send for *record*."""
        match record.kind:
            case SliceKind.BYPASS:
                if record.rows:
                    beats = np.stack([stream.data.pop(record.rows) for stream in self._streams], axis=1)
                    yield "beats", np.ascontiguousarray(beats).reshape(-1).view("<f4"), record
            case SliceKind.MATRIX:
                shares = [self._weights(stream, record) for stream in self._streams]
                parts = (None if part[0] is None else np.stack(part, axis=1).reshape(-1, *part[0].shape[1:])
                         for part in zip(*shares, strict=True))
                matrix = Matrix(Weights(*parts), record.weight_exponent, self.config.mantissa_bits)
                yield "rows", matrix(self._operands[record.region])[0], record
            case SliceKind.KEYS:
                if record.head == 0:
                    self._newest_ready -= 1
                self._heads.append([self._keys(channel) for channel in range(self.config.channels)])
            case SliceKind.VALUES:
                keys = self._heads.pop(0)
                values = [self._mantissas(channel) for channel in range(self.config.channels)]
                yield "head", (keys, values), record

    def _weights(self, stream, record):
        """Codes, scales and minima of one channel's rows."""
        count, fmt = record.rows * record.blocks, record.format
        shape = (record.rows, record.blocks)
        scale = stream.scales.pop(-(-count // {Format.Q4_0: 16, Format.Q4_1: 8, Format.Q8_0: 16}[fmt]))
        halves = np.ascontiguousarray(scale).reshape(-1).view("<u2")
        if fmt is Format.Q8_0:
            codes = stream.data.pop(count).view(np.int8)
        else:
            nibbles = stream.data.pop(-(-count // 2)).reshape(-1, 16)[:count]
            codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int8) - 8 * (fmt is Format.Q4_0)
        minima = halves[1::2][:count].reshape(shape) if fmt is Format.Q4_1 else None
        scales = halves[::2 if fmt is Format.Q4_1 else 1][:count].reshape(shape)
        return Unpacked(codes.reshape(*shape, BLOCK).astype(np.int8), scales, minima)

    def _keys(self, channel):
        """(exponents of K, of V, mantissas of K) of a channel's tokens, (tokens, blocks[, 32])."""
        tokens = self._memories.tokens(channel, self.position)
        blocks, slots = self._shape["head_blocks"], self.config.page_slots
        pages = -(-tokens // slots)
        beats = self._exponent_beats
        exponents = self._streams[channel].scales.pop(2 * pages * beats).reshape(pages, 2, beats * BEAT_BYTES)
        exponents = exponents[:, :, :slots * blocks].reshape(pages, 2, slots, blocks)
        k, v = (exponents[:, n].reshape(-1, blocks)[:tokens].astype(np.int32) for n in range(2))
        return k, v, self._mantissas(channel)

    def _mantissas(self, channel):
        tokens, blocks = self._memories.tokens(channel, self.position), self._shape["head_blocks"]
        beats = self._streams[channel].data.pop(tokens * blocks)
        return beats.view(np.int8).reshape(tokens, blocks, BLOCK).astype(np.int32)

    def _vector(self, record, kind, payload, source):
        """Give *record* what the slices sent; True if it is finished."""
        wanted = {VectorKind.LOAD_NORM: "beats", VectorKind.LOAD_ROPE: "beats", VectorKind.EMBED: "beats",
                  VectorKind.ATTENTION: "head"}.get(record.kind, "rows")
        if kind != wanted:
            raise ProgramError(f"{record.kind.name} was sent {kind}")
        if kind == "rows":
            if (record.region, record.weight_exponent) != (source.region, source.weight_exponent):
                raise ProgramError(f"{record.kind.name}: operand or weight exponent differ from the slices'")
            payload = self._scaled(record, payload[:record.count])
        elif kind == "beats":
            payload = payload[:record.count].astype(np.float32)
        return getattr(self, f"_on_{record.kind.name.lower()}")(record, payload) is not False

    def _scaled(self, record, y):
        match record.scale:
            case RowScale.NORM:
                return mul(y, self._inverse)
            case RowScale.NORM_QUERY:
                return mul(y, mul(self._inverse, self._query_scale))
        return y

    def _on_load_norm(self, record, values):
        self._norms[record.slot] = values

    def _on_load_rope(self, record, values):
        self._rope = values

    def _on_embed(self, record, values):
        self._renew(values, record.slot)

    def _on_residual(self, record, y):
        self._renew(add(self._x, y), record.slot)

    def _on_add(self, record, y):
        self._x = add(self._x, y)

    def _on_router(self, record, y):
        """Nothing chooses by the scores."""

    def _renew(self, x, slot):
        """A new residual: its norm is the operand of what follows."""
        if slot not in self._norms:
            raise ProgramError(f"norm weights of slot {slot} are used before they are loaded")
        self._x = x
        mean = mul(sum_of_squares(x), self._inverse_hidden)
        self._inverse = rsqrt(add(mean, self._epsilon))
        self._complete(Region.HIDDEN, mul(x, self._norms[slot]))

    def _complete(self, region, values):
        self._operands[region] = quantise(values[None], self.config.mantissa_bits)
        self._fences[region] += 1

    def _pairs(self, y):
        """Heads (heads, width) of rows that come as ``lanes`` even elements, then the odd ones of the same pairs."""
        width = self._shape["head_blocks"] * BLOCK
        return y.reshape(-1, width // (2 * self.config.lanes), 2, self.config.lanes).swapaxes(2, 3).reshape(-1, width)

    def _on_query(self, record, y):
        heads = rotate(self._pairs(y), self._rope).reshape(self._shape["kv_heads"], self._shape["group"], -1)
        self._queries = quantise(heads, self.config.mantissa_bits)
        self._fences[Region.QUERY] += 1

    def _on_key(self, record, y):
        natural = quantise(rotate(self._pairs(y), self._rope), KV_BITS)
        pairs = natural.mantissas.reshape(-1, self.config.lanes, 2).swapaxes(1, 2)
        self._newest["K"] = natural._replace(mantissas=pairs.reshape(natural.mantissas.shape))

    def _on_value(self, record, y):
        self._newest["V"] = quantise(y.reshape(self._shape["kv_heads"], -1), KV_BITS)
        self._newest_ready += 1
        self._memories.write_newest(self._layer_tables.popleft(), self.position, self._newest)

    def _on_attention(self, record, payload):
        """One KV head; all of them make the operand of O. Queries are brought to the order of stored keys."""
        number, lanes = len(self._attended), self.config.lanes
        keys, values = payload
        key_exponents, value_exponents, key_mantissas = (self._in_order([part[n] for part in keys]) for n in range(3))
        keys = with_newest(key_mantissas, key_exponents, self._newest["K"], number)
        values = with_newest(self._in_order(values), value_exponents, self._newest["V"], number)
        queries = Blocks(*(part[None, number] for part in self._queries))
        pairs = queries.mantissas.reshape(-1, lanes, 2).swapaxes(1, 2)
        queries = queries._replace(mantissas=pairs.reshape(queries.mantissas.shape))
        visible = np.ones((1, self.position + 1), bool)
        self._attended.append(attend(queries, keys, values, self.config.mantissa_bits, visible).out.reshape(-1))
        if len(self._attended) < self._shape["kv_heads"]:
            return False
        self._complete(Region.ATTENTION, np.concatenate(self._attended)[:record.count])
        self._attended = []
        return True

    def _in_order(self, parts):
        """The older tokens of all channels, token t from channel t mod channels."""
        whole = np.empty((self.position, *parts[0].shape[1:]), np.int32)
        for channel, part in enumerate(parts):
            whole[channel::len(parts)] = part
        return whole

    def _on_glu(self, record, y):
        gate, up = y.reshape(-1, 2, self.config.lanes).swapaxes(0, 1).reshape(2, -1)
        self._complete(Region.ATTENTION if record.slot else Region.FFN, silu_mul(gate, up))

    def _on_head(self, record, y):
        self._logits = y


def with_newest(mantissas, exponents, newest, head):
    """:class:`Blocks` of the older tokens of a KV head and the newest."""
    mantissas = np.concatenate([mantissas, newest.mantissas[None, head]])
    return Blocks(mantissas, np.concatenate([exponents, newest.exponents[None, head]]), mantissas.sum(axis=-1))
