"""Dispatch: takes the vector records in order, pairs each with its data and starts it down the pipelines."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import BEAT, GUARD_BITS, MergedItem, accumulator_bits
from hw.isa import Region, RowScale, VectorKind, VectorRecord
from hw.vector.pipe import groups
from hw.vector.quantiser import KV_BITS

__all__ = ["Dispatch", "Tag", "is_one_of"]

A_BEAT = BEAT // 32
SUM_GAP = 1
"""Clocks after a head's softmax sum until its first elements may follow: they then meet its reciprocal."""


def Tag(config: Config):  # noqa: N802
    """What travels beside a group of integers: its record's kind and scale, ``last`` group of the record, the number of
    real elements, and whether it is a softmax sum."""
    return StructLayout({
        "kind": VectorKind,
        "scale": RowScale,
        "last": 1,
        "is_sum": 1,
        "count": range(config.lanes + 1),
    })


ROTATING = (VectorKind.QUERY, VectorKind.KEY, VectorKind.VALUE)
NORMED = (VectorKind.EMBED, VectorKind.RESIDUAL)


def is_one_of(kind, *kinds):
    match = kind == kinds[0]
    for other in kinds[1:]:
        match = match | (kind == other)
    return match


class Source(enum.Enum, shape=2):
    """Where a record's data comes from."""

    LOAD = 0
    EMBED = 1
    RESULTS = 2
    MERGED = 3


class Dispatch(Component):
    """One record at a time is being fed; a group (or loaded beat) a clock as long as data comes.

    A record starts when no record is in flight that it could overtake or disturb: QUERY, KEY and VALUE follow each
    other down the same path; loads start at once unless the buffer is in use; any other waits until the pipelines are
    empty, which costs nothing where a fence separates the operators, or where rows come more slowly. ROUTER is
    done with its last group, as nothing takes its results. A group whose scale is 1/rms waits until that is known.

    Padding that rounds a record's results (or beats) up to a multiple of the channels is taken and dropped.

    Members: ``records``, ``results``, ``beats``, ``merged`` streams in; ``largest``, exponents of the operands
    (Quantiser); ``done_operand`` and ``done_head``: a record has left; ``norm_done``; ``room``: logits may be sent.
    Out: ``valid`` with ``values``, ``exponent`` and ``tag``, a group of integers; ``embed``, groups of a new residual;
    ``load_norm``, ``load_rope`` with ``load_slot``, ``load_beat``, ``load_data``; ``slot`` and
    ``path``, slot and kind of the youngest record in the pipelines; ``done``, a pulse for each record in order;
    ``busy``; ``feeding``, a record of ``kind`` is being fed.
    """

    def __init__(self, config: Config):
        self._config = config
        bits = accumulator_bits(config)
        super().__init__({
            "records": In(stream.Signature(VectorRecord)),
            "results": In(stream.Signature(ArrayLayout(signed(bits), config.lanes))),
            "beats": In(stream.Signature(BEAT)),
            "merged": In(stream.Signature(MergedItem(config))),
            "largest": In(ArrayLayout(8, len(Region))),
            "done_operand": In(1),
            "done_head": In(1),
            "norm_done": In(1),
            "room": In(1),
            "valid": Out(1),
            "values": Out(ArrayLayout(signed(bits), config.lanes)),
            "exponent": Out(signed(12)),
            "tag": Out(Tag(config)),
            "embed": Out(groups(config.lanes)),
            "load_norm": Out(1),
            "load_rope": Out(1),
            "load_beat": Out(range(config.max_hidden // A_BEAT)),
            "load_data": Out(BEAT),
            "load_slot": Out(1),
            "slot": Out(1),
            "path": Out(VectorKind),
            "done": Out(1),
            "busy": Out(1),
            "feeding": Out(1),
            "kind": Out(VectorKind),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        lanes = config.lanes
        record, source = Signal(VectorRecord), Signal(Source)
        remaining = Signal(20)
        turn, turns = Signal(range(max(2, config.channels))), Signal(range(config.channels + 1))
        part = Signal(range(A_BEAT // lanes))  # group inside an embedding beat
        gap = Signal(range(SUM_GAP + 1))
        index = Signal.like(self.load_beat)

        flight = Signal(4)  # records in the pipelines
        norm_pending, empty, startable, is_load = Signal(), Signal(), Signal(), Signal()
        asked = self.records.payload.kind
        m.d.comb += [empty.eq(flight == 0), is_load.eq(is_one_of(asked, VectorKind.LOAD_NORM, VectorKind.LOAD_ROPE))]
        self._order(m, asked, flight, empty, norm_pending, startable)

        take, last, wrapped = Signal(), Signal(), Signal()
        load_done, started = Signal(), Signal()
        m.d.comb += wrapped.eq(turn == turns - 1)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.records.ready.eq(startable)
                with m.If(self.records.valid & startable):
                    m.d.comb += started.eq(~is_load)
                    m.d.sync += [
                        record.eq(self.records.payload), remaining.eq(self.records.payload.count),
                        turn.eq(0), part.eq(0), index.eq(0), gap.eq(0),
                        source.eq(Source.RESULTS), turns.eq(config.channels // lanes),
                    ]
                    with m.If(is_load):
                        m.d.sync += [source.eq(Source.LOAD), turns.eq(config.channels)]
                    with m.Else():
                        m.d.sync += [self.path.eq(asked), self.slot.eq(self.records.payload.slot)]
                    with m.If(asked == VectorKind.EMBED):
                        m.d.sync += [source.eq(Source.EMBED), turns.eq(config.channels)]
                    with m.If(asked == VectorKind.ATTENTION):
                        m.d.sync += source.eq(Source.MERGED)
                    m.next = "FEED"
            with m.State("FEED"):
                with m.If(take & last):
                    m.next = "PAD"
                    with m.If(wrapped | (source == Source.MERGED)):
                        m.next = "FINISH"
            with m.State("PAD"):
                with m.If(take & wrapped):
                    m.next = "FINISH"
            with m.State("FINISH"):
                with m.If(source != Source.LOAD):
                    m.next = "IDLE"
                with m.Elif(empty):
                    m.d.comb += load_done.eq(1)
                    m.next = "IDLE"

        feed, pad = fsm.ongoing("FEED"), fsm.ongoing("PAD")
        m.d.comb += [self.feeding.eq(~fsm.ongoing("IDLE")), self.kind.eq(record.kind)]
        self._sources(m, feed, pad, source, record, norm_pending, part, gap, take)
        step = Signal(range(A_BEAT + 1))
        m.d.comb += [
            step.eq(Mux(source == Source.LOAD, A_BEAT, lanes)),
            last.eq((remaining <= step) & ~self.tag.is_sum),
        ]
        beat_taken = Signal()
        m.d.comb += beat_taken.eq(take & ((source != Source.EMBED) | pad | (part == A_BEAT // lanes - 1)))
        with m.If(take & feed & ~self.tag.is_sum):
            m.d.sync += remaining.eq(remaining - step)
        with m.If(beat_taken):
            m.d.sync += [turn.eq(Mux(wrapped, 0, turn + 1)), index.eq(index + 1)]

        self._outputs(m, feed & take, source, record, remaining, last, part, index)
        left = Signal()
        m.d.comb += left.eq(self.done_operand | self.done_head
                            | (feed & take & last & (record.kind == VectorKind.ROUTER)))
        m.d.sync += [flight.eq(flight + started - left), self.done.eq(left | load_done)]
        with m.If(self.norm_done):
            m.d.sync += norm_pending.eq(0)
        with m.If(feed & take & last & is_one_of(record.kind, *NORMED)):
            m.d.sync += norm_pending.eq(1)
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE") | ~empty | norm_pending | self.done)
        return m

    def _order(self, m, asked, flight, empty, norm_pending, startable):
        """``startable``: no record in flight forbids a record of kind ``asked``."""
        on_rope, on_norm = Signal(), Signal()
        m.d.comb += [on_rope.eq(is_one_of(self.path, *ROTATING)), on_norm.eq(is_one_of(self.path, *NORMED))]
        with m.If(asked == VectorKind.LOAD_NORM):
            m.d.comb += startable.eq(empty | ~on_norm)
        with m.Elif(asked == VectorKind.LOAD_ROPE):
            m.d.comb += startable.eq(empty | ~on_rope)
        with m.Elif(is_one_of(asked, *ROTATING)):
            m.d.comb += startable.eq(empty | (on_rope & ~flight[-1]))
        with m.Elif(is_one_of(asked, *NORMED)):
            m.d.comb += startable.eq(empty & ~norm_pending)
        with m.Else():
            m.d.comb += startable.eq(empty)

    def _sources(self, m, feed, pad, source, record, norm_pending, part, gap, take):
        """``take``: a group, item, part of a beat, or piece of padding goes this clock; ready of the streams."""
        lanes = self._config.lanes
        scale_ready, gap_over = Signal(), Signal()
        m.d.comb += [
            scale_ready.eq((record.scale == RowScale.ONE) | ~norm_pending),
            gap_over.eq(gap == 0),
        ]
        with m.If(~gap_over):
            m.d.sync += gap.eq(gap - 1)
        with m.If(take & self.tag.is_sum):
            m.d.sync += gap.eq(SUM_GAP)
        with m.Switch(source):
            with m.Case(Source.RESULTS):
                go = pad | (feed & scale_ready & (self.room | (record.kind != VectorKind.HEAD)))
                m.d.comb += [take.eq(self.results.valid & go), self.results.ready.eq(go)]
            with m.Case(Source.MERGED):
                go = feed & gap_over
                m.d.comb += [take.eq(self.merged.valid & go), self.merged.ready.eq(go)]
            with m.Case(Source.LOAD):
                m.d.comb += [take.eq(self.beats.valid & (feed | pad)), self.beats.ready.eq(feed | pad)]
            with m.Case(Source.EMBED):
                m.d.comb += [
                    take.eq(self.beats.valid & (feed | pad)),
                    self.beats.ready.eq(pad | (feed & (part == A_BEAT // lanes - 1))),
                ]
                with m.If(take & feed):
                    m.d.sync += part.eq(part + 1)

    def _outputs(self, m, go, source, record, remaining, last, part, index):
        config = self._config
        lanes = config.lanes
        results_exponent = Signal(signed(12))
        merged = self.merged.payload
        offset = -127 - (config.mantissa_bits - 2) - 25 - GUARD_BITS
        m.d.comb += [
            results_exponent.eq(self.largest[record.region.as_value()] + record.weight_exponent + offset),
            self.tag.kind.eq(record.kind),
            self.tag.scale.eq(record.scale),
            self.tag.last.eq(last),
            self.tag.count.eq(Mux(remaining > lanes, lanes, remaining)),
        ]
        with m.If(source == Source.MERGED):
            m.d.comb += [
                self.valid.eq(go), self.tag.is_sum.eq(merged.is_sum),
                self.exponent.eq(Mux(merged.is_sum, 0, merged.exponent - (127 + KV_BITS - 2))),
            ]
            m.d.comb += [self.values[n].eq(merged.elements[n].as_signed()) for n in range(lanes)]
        with m.Else():
            m.d.comb += [
                self.valid.eq(go & (source == Source.RESULTS)),
                self.exponent.eq(results_exponent),
                self.values.eq(self.results.payload),
            ]
        beat = Signal(ArrayLayout(ArrayLayout(32, lanes), A_BEAT // lanes))
        m.d.comb += [
            Cat(beat).eq(self.beats.payload),
            self.embed.valid.eq(go & (source == Source.EMBED)),
            self.embed.last.eq(last),
            self.embed.values.eq(beat[part]),
            self.load_norm.eq(go & (source == Source.LOAD) & (record.kind == VectorKind.LOAD_NORM)),
            self.load_rope.eq(go & (source == Source.LOAD) & (record.kind == VectorKind.LOAD_ROPE)),
            self.load_beat.eq(index),
            self.load_data.eq(self.beats.payload),
            self.load_slot.eq(record.slot),
        ]
