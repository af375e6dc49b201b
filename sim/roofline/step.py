"""One decode step on the accelerator's structure: its two programs, walked over the fluid model of the fullest channel.

The fullest channel is the newest token's owner: it reads as many tokens as any but one, and writes the newest K and V.
"""

from dataclasses import dataclass
from math import ceil

from firmware.program import slice_of, vector_of, walk
from firmware.step_program import access_program, execute_program
from firmware.traffic import key_beats, step_traffic, table_beats, value_beats
from hw.dram.policy import Policy
from hw.isa import AccessKind, Condition, ExecuteKind, Region, SliceKind, VectorKind
from sim.roofline.latency import RECORD_TURN, SUM_CLOCKS, latencies
from sim.roofline.stream import Fetch, Stream

__all__ = ["StepModel", "StepPrediction"]

ELEMENTS = 8
"""binary32 numbers in a beat."""

WAITS = {Region.HIDDEN: "fence: residual and norm", Region.ATTENTION: "fence: attention", Region.FFN: "fence: SiLU",
         Region.QUERY: "fence: queries"}
"""What a slice waits for at a fence."""

ROTATING = (VectorKind.QUERY, VectorKind.KEY, VectorKind.VALUE)
"""Records that may follow each other down the vector unit's pipelines; others start when those are empty."""


@dataclass(frozen=True)
class StepPrediction:
    """Clocks of a step, from its token known to the next token known, and what they are made of.

    ``clocks`` = ``beats`` + every value of ``lost`` (to rounding).
    """

    clocks: float
    beats: int  # of the fullest channel: the memory roof
    lost: dict  # cause: bus clocks


@dataclass(frozen=True)
class Access:
    """An access record as plain numbers."""

    kind: AccessKind
    condition: Condition
    beats: int
    base: int
    gate: bool


@dataclass(frozen=True)
class Execute:
    """A slice record and the vector record that it feeds, as plain numbers; or a record of the loop."""

    kind: ExecuteKind
    condition: Condition
    count: int = 0  # of LOOP
    work: SliceKind | None = None
    region: Region | None = None
    fence: bool = False
    rows: int = 0
    beats: int = 0  # of a matrix share, scales included
    data: int = 0  # of them, data
    head: int = 0
    vector: VectorKind | None = None
    elements: int = 0  # of the vector record
    slot: int = 0  # of the vector record


class StepModel:
    """Predicts steps of *layout*'s program; see docs/roofline.md for the terms."""

    def __init__(self, layout):
        self._layout = layout
        self._latency = latencies(layout.config)
        # Not as a Program: what does not fit the program memories is predicted all the same.
        reads = [Access(r.kind, r.condition, r.beats, r.base, bool(r.wait_token)) for r in access_program(layout)]
        execute = list(plain(execute_program(layout, dict.fromkeys(layout.shares, 1)), layout))
        self._reads = {head: [record for record, _ in walk(reads, head)] for head in (False, True)}
        self._executes = {head: [record for record, _ in walk(execute, head)] for head in (False, True)}
        self._known = {}

    def predict(self, position, logits=False, head=True):
        """The :class:`StepPrediction` of the step at *position*; *logits*: they are written to memory."""
        # Steps of one slot differ only in which channel is the owner.
        about = position // self._layout.config.channels, logits, head
        if about not in self._known:
            self._known[about] = self._predict(*about)
        return self._known[about]

    def _predict(self, slot, logits, head):
        layout, config = self._layout, self._layout.config
        owner = slot * config.channels + config.channels - 1
        beats = step_traffic(layout, owner, head, logits).beats[-1]
        present = layout.rope.stride + layout.attn_norm.stride
        fetches = list(self._fetches(slot, logits, head))
        stream = Stream(fetches, config.fifo_beats, self._latency.read, present)
        clocks = Walk(layout, self._latency, stream, slot).run(self._executes[head])
        lost = {"DRAM rows and turnarounds": sum(f.clocks for f in fetches) + present - beats} | stream.lost
        named = clocks - beats - sum(lost.values())
        return StepPrediction(clocks, beats, lost | {"pipeline at the end": named})

    def _fetches(self, slot, logits, with_head):
        """The memory's order from the token known on: first the embedding row, last the next step's first vectors."""
        layout, miss = self._layout, self._latency.row_miss
        shape, config = layout.shape, layout.config
        pages = ceil(slot / config.page_slots)
        written = 2 * shape.kv_heads * (shape.head_blocks + 1)
        reads = list(enumerate(self._reads[with_head]))
        first = next(n for n, read in reads if read.gate)
        head = max(n for n, read in reads if read.kind is AccessKind.WEIGHTS)
        follows = None  # address at which the run before ends
        for number, read in reads[first:] + reads[:first]:
            match read.kind:
                case AccessKind.TABLE:
                    yield Fetch(0, table_beats(config, slot) + miss)
                    yield Fetch(0, self._write_clocks(written))
                    follows = None
                case AccessKind.KV_K | AccessKind.KV_V:
                    beats = (key_beats if read.kind is AccessKind.KV_K else value_beats)(layout, slot)
                    if beats:
                        yield Fetch(beats, beats + miss * pages)
                    follows = None
                case _:
                    more = 0 if read.base == follows else miss
                    if logits and number == head:
                        more += self._write_clocks(layout.logits_beats)
                    yield Fetch(read.beats, read.beats + more, read.gate)
                    follows = read.base + read.beats

    def _write_clocks(self, beats):
        """Bus clocks of *beats* written in as few groups as the write queue allows."""
        groups = ceil(beats / Policy.drain_level(self._layout.config.write_queue))
        return beats + groups * (self._latency.turnaround + 2 * self._latency.row_miss)


def plain(records, layout):
    """Yields the :class:`Execute` of each execute record but vector records, which go with their slice record."""
    shares = {(share.format, share.rows, share.blocks): share for share in layout.shares.values()}
    vector = None
    for record in records:
        if record.kind is ExecuteKind.VECTOR:
            vector = vector_of(record)
            continue
        if record.kind is not ExecuteKind.SLICE:
            yield Execute(record.kind, record.condition, record.count)
            continue
        item = slice_of(record)
        share = shares[item.format, item.rows, item.blocks] if item.kind is SliceKind.MATRIX else None
        feeds = item.rows > 0 and item.kind in (SliceKind.MATRIX, SliceKind.BYPASS)
        yield Execute(
            record.kind, record.condition, work=item.kind, region=item.region, fence=bool(item.take_fence),
            rows=item.rows, beats=share.beats if share else 0, data=share.data_beats if share else 0, head=item.head,
            vector=vector.kind if feeds else None, elements=vector.count if feeds else 0,
            slot=vector.slot if feeds else 0)


class Walk:
    """The slice and the vector unit through a step; times in clocks since the token was known."""

    def __init__(self, layout, latency, stream, slot):
        self._layout, self._latency, self._stream, self._slot = layout, latency, stream, slot
        config, shape = layout.config, layout.shape
        self._passes = -(-shape.group // config.v_kv)
        self._complete = dict.fromkeys(Region, 0.0)  # operands: when a slice may use them
        self._newest = 0.0  # when a slice may use the newest K and V
        self._vector_free = 0.0
        self._vector_empty = 0.0  # its pipelines
        self._maximum = {}  # head: when its softmax numerators are there
        self._sent = {-2: 0.0, -1: 0.0}  # head: when its P.V sums are out

    def run(self, records):
        """All of *records*; returns the clock in which the next token is known (the last operand is complete)."""
        self._stream.open(self._latency.embedding)
        done = 0.0
        for work in records:
            match work.work:
                case SliceKind.MATRIX:
                    done = self._matrix(work)
                case SliceKind.BYPASS:
                    self._bypass(work)
                case SliceKind.KEYS:
                    self._keys(work)
                case SliceKind.VALUES:
                    self._values(work)
        return done

    def _fence(self, work):
        if work.fence:
            self._stream.wait(self._complete[work.region], WAITS[work.region])

    def _matrix(self, work):
        """A matrix share; returns when its operand (or token) is complete."""
        config, latency = self._layout.config, self._latency
        self._fence(work)
        groups = ceil(work.rows * config.channels / config.lanes)
        last_beat = self._stream.take(work.beats, max(work.data, groups), "row results")
        # The last row of every channel comes at once; they are taken in groups.
        last_group = last_beat + latency.row + latency.gather + config.channels // config.lanes - 1
        free = self._vector_free
        if work.vector not in ROTATING:
            free = max(free, self._vector_empty + RECORD_TURN)
        last_group = max(last_group, free + groups)
        complete = last_group + latency.vector[work.vector]
        self._vector_free, self._vector_empty = last_group + RECORD_TURN, complete
        match work.vector:
            case VectorKind.QUERY:
                self._complete[Region.QUERY] = complete + latency.fence
            case VectorKind.VALUE:
                self._newest = complete + latency.fence
            case VectorKind.RESIDUAL:
                self._complete[Region.HIDDEN] = complete + latency.fence
            case VectorKind.GLU:
                region = Region.ATTENTION if work.slot else Region.FFN
                self._complete[region] = complete + latency.fence
        return complete

    def _bypass(self, work):
        """Beats for the vector unit, a channel's turn each: loads of weights and RoPE rows, or the embedding."""
        config, latency = self._layout.config, self._latency
        self._fence(work)
        if not work.rows:
            return
        clocks = work.rows * config.channels
        if work.vector is VectorKind.EMBED:
            clocks += ceil(work.elements / ELEMENTS) * (ELEMENTS // config.lanes - 1)
        self._stream.wait(self._vector_free - latency.gather, "loads of norm weights")
        last = self._stream.take(work.rows, clocks, "loads of norm weights") + latency.gather
        if work.vector is VectorKind.EMBED:
            complete = last + latency.vector[VectorKind.EMBED]
            self._complete[Region.HIDDEN] = complete + latency.fence
            self._vector_free, self._vector_empty = last + RECORD_TURN, complete
        else:
            self._vector_free = max(last, self._vector_empty) + RECORD_TURN

    def _keys(self, work):
        """K of a head: older tokens from memory, then the newest from the bypass."""
        layout, latency, stream = self._layout, self._latency, self._stream
        blocks = layout.shape.head_blocks
        self._fence(work)
        if work.head == 0:
            self._sent = {-2: 0.0, -1: 0.0}
        exponents = 2 * layout.exponent_beats * ceil(self._slot / layout.config.page_slots)
        stream.take(self._slot * blocks + exponents, self._slot * blocks * self._passes, "query heads beyond V_kv")
        if work.head == 0:
            stream.wait(self._newest, "newest K")
        stream.take(0, blocks * self._passes, "newest K")
        self._maximum[work.head] = stream.now + latency.maximum + latency.merge + latency.numerator

    def _values(self, work):
        """V of a head; its sums follow those of the head before."""
        layout, latency, stream = self._layout, self._latency, self._stream
        shape, config = layout.shape, layout.config
        stream.wait(self._maximum[work.head], "softmax maximum")
        stream.wait(self._sent[work.head - 2], "sums of two heads before")
        blocks = self._slot * shape.head_blocks
        stream.take(blocks, blocks * self._passes, "query heads beyond V_kv")
        stream.take(0, shape.head_blocks * self._passes, "newest V")
        start = max(stream.now + latency.partial, self._sent[work.head - 1], self._vector_free)
        self._sent[work.head] = start + shape.group * (SUM_CLOCKS + shape.head_dim // config.lanes)
        if work.head == shape.kv_heads - 1:
            last = self._sent[work.head] + latency.merge + 1
            complete = last + latency.vector[VectorKind.ATTENTION]
            self._complete[Region.ATTENTION] = complete + latency.fence
            self._vector_free, self._vector_empty = last + RECORD_TURN, complete
