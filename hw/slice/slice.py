"""The slice of one channel: from the prefetch FIFO's beats to row results, score maxima and P.V sums."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import (
    BEAT,
    Geometry,
    MaximumItem,
    OperandBus,
    PartialItem,
    SliceDispatch,
    accumulator_bits,
)
from hw.isa import Format, Region
from hw.slice.accumulator import RowAccumulator
from hw.slice.dequant import Dequantiser
from hw.slice.exponents import ExponentLoader
from hw.slice.issue import Issue, Status
from hw.slice.newest import NewestStore
from hw.slice.numerators import Numerators, merged_maximum_signature
from hw.slice.operand import OperandStore
from hw.slice.pipe import Credits, delayed
from hw.slice.placement import Placement
from hw.slice.pool import Pool
from hw.slice.scales import ScaleFeed
from hw.slice.scores import Scores, maxima_depth
from hw.slice.values import LaneSums
from hw.slice.walk import place_of

__all__ = ["Slice"]

RESULT_DEPTH = 16
"""Row results that the slice holds; more than its pipeline's clocks, so that a row a clock is sustained."""


LINGER = 15
"""Clocks that the attention part runs on after its last record; more than any of its pipelines has stages."""


class Slice(Component):
    """Executes slice records in order on one channel's beats; bits as in docs/numerics.md sections 3 and 7.

    One data beat a clock in every phase (a KV beat stays for ``geometry.passes`` clocks), with a scale beat in the
    same clock where one is due; records follow each other without a lost clock. Latency, from the clock in which the
    last beat is taken: a row result 9 clocks, a maximum 13, a head's first P.V item 4; from ``last`` on the operand bus
    to the first beat 1.

    Stage n of the comments is the n-th clock after the one in which a beat is taken.

    Members: ``channel``, the number of this channel; ``data`` and ``scales``, from the prefetch FIFO; ``dispatch``;
    ``geometry``; ``operand``, broadcast; ``results``, in row order; ``vector``, beats of BYPASS records as they are;
    ``maximum``, one item a pass of each KEYS record; ``merged_maximum``, the same over all channels; ``partial``, for
    each VALUES record; ``status``; ``idle``: there is no record;
    ``unused``: there are operands, or newest K and V, that no record has waited for.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "data": In(stream.Signature(BEAT)),
            "scales": In(stream.Signature(BEAT)),
            "dispatch": In(stream.Signature(SliceDispatch(config))),
            "operand": In(OperandBus(config)),
            "results": Out(stream.Signature(signed(accumulator_bits(config)))),
            "vector": Out(stream.Signature(BEAT)),
            "maximum": Out(stream.Signature(MaximumItem(config))),
            "merged_maximum": In(merged_maximum_signature(config)),
            "partial": Out(stream.Signature(PartialItem(config))),
            "status": Out(Status),
            "idle": Out(1),
            "unused": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.issue = issue = Issue(config)
        m.submodules.operands = operands = OperandStore(config)
        m.submodules.newest = newest = NewestStore(config)
        m.submodules.loader = loader = ExponentLoader(config)
        m.submodules.numerators = numerators = Numerators(config)
        m.submodules.pool = pool = Pool(config)
        m.submodules.placement = placement = Placement(config)
        m.submodules.scores = scores = Scores(config)
        m.submodules.lane_sums = sums = LaneSums(config)
        self._broadcast(m, operands.bus, newest.bus)
        self._issue(m, issue, operands, newest)
        self._attention(m, issue, loader, newest, numerators, (pool, placement, scores, numerators, sums))
        self._operands(m, issue, operands, newest, numerators, pool)
        self._placement(m, issue, operands, pool, placement)
        self._results(m, issue, placement)
        self._scores(m, issue, newest, loader, placement, scores, numerators)
        self._values(m, issue, pool, numerators, sums)
        return m

    def _broadcast(self, m, *receivers):
        """The operand bus, which has no ready, to several receivers."""
        for receiver in receivers:
            for (_, _, target), (_, _, source) in zip(receiver.signature.flatten(receiver),
                                                      self.operand.signature.flatten(self.operand), strict=True):
                m.d.comb += target.eq(source)

    def _issue(self, m, issue, operands, newest):
        """Records, fences, and the streams that the issue takes and gives."""
        m.d.comb += [
            issue.channel.eq(self.channel),
            issue.geometry.eq(self.geometry),
            issue.dispatch.valid.eq(self.dispatch.valid),
            issue.dispatch.payload.eq(self.dispatch.payload),
            self.dispatch.ready.eq(issue.dispatch.ready),
            issue.data_valid.eq(self.data.valid),
            self.data.ready.eq(issue.data_ready),
            issue.scale_valid.eq(self.scales.valid),
            self.vector.valid.eq(issue.vector_valid),
            self.vector.payload.eq(self.data.payload),
            issue.vector_ready.eq(self.vector.ready),
            *(issue.complete[region.value].eq(operands.complete[region.value]) for region in Region),
            *(operands.take[region.value].eq(issue.take[region.value]) for region in Region),
            issue.newest_complete.eq(newest.complete),
            newest.take.eq(issue.newest_take),
            self.status.eq(issue.status),
            self.idle.eq(issue.idle),
            self.unused.eq(Cat(*operands.complete, newest.complete).any()),
        ]

    def _attention(self, m, issue, loader, newest, numerators, sleepers):
        """What KEYS and VALUES need beside the pool; it stands still when the last of them is long over."""
        linger = Signal(range(LINGER + 1))
        active, busy = Signal(), Signal()
        m.d.comb += [
            busy.eq(issue.attention | numerators.pending | numerators.occupied.any()),
            active.eq(busy | linger.any()),
            *(sleeper.active.eq(active) for sleeper in sleepers),
            self.scales.ready.eq(issue.scale_take | loader.scales.ready),
            loader.scales.valid.eq(self.scales.valid),
            loader.scales.payload.eq(self.scales.payload),
            loader.geometry.eq(self.geometry),
            loader.start.eq(issue.keys_load),
            loader.tokens.eq(issue.head.older),
            issue.loader_idle.eq(loader.idle),
            issue.bytes_valid.eq(loader.keys.valid & loader.values.valid),
            numerators.geometry.eq(self.geometry),
            numerators.head_valid.eq(issue.keys_load),
            numerators.head.eq(issue.head),
            numerators.kept_valid.eq(loader.kept_valid),
            numerators.kept.eq(loader.kept),
            numerators.merged.valid.eq(self.merged_maximum.valid),
            numerators.merged.item.eq(self.merged_maximum.item),
            numerators.newest_exponent.eq(newest.numerator_exponent),
            newest.numerator_read.eq(numerators.newest_read),
            newest.numerator_address.eq(numerators.newest_address),
            issue.numerator_valid.eq(numerators.numerators.valid),
            numerators.numerators.ready.eq(issue.values),
        ]
        with m.If(busy):
            m.d.sync += linger.eq(LINGER)
        with m.Elif(linger.any()):
            m.d.sync += linger.eq(linger - 1)

    def _operands(self, m, issue, operands, newest, numerators, pool):
        """Stage 1: a beat, or the newest K or V, becomes codes; its operands come out of their memories."""
        m.submodules.dequantiser = dequantiser = Dequantiser()
        beat = Signal(BEAT, reset_less=True)
        m.d.sync += beat.eq(self.data.payload)
        m.d.comb += [
            operands.address[0].eq(issue.address[0]),
            operands.address[1].eq(issue.address[1]),
            operands.read_queries.eq(issue.keys),
            newest.address.eq(issue.newest_address),
            newest.value.eq(issue.values),
            newest.read.eq((issue.keys | issue.values) & issue.newest),
            dequantiser.beat.eq(Mux(delayed(m, newest.read, 1, "newest"), newest.beat, beat)),
            dequantiser.nibbles.eq(delayed(m, issue.matrix & (issue.format != Format.Q8_0), 1, "nibbles")),
            dequantiser.format.eq(delayed(m, issue.format.as_value(), 1, "format")),
            pool.weighted.eq(delayed(m, issue.values, 1, "weighted")),
            *(pool.probability[row].eq(delayed(m, numerators.numerators.payload[row], 1, f"numerator_{row}"))
              for row in range(self._config.v_kv)),
        ]
        for to, source in ((pool.low, dequantiser.low), (pool.high, dequantiser.high)):
            m.d.comb += [lane.eq(code) for lane, code in zip(to, source, strict=True)]
        for to, source in zip(pool.mantissas, operands.mantissas, strict=True):
            m.d.comb += [lane.eq(mantissa) for lane, mantissa in zip(to, source, strict=True)]

    def _placement(self, m, issue, operands, pool, placement):
        """Scales join in stage 1; dot products come in stage 5, placed terms in stage 7."""
        m.submodules.scale_feed = feed = ScaleFeed()
        m.d.comb += [
            feed.beat.eq(self.scales.payload),
            feed.first.eq(issue.first_beat),
            feed.index.eq(issue.index),
            feed.format.eq(issue.format),
            feed.second.eq(issue.second),
            feed.take.eq(issue.matrix),
            placement.keys.eq(delayed(m, issue.keys, 1, "keys")),
            placement.largest.eq(delayed(m, Array(operands.largest)[issue.region.as_value()], 1, "largest")),
            placement.weight_exponent.eq(delayed(m, issue.weight_exponent, 1, "weight_exponent")),
        ]
        for n in range(2):
            m.d.comb += [
                placement.scale[n].eq(feed.scale[n]),
                placement.minimum[n].eq(feed.minimum[n]),
                placement.sum[n].eq(operands.sum[n]),
            ]
        for row in range(self._config.pool_rows):
            m.d.comb += [placement.exponent[row].eq(operands.exponent[row]), placement.dots[row].eq(pool.dots[row])]

    def _results(self, m, issue, placement):
        """Stages 7 and 8: row sums, then the result queue."""
        m.submodules.accumulator = accumulator = RowAccumulator(self._config)
        m.submodules.results_queue = queue = Queue(signed(accumulator_bits(self._config)), RESULT_DEPTH)
        m.submodules.result_credits = credits = Credits(RESULT_DEPTH)
        row_ends = Signal()
        m.d.comb += [
            row_ends.eq(issue.matrix & (issue.ends[0] | issue.ends[1])),
            accumulator.valid.eq(delayed(m, issue.matrix, 7, "matrix", reset=True)),
            queue.i.valid.eq(accumulator.done),
            queue.i.payload.eq(accumulator.result),
            self.results.valid.eq(queue.o.valid),
            self.results.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.results.ready),
            credits.take.eq(row_ends),
            credits.give.eq(queue.o.valid & queue.o.ready),
            issue.result_free.eq(credits.free),
        ]
        for n in range(2):
            m.d.comb += [
                accumulator.ends[n].eq(delayed(m, issue.ends[n], 7, f"ends_{n}")),
                accumulator.floor[n].eq(placement.floor[n]),
                accumulator.up[n].eq(placement.up[n]),
                accumulator.minimum_floor[n].eq(placement.minimum_floor[n]),
                accumulator.minimum_up[n].eq(placement.minimum_up[n]),
            ]

    def _scores(self, m, issue, newest, loader, placement, scores, numerators):
        """K exponents in stage 1; from stage 7 scores, their maxima, and the score buffer."""
        m.submodules.maximum_credits = credits = Credits(maxima_depth(self._config))
        taken, value_exponent, half = Signal(), Signal(8), Signal(init=1)
        with m.If(issue.keys_load):
            m.d.sync += half.eq(~half)
        m.d.comb += [loader.keys.ready.eq(taken), loader.values.ready.eq(taken)]
        bypass, key_byte, value_byte = Signal(), Signal(8), Signal(8)
        with m.If(scores.active):
            m.d.sync += [bypass.eq(issue.newest), key_byte.eq(loader.keys.payload),
                         value_byte.eq(loader.values.payload)]
            m.d.comb += [
                taken.eq(issue.keys & issue.pass_end & ~(issue.newest | issue.empty)),
                placement.key_exponent.eq(Mux(bypass, newest.key_exponent, key_byte)),
                value_exponent.eq(Mux(bypass, newest.value_exponent, value_byte)),
                scores.valid.eq(delayed(m, issue.keys, 7, "scored", reset=True)),
                scores.place.eq(delayed(m, place_of(issue), 7, "scored_place")),
                scores.half.eq(delayed(m, half, 7, "scored_half")),
                scores.value_exponent.eq(delayed(m, value_exponent, 6, "scored_exponent")),
            ]
        m.d.comb += [
            numerators.score_valid.eq(scores.score_valid),
            numerators.score_address.eq(scores.score_address),
            numerators.score.eq(scores.score),
            self.maximum.valid.eq(scores.maximum.valid),
            self.maximum.payload.eq(scores.maximum.payload),
            scores.maximum.ready.eq(self.maximum.ready),
            credits.take.eq(issue.keys & issue.final & issue.block_end),
            credits.give.eq(scores.maximum.valid & scores.maximum.ready),
            issue.maximum_free.eq(credits.free),
        ]
        for row in range(self._config.pool_rows):
            m.d.comb += [scores.floor[row].eq(placement.floor[row]), scores.up[row].eq(placement.up[row])]

    def _values(self, m, issue, pool, numerators, sums):
        """From stage 3: weighted V blocks into the lane sums."""
        m.d.comb += [
            issue.lanes_free.eq(sums.free),
            numerators.occupied.eq(sums.occupied),
            numerators.sum_address.eq(sums.sum_address),
            self.partial.valid.eq(sums.partial.valid),
            self.partial.payload.eq(sums.partial.payload),
            sums.partial.ready.eq(self.partial.ready),
            sums.geometry.eq(self.geometry),
        ]
        with m.If(sums.active):
            m.d.comb += [
                sums.begin.eq(issue.values & issue.first & (issue.block == 0) & (issue.pass_ == 0)),
                sums.valid.eq(delayed(m, issue.values, 3, "added", reset=True)),
                sums.place.eq(delayed(m, place_of(issue), 3, "added_place")),
                sums.last.eq(delayed(m, issue.last, 3, "added_last")),
            ]
        for row in range(self._config.v_kv):
            m.d.comb += sums.sums[row].eq(numerators.sums[row])
        for to, source in zip(sums.products, pool.products, strict=True):
            m.d.comb += [lane.eq(product) for lane, product in zip(to, source, strict=True)]
