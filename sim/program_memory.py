"""Memory side of the program model: what readers fetch into each channel's stream, and what the KV writers write."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from firmware.program import walk
from hw.config import BEAT_BYTES
from hw.isa import AccessKind, Format, Index

__all__ = ["Beats", "ChannelMemories", "ProgramError", "Stream"]

DATA_BEATS = {Format.Q4_0: 8, Format.Q4_1: 4, Format.Q8_0: 16}
"""Data beats behind a full scale beat."""


class ProgramError(Exception):
    """The programs and the image do not fit each other."""


class Beats:
    """A queue of beats."""

    def __init__(self):
        self._parts = deque()
        self.count = 0

    def push(self, beats):
        if len(beats):
            self._parts.append(beats)
            self.count += len(beats)

    def pop(self, count):
        if count > self.count:
            raise ProgramError(f"{count} beats wanted, {self.count} in the stream")
        self.count -= count
        taken = []
        while count:
            part = self._parts.popleft()
            taken.append(part[:count])
            if len(part) > count:
                self._parts.appendleft(part[count:])
            count -= len(taken[-1])
        return np.concatenate(taken) if taken else np.empty((0, BEAT_BYTES), np.uint8)


@dataclass
class Stream:
    """What one channel's reader fetched in a step."""

    data: Beats = field(default_factory=Beats)
    scales: Beats = field(default_factory=Beats)
    tables: list = field(default_factory=list)  # of each layer, physical page numbers


class ChannelMemories:
    """The channels' memories (uint8 arrays from beat 0) with KV pages laid out as *registers* say."""

    def __init__(self, config, memories, registers):
        self._config = config
        self._memories = [memory.reshape(-1, BEAT_BYTES) for memory in memories]
        self._blocks = registers["heads"]["head_blocks"]
        self._kv_heads = registers["heads"]["kv_heads"]
        self._kv_base = registers["kv_base"]["beat"]
        self._page_beats = registers["page"]["page_beats"]
        self._head_beats = registers["page_head"]["head_beats"]
        self._exponent_beats = registers["page_head"]["exponent_beats"]

    def fetch(self, channel, records, token, position, head):
        """The :class:`Stream` that the access program *records* brings in *channel*."""
        memory, stream = self._memories[channel], Stream()
        factors = {Index.NONE: 0, Index.TOKEN: token, Index.POSITION: position}
        for record, layer in walk(records, head):
            factors[Index.LAYER] = layer
            base = record.base + record.stride * factors[record.index]
            beats = memory[base:base + record.beats]
            match record.kind:
                case AccessKind.VECTOR:
                    stream.data.push(beats)
                case AccessKind.WEIGHTS:
                    is_scale = np.arange(record.beats) % (DATA_BEATS[record.format] + 1) == 0
                    stream.scales.push(beats[is_scale])
                    stream.data.push(beats[~is_scale])
                case AccessKind.TABLE:
                    stream.tables.append(np.ascontiguousarray(beats).view("<u4").reshape(-1))
                case AccessKind.KV_K | AccessKind.KV_V:
                    self._fetch_pages(channel, stream, record, self.tokens(channel, position))
        return stream

    def tokens(self, channel, position):
        """Tokens before *position* that *channel* holds."""
        slot, owner = divmod(position, self._config.channels)
        return slot + (channel < owner)

    def _fetch_pages(self, channel, stream, record, tokens):
        """K with the exponents, or V, of a KV head."""
        slots, blocks, exponents = self._config.page_slots, self._blocks, self._exponent_beats
        values = record.kind is AccessKind.KV_V
        left, number = tokens, 0
        while left > 0:
            base = self._head_base(stream.tables[-1][number], record.head)
            if not values:
                stream.scales.push(self._memories[channel][base:base + 2 * exponents])
            base += 2 * exponents + slots * blocks * values
            stream.data.push(self._memories[channel][base:base + min(left, slots) * blocks])
            left, number = left - slots, number + 1

    def _head_base(self, page, head):
        return self._kv_base + int(page) * self._page_beats + head * self._head_beats

    def write_newest(self, tables, position, newest):
        """The KV writer: blocks and exponents of the newest token, *newest* = {"K": blocks, "V": blocks}, to its page.

        *tables*: page numbers of the layer for each channel. K's elements are in stored order already.
        """
        slot, channel = divmod(position, self._config.channels)
        logical, slot = divmod(slot, self._config.page_slots)
        memory, first = self._memories[channel], slot * self._blocks
        for head in range(self._kv_heads):
            base = self._head_base(tables[channel][logical], head)
            for number, blocks in enumerate((newest["K"], newest["V"])):
                at = base + 2 * self._exponent_beats + number * self._config.page_slots * self._blocks + first
                memory[at:at + self._blocks] = blocks.mantissas[head].astype(np.int8).view(np.uint8)
                beat = memory[base + number * self._exponent_beats + first // BEAT_BYTES]
                if first % BEAT_BYTES == 0:
                    beat[:] = 0
                beat[first % BEAT_BYTES:][:self._blocks] = blocks.exponents[head]
