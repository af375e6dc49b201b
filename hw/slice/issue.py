"""Issue of data beats into the slice's pipeline: slice records in order, one beat a clock."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import Geometry, SliceDispatch
from hw.isa import Format, Region, SliceKind
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
    "taken": 1,  # the next record comes to hand in the clock after
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

    Records follow each other without a lost clock. A record with ``take_fence`` takes one completion of its region
    with its first step; KEYS of head 0 ends by taking one ``newest_complete``, and in the owner of the newest token
    waits for it before that token's step.

    Members, supply: ``dispatch``; ``data_valid``, ``data_ready``; ``scale_valid``, ``scale_take`` (matrix beats
    only); ``vector_valid``, ``vector_ready``; ``complete`` and ``take`` a region; ``newest_complete``,
    ``newest_take``; ``bytes_valid``, exponents of the next K beat; ``loader_idle``; ``numerator_valid``.

    Room: ``result_free``, ``maximum_free``, ``lanes_free`` (for a VALUES record to begin).

    What enters: at most one of ``matrix``, ``keys``, ``values``, with ``address`` of pool rows 0 and 1; of a matrix
    beat ``format``, ``region``, ``weight_exponent`` and its place in the walk (``ends``, ``second``, ``first_beat``,
    ``index``); of a K or V beat its place (:func:`place_layout`), ``last`` of the head, and ``newest_address``.
    ``keys_load``: a KEYS record starts, with ``head``. ``attention``: a KEYS or VALUES record is in hand or next.
    ``idle``: there is no record.
    """

    def __init__(self, config: Config):
        self._config = config
        _, depth = region_bases(config)
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "dispatch": In(stream.Signature(SliceDispatch(config))),
            "data_valid": In(1),
            "data_ready": Out(1),
            "scale_valid": In(1),
            "scale_take": Out(1),
            "vector_valid": Out(1),
            "vector_ready": In(1),
            "complete": In(1).array(len(Region)),
            "take": Out(1).array(len(Region)),
            "newest_complete": In(1),
            "newest_take": Out(1),
            "bytes_valid": In(1),
            "loader_idle": In(1),
            "numerator_valid": In(1),
            "result_free": In(1),
            "maximum_free": In(1),
            "lanes_free": In(1),
            "matrix": Out(1),
            "keys": Out(1),
            "values": Out(1),
            "format": Out(Format),
            "region": Out(Region),
            "weight_exponent": Out(5),
            "address": Out(range(depth)).array(2),
            "ends": Out(1).array(2),
            "second": Out(1),
            "first_beat": Out(1),
            "index": Out(4),
            **{name: Out(field.shape) for name, field in place_layout(config)},
            "last": Out(1),
            "newest_address": Out(range(config.max_kv_heads * config.head_blocks)),
            "keys_load": Out(1),
            "head": Out(Head(config)),
            "attention": Out(1),
            "status": Out(Status),
            "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.queue = queue = Queue(SliceDispatch(config), DISPATCH_DEPTH)
        m.submodules.matrix_walk = matrix = MatrixWalk(config)
        m.submodules.token_walk = token = TokenWalk(config)
        held, nothing = Signal(), Signal()
        load, step, last = Signal(), Signal(), Signal()
        take_fence, fence = Signal(), Signal()
        kind, head, rows = Signal(SliceKind), Signal(6), Signal(20)
        coming = queue.o.payload.record
        m.d.comb += [
            queue.i.valid.eq(self.dispatch.valid),
            queue.i.payload.eq(self.dispatch.payload),
            self.dispatch.ready.eq(queue.i.ready),
            queue.o.ready.eq(~held | (step & last)),
            load.eq(queue.o.valid & queue.o.ready),
            self.idle.eq(~queue.o.valid & ~held),
            fence.eq(~take_fence | Array(self.complete)[self.region.as_value()]),
            *(self.take[region.value].eq(step & take_fence & (self.region == region)) for region in Region),
        ]
        with m.If(load):
            m.d.sync += [
                kind.eq(coming.kind),
                head.eq(coming.head),
                rows.eq(coming.rows),
                take_fence.eq(coming.take_fence),
                self.format.eq(coming.format),
                self.region.eq(coming.region),
                self.weight_exponent.eq(coming.weight_exponent),
                held.eq(1),
                nothing.eq((coming.rows == 0)
                           & ((coming.kind == SliceKind.MATRIX) | (coming.kind == SliceKind.BYPASS))),
            ]
        with m.Elif(step):
            m.d.sync += [take_fence.eq(0), held.eq(~last), rows.eq(rows - 1)]
        self._load_matrix(m, load, coming, matrix)
        in_attention = self._load_token(m, load, held, kind, queue.o, token)
        self._conditions(m, (kind, head, rows), held, load, fence, nothing, step, last, matrix, token)
        self._addresses(m, token, matrix, in_attention)
        return m

    def _load_matrix(self, m, load, coming, walk):
        """Start the walk of a matrix, and show where it is."""
        bases, _ = region_bases(self._config)
        m.d.comb += [
            walk.load.eq(load),
            walk.base.eq(Array(bases[region] for region in Region)[coming.region.as_value()]),
            walk.rows.eq(coming.rows),
            walk.blocks.eq(coming.blocks),
            walk.format.eq(coming.format),
            walk.step.eq(self.matrix),
            self.ends[0].eq(walk.ends[0]),
            self.ends[1].eq(walk.ends[1]),
            self.second.eq(walk.second),
            self.first_beat.eq(walk.first),
            self.index.eq(walk.index),
        ]

    def _load_token(self, m, load, held, held_kind, queue, walk):
        """Start the walk of KEYS and VALUES, and show where it is; returns whether one is in hand."""
        coming, position, geometry = queue.payload.record, queue.payload.position, self.geometry
        next_is, held_is = Signal(), Signal()
        m.d.comb += [
            next_is.eq(queue.valid & ((coming.kind == SliceKind.KEYS) | (coming.kind == SliceKind.VALUES))),
            held_is.eq(held & ((held_kind == SliceKind.KEYS) | (held_kind == SliceKind.VALUES))),
            self.attention.eq(next_is | held_is),
            walk.load.eq(load & next_is),
            walk.older.eq(self.head.older),
            walk.owner.eq(self.head.owner),
            walk.passes.eq(geometry.passes),
            walk.head_blocks.eq(geometry.head_blocks),
            walk.step.eq(self.keys | self.values),
            *(getattr(self, name).eq(getattr(walk, name)) for name, _ in place_layout(self._config)),
            self.last.eq(walk.last),
            self.head.older.eq(position.slot + (self.channel < position.channel)),
            self.head.owner.eq(self.channel == position.channel),
            self.head.newest.eq(coming.head * geometry.head_blocks),
            self.keys_load.eq(load & (coming.kind == SliceKind.KEYS)),
        ]
        return held_is

    def _addresses(self, m, walk, matrix, in_attention):
        """Operand addresses of the beat to come, and where the newest K or V is."""
        geometry = self.geometry
        base, block, query = (Signal.like(self.address[0], name=f"query_{name}") for name in ("base", "block", "here"))
        newest = Signal.like(self.newest_address)
        start = self.head.newest * geometry.passes
        with m.If(walk.load):
            m.d.sync += [base.eq(start), block.eq(start), query.eq(start), newest.eq(self.head.newest)]
        with m.Elif(walk.step):
            with m.If(~walk.pass_end):
                m.d.sync += query.eq(query + geometry.head_blocks)
            with m.Elif(~walk.block_end):
                m.d.sync += [query.eq(block + 1), block.eq(block + 1)]
            with m.Else():
                m.d.sync += [query.eq(base), block.eq(base)]
        for n in range(2):
            m.d.comb += self.address[n].eq(Mux(in_attention, query, matrix.address[n]))
        m.d.comb += self.newest_address.eq(newest + walk.block)

    def _conditions(self, m, record, held, load, fence, nothing, step, last, matrix, token):
        """What the record in hand waits for, and what it takes when it moves on."""
        kind, head, rows = record
        operand, maximum, room, supply = Signal(), Signal(), Signal(), Signal()
        from_memory, frees = Signal(), Signal()
        m.d.comb += [
            operand.eq(fence),
            maximum.eq(1),
            from_memory.eq(~(token.newest | token.empty)),
            frees.eq(from_memory & token.pass_end),
        ]
        with m.Switch(kind):
            with m.Case(SliceKind.MATRIX):
                m.d.comb += [
                    room.eq(self.result_free | nothing),
                    supply.eq((self.data_valid & (self.scale_valid | ~matrix.first)) | nothing),
                    last.eq(matrix.last | nothing),
                    self.matrix.eq(step & ~nothing),
                    self.data_ready.eq(self.matrix),
                    self.scale_take.eq(self.matrix & matrix.first),
                ]
            with m.Case(SliceKind.BYPASS):
                m.d.comb += [
                    room.eq(self.vector_ready | nothing),
                    supply.eq(self.data_valid | nothing),
                    last.eq((rows == 1) | nothing),
                    self.vector_valid.eq(held & fence & self.data_valid & ~nothing),
                    self.data_ready.eq(step & ~nothing),
                ]
            with m.Case(SliceKind.KEYS):
                m.d.comb += [
                    operand.eq(fence & (~token.newest | self.newest_complete | (head != 0))),
                    room.eq(self.maximum_free | ~(token.final & token.block_end)),
                    supply.eq((~from_memory | (self.data_valid & self.bytes_valid))
                              & (~token.final | self.loader_idle)),
                    last.eq(token.last),
                    self.keys.eq(step),
                    self.data_ready.eq(step & frees),
                    self.newest_take.eq(step & token.last & (head == 0)),
                ]
            with m.Case(SliceKind.VALUES):
                m.d.comb += [
                    room.eq(self.lanes_free | ~(token.first & (token.block == 0) & (token.pass_ == 0))),
                    maximum.eq(self.numerator_valid),
                    supply.eq(self.data_valid | ~from_memory),
                    last.eq(token.last),
                    self.values.eq(step),
                    self.data_ready.eq(step & frees),
                ]
        m.d.comb += [
            step.eq(held & operand & maximum & room & supply),
            self.status.busy.eq(held),
            self.status.taken.eq(load),
            self.status.waiting_operand.eq(held & ~operand),
            self.status.waiting_maximum.eq(held & operand & ~maximum),
            self.status.waiting_results.eq(held & operand & maximum & ~room),
            self.status.waiting_data.eq(held & operand & maximum & room & ~supply),
        ]
