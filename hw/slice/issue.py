"""Issue of data beats into the slice's pipeline: slice records in order, one beat a clock."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import Geometry, SliceDispatch
from hw.isa import Region, SliceKind
from hw.slice.operand import region_bases
from hw.slice.walk import MatrixWalk, TokenWalk, place_layout

__all__ = ["Head", "Issue", "Status"]

DISPATCH_DEPTH = 4

Status = StructLayout({
    "busy": 1,  # a record is in hand
    "waiting_operand": 1,  # it waits for a fence: an operand, or the newest K and V
    "waiting_maximum": 1,  # it waits for softmax numerators, so for the merged maxima
    "waiting_results": 1,  # it waits for room: results, vector beats, maxima, P.V sums
    "waiting_data": 1,  # it waits for a data or scale beat, and for nothing else
})
"""What a slice is doing; at most one of the waiting bits is set, none in a clock that takes a beat or moves on."""


def Head(config: Config):  # noqa: N802
    """A KEYS or VALUES record as it starts: tokens of this channel, and where the newest K and V are kept."""
    return StructLayout({
        "older": range(config.max_slots + 1),
        "owner": 1,
        "newest": range(config.max_kv_heads * config.head_blocks),  # address of block 0
    })


class Issue(Component):
    """Takes records, walks them and says in each clock what enters the pipeline.

    Records follow each other without a lost clock. A record with ``take_fence`` takes one completion of its region with its
    first step; KEYS of head 0 ends by taking one ``newest_complete``, and in the owner of the newest token waits for it
    before that token's step.

    Members: ``dispatch``; ``data_valid``, ``data_ready``; ``scale_valid``, ``scale_take`` (matrix beats only); ``vector_ready``,
    ``vector_valid``; ``complete``, ``take`` a region; ``newest_complete``, ``newest_take``. Room: ``result_free``, ``maximum_free``,
    ``lanes_free`` (for a VALUES record to begin). Attention: ``bytes_valid`` (exponents of the next K beat), ``loader_idle``,
    ``numerator_valid``; ``keys_load`` and ``values_load``, a record starts, with ``head``.

    What enters: one of ``matrix``, ``keys``, ``values``, at most, with ``address`` of pool rows 0 and 1, the place in the walk
    (``ends``, ``second``, ``first_beat``, ``index``; ``place``) and ``newest_address``; ``record`` is the record in hand.
    """

    def __init__(self, config: Config):
        self._config = config
        _, depth = region_bases(config)
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "dispatch": In(stream.Signature(SliceDispatch(config))),
            "data_valid": In(1), "data_ready": Out(1),
            "scale_valid": In(1), "scale_take": Out(1),
            "vector_valid": Out(1), "vector_ready": In(1),
            "complete": In(1).array(len(Region)), "take": Out(1).array(len(Region)),
            "newest_complete": In(1), "newest_take": Out(1),
            "result_free": In(1), "maximum_free": In(1), "lanes_free": In(1),
            "bytes_valid": In(1), "loader_idle": In(1), "numerator_valid": In(1),
            "keys_load": Out(1), "values_load": Out(1), "head": Out(Head(config)),
            "matrix": Out(1), "keys": Out(1), "values": Out(1),
            "record": Out(SliceDispatch(config)),  # its rows count down
            "address": Out(range(depth)).array(2),
            "ends": Out(1).array(2), "second": Out(1), "first_beat": Out(1), "index": Out(4),
            "place": Out(place_layout(config)), "place_last": Out(1),
            "newest_address": Out(range(config.max_kv_heads * config.head_blocks)),
            "status": Out(Status),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.queue = queue = Queue(SliceDispatch(config), DISPATCH_DEPTH)
        m.submodules.matrix_walk = matrix = MatrixWalk(config)
        m.submodules.token_walk = token = TokenWalk(config)
        held, started, nothing = Signal(), Signal(), Signal()
        load, step, last = Signal(), Signal(), Signal()
        coming = queue.o.payload.record
        record = self.record.record
        m.d.comb += [
            queue.i.valid.eq(self.dispatch.valid), queue.i.payload.eq(self.dispatch.payload),
            self.dispatch.ready.eq(queue.i.ready),
            queue.o.ready.eq(~held | (step & last)),
            load.eq(queue.o.valid & queue.o.ready),
        ]
        with m.If(load):
            m.d.sync += [
                self.record.eq(queue.o.payload), held.eq(1), started.eq(0),
                nothing.eq((coming.rows == 0) & ((coming.kind == SliceKind.MATRIX) | (coming.kind == SliceKind.BYPASS))),
            ]
        with m.Elif(step):
            m.d.sync += [started.eq(1), held.eq(~last), record.rows.eq(record.rows - 1)]
        self._load(m, load, queue.o.payload, matrix, token)
        fence = Signal()
        m.d.comb += [
            fence.eq(started | ~record.take_fence | Array(self.complete)[record.region.as_value()]),
            step.eq(self._conditions(m, held, fence, nothing, last, matrix, token)),
            matrix.step.eq(self.matrix), token.step.eq(self.keys | self.values),
        ]
        for region in Region:
            m.d.comb += self.take[region.value].eq(
                step & ~started & record.take_fence & (record.region == region))
        m.d.comb += [
            self.newest_take.eq(self.keys & token.last & (record.head == 0)),
            self.ends[0].eq(matrix.ends[0]), self.ends[1].eq(matrix.ends[1]),
            self.second.eq(matrix.second), self.first_beat.eq(matrix.first), self.index.eq(matrix.index),
        ]
        m.d.comb += [self.place.eq(token.place), self.place_last.eq(token.last)]
        return m

    def _load(self, m, load, coming, matrix, token):
        """Start the walks of the record that comes; addresses of KEYS and VALUES follow its head."""
        bases, _ = region_bases(self._config)
        kind, geometry = coming.record.kind, self.geometry
        attention = Signal()
        m.d.comb += [
            attention.eq((kind == SliceKind.KEYS) | (kind == SliceKind.VALUES)),
            matrix.load.eq(load & ~attention),
            matrix.base.eq(Array(bases[region] for region in Region)[coming.record.region.as_value()]),
            matrix.rows.eq(coming.record.rows), matrix.blocks.eq(coming.record.blocks),
            matrix.format.eq(coming.record.format),
            token.load.eq(load & attention),
            token.older.eq(self.head.older), token.owner.eq(self.head.owner),
            token.passes.eq(geometry.passes), token.head_blocks.eq(geometry.head_blocks),
            self.head.older.eq(coming.position.slot + (self.channel < coming.position.channel)),
            self.head.owner.eq(self.channel == coming.position.channel),
            self.head.newest.eq(coming.record.head * geometry.head_blocks),
            self.keys_load.eq(load & (kind == SliceKind.KEYS)),
            self.values_load.eq(load & (kind == SliceKind.VALUES)),
        ]
        query_base = Signal.like(self.address[0])
        query_block = Signal.like(self.address[0])
        query = Signal.like(self.address[0])
        newest_base = Signal.like(self.newest_address)
        with m.If(token.load):
            start = coming.record.head * geometry.passes * geometry.head_blocks
            m.d.sync += [query_base.eq(start), query_block.eq(start), query.eq(start), newest_base.eq(self.head.newest)]
        with m.Elif(token.step):
            with m.If(~token.place.pass_end):
                m.d.sync += query.eq(query + geometry.head_blocks)
            with m.Elif(~token.place.block_end):
                m.d.sync += [query.eq(query_block + 1), query_block.eq(query_block + 1)]
            with m.Else():
                m.d.sync += [query.eq(query_base), query_block.eq(query_base)]
        keys = self.record.record.kind == SliceKind.KEYS
        m.d.comb += [
            self.address[0].eq(Mux(keys, query, matrix.address[0])),
            self.address[1].eq(Mux(keys, query, matrix.address[1])),
            self.newest_address.eq(newest_base + token.place.block),
        ]

    def _conditions(self, m, held, fence, nothing, last, matrix, token):
        """Drive what enters and what is taken; returns the step of the record in hand."""
        kind = self.record.record.kind
        supply, room, operand, maximum, from_memory = Signal(), Signal(), Signal(), Signal(), Signal()
        is_first, step = Signal(), Signal()
        m.d.comb += [
            operand.eq(fence), room.eq(1), maximum.eq(1), supply.eq(self.data_valid),
            from_memory.eq(~(token.place.newest | token.place.empty)),
            is_first.eq(token.place.first & (token.place.block == 0) & (token.place.pass_ == 0)),
        ]
        with m.Switch(kind):
            with m.Case(SliceKind.MATRIX):
                m.d.comb += [
                    room.eq(self.result_free | nothing),
                    supply.eq((self.data_valid & (self.scale_valid | ~matrix.first)) | nothing),
                    last.eq(matrix.last | nothing), self.matrix.eq(step & ~nothing),
                    self.data_ready.eq(self.matrix), self.scale_take.eq(self.matrix & matrix.first),
                ]
            with m.Case(SliceKind.BYPASS):
                m.d.comb += [
                    room.eq(self.vector_ready | nothing), supply.eq(self.data_valid | nothing),
                    last.eq((self.record.record.rows == 1) | nothing),
                    self.vector_valid.eq(held & fence & self.data_valid & ~nothing), self.data_ready.eq(step & ~nothing),
                ]
            with m.Case(SliceKind.KEYS):
                m.d.comb += [
                    operand.eq(fence & (~token.place.newest | self.newest_complete | (self.record.record.head != 0))),
                    room.eq(self.maximum_free | ~(token.place.final & token.place.block_end)),
                    supply.eq((~from_memory | (self.data_valid & self.bytes_valid)) & (~token.place.final | self.loader_idle)),
                    last.eq(token.last), self.keys.eq(step), self.data_ready.eq(step & from_memory & token.place.pass_end),
                ]
            with m.Case(SliceKind.VALUES):
                m.d.comb += [
                    room.eq(self.lanes_free | ~is_first),
                    maximum.eq(self.numerator_valid),
                    supply.eq(self.data_valid | ~from_memory),
                    last.eq(token.last), self.values.eq(step), self.data_ready.eq(step & from_memory & token.place.pass_end),
                ]
        m.d.comb += [
            step.eq(held & operand & room & maximum & supply),
            self.status.busy.eq(held),
            self.status.waiting_operand.eq(held & ~operand),
            self.status.waiting_maximum.eq(held & operand & ~maximum),
            self.status.waiting_results.eq(held & operand & maximum & ~room),
            self.status.waiting_data.eq(held & operand & maximum & room & ~supply),
        ]
        return step
