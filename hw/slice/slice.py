"""The slice of one channel: from the prefetch FIFO's beats to row results, score maxima and P.V sums."""

from amaranth.hdl import Module, Mux, Signal, signed
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

__all__ = ["Slice"]

RESULT_DEPTH = 16
"""Row results that the slice holds; more than its pipeline's clocks, so that a row a clock is sustained."""


class Slice(Component):
    """Executes slice records in order on one channel's beats; bits as in docs/numerics.md sections 3 and 7.

    One data beat a clock in every phase (a KV beat stays for ``geometry.passes`` clocks), with a scale beat in the same clock where
    one is due; records follow each other without a lost clock. Latency, from the clock in which the last beat is taken: a
    row result 9 clocks, a maximum 11, the first P.V item of a head 7; from ``last`` on the operand bus to the first beat 1.

    Stage n of the comments is the n-th clock after the one in which a beat is taken.

    Members: ``channel``, the number of this channel; ``data`` and ``scales``, from the prefetch FIFO; ``dispatch``; ``geometry``; ``operand``,
    broadcast; ``results``, in row order; ``vector``, beats of BYPASS records as they are; ``maximum``, one item a pass of each KEYS
    record; ``merged_maximum``, the same over all channels; ``partial``, for each VALUES record; ``status``.
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
        self._broadcast(m, operands.bus, newest.bus)
        self._issue(m, issue, operands, newest, loader, numerators)
        self._operands(m, issue, operands, newest, numerators, pool)
        key_exponent, value_exponent = self._exponents(m, issue, newest, loader)
        self._placement(m, issue, operands, pool, placement, key_exponent)
        self._results(m, issue, placement)
        self._scores(m, issue, placement, numerators, value_exponent)
        self._values(m, issue, pool, numerators)
        return m

    def _broadcast(self, m, *receivers):
        for receiver in receivers:
            for (_, _, target), (_, _, source) in zip(receiver.signature.flatten(receiver),
                                                      self.operand.signature.flatten(self.operand), strict=True):
                m.d.comb += target.eq(source)

    def _issue(self, m, issue, operands, newest, loader, numerators):
        """Records, fences, streams in and out at the issue; the exponent beats of a head."""
        m.d.comb += [
            issue.channel.eq(self.channel), issue.geometry.eq(self.geometry),
            issue.dispatch.valid.eq(self.dispatch.valid), issue.dispatch.payload.eq(self.dispatch.payload),
            self.dispatch.ready.eq(issue.dispatch.ready),
            issue.data_valid.eq(self.data.valid), self.data.ready.eq(issue.data_ready),
            issue.scale_valid.eq(self.scales.valid), self.scales.ready.eq(issue.scale_take | loader.scales.ready),
            loader.scales.valid.eq(self.scales.valid), loader.scales.payload.eq(self.scales.payload),
            self.vector.valid.eq(issue.vector_valid), self.vector.payload.eq(self.data.payload),
            issue.vector_ready.eq(self.vector.ready),
            *(issue.complete[region.value].eq(operands.complete[region.value]) for region in Region),
            *(operands.take[region.value].eq(issue.take[region.value]) for region in Region),
            issue.newest_complete.eq(newest.complete), newest.take.eq(issue.newest_take),
            loader.geometry.eq(self.geometry), loader.start.eq(issue.keys_load), loader.tokens.eq(issue.head.older),
            issue.loader_idle.eq(loader.idle), issue.bytes_valid.eq(loader.keys.valid & loader.values.valid),
            numerators.geometry.eq(self.geometry), numerators.head_valid.eq(issue.keys_load), numerators.head.eq(issue.head),
            numerators.kept_valid.eq(loader.kept_valid), numerators.kept.eq(loader.kept),
            numerators.merged.valid.eq(self.merged_maximum.valid), numerators.merged.item.eq(self.merged_maximum.item),
            numerators.newest_exponent.eq(newest.numerator_exponent), newest.numerator_read.eq(numerators.newest_read),
            newest.numerator_address.eq(numerators.newest_address),
            issue.numerator_valid.eq(numerators.numerators.valid), numerators.numerators.ready.eq(issue.values),
            self.status.eq(issue.status),
        ]

    def _operands(self, m, issue, operands, newest, numerators, pool):
        """Stage 1: a beat, or the newest K or V, becomes codes; its operands come out of their memories."""
        m.submodules.dequantiser = dequantiser = Dequantiser()
        beat = Signal(BEAT, reset_less=True)
        m.d.sync += beat.eq(self.data.payload)
        bypass = delayed(m, issue.place.newest & ~issue.matrix, 1, "newest")
        m.d.comb += [
            operands.address[0].eq(issue.address[0]), operands.address[1].eq(issue.address[1]),
            operands.read_queries.eq(issue.keys),
            newest.address.eq(issue.newest_address), newest.value.eq(issue.values),
            newest.read.eq((issue.keys | issue.values) & issue.place.newest),
            dequantiser.beat.eq(Mux(bypass, newest.beat, beat)),
            dequantiser.nibbles.eq(delayed(m, issue.matrix & (issue.record.record.format != Format.Q8_0), 1, "nibbles")),
            dequantiser.format.eq(delayed(m, issue.record.record.format.as_value(), 1, "format")),
            pool.weighted.eq(delayed(m, issue.values, 1, "weighted")),
            pool.every_row.eq(delayed(m, issue.keys | issue.values, 1, "every_row", reset=True)),
            *(pool.probability[row].eq(delayed(m, numerators.numerators.payload[row], 1, f"numerator_{row}"))
              for row in range(self._config.v_kv)),
        ]
        for to, source in ((pool.low, dequantiser.low), (pool.high, dequantiser.high)):
            m.d.comb += [lane.eq(code) for lane, code in zip(to, source, strict=True)]
        for to, source in zip(pool.mantissas, operands.mantissas, strict=True):
            m.d.comb += [lane.eq(mantissa) for lane, mantissa in zip(to, source, strict=True)]

    def _exponents(self, m, issue, newest, loader):
        """K and V exponents of a key beat in stage 1."""
        taken = issue.keys & issue.place.pass_end & ~(issue.place.newest | issue.place.empty)
        m.d.comb += [loader.keys.ready.eq(taken), loader.values.ready.eq(taken)]
        bypass = delayed(m, issue.place.newest, 1, "newest_exponent")
        return [Mux(bypass, kept, delayed(m, feed.payload, 1, f"{name}_exponent"))
                for name, feed, kept in (("key", loader.keys, newest.key_exponent),
                                         ("value", loader.values, newest.value_exponent))]

    def _placement(self, m, issue, operands, pool, placement, key_exponent):
        """Scales join in stage 1; dot products come in stage 5, placed terms in stage 7."""
        m.submodules.scale_feed = feed = ScaleFeed()
        record = issue.record.record
        largest = Signal(8)
        with m.Switch(record.region):
            for region in Region:
                with m.Case(region):
                    m.d.comb += largest.eq(operands.largest[region.value])
        m.d.comb += [
            feed.beat.eq(self.scales.payload), feed.first.eq(issue.first_beat), feed.index.eq(issue.index),
            feed.format.eq(record.format), feed.second.eq(issue.second), feed.take.eq(issue.matrix),
            placement.keys.eq(delayed(m, issue.keys, 1, "keys", reset=True)),
            placement.largest.eq(delayed(m, largest, 1, "largest")),
            placement.weight_exponent.eq(delayed(m, record.weight_exponent, 1, "weight_exponent")),
            placement.key_exponent.eq(key_exponent),
        ]
        for n in range(2):
            m.d.comb += [
                placement.scale[n].eq(feed.scale[n]), placement.minimum[n].eq(feed.minimum[n]),
                placement.sum[n].eq(operands.sum[n]),
            ]
        for row in range(self._config.pool_rows):
            m.d.comb += [placement.exponent[row].eq(operands.exponent[row]), placement.dots[row].eq(pool.dots[row])]

    def _results(self, m, issue, placement):
        """Stages 7 and 8: row sums, then the result queue."""
        m.submodules.accumulator = accumulator = RowAccumulator(self._config)
        m.submodules.results_queue = queue = Queue(signed(accumulator_bits(self._config)), RESULT_DEPTH)
        m.submodules.result_credits = credits = Credits(RESULT_DEPTH)
        m.d.comb += accumulator.valid.eq(delayed(m, issue.matrix, 7, "matrix", reset=True))
        for n in range(2):
            m.d.comb += [
                accumulator.ends[n].eq(delayed(m, issue.ends[n], 7, f"ends_{n}")),
                accumulator.floor[n].eq(placement.floor[n]), accumulator.up[n].eq(placement.up[n]),
                accumulator.minimum_floor[n].eq(placement.minimum_floor[n]),
                accumulator.minimum_up[n].eq(placement.minimum_up[n]),
            ]
        m.d.comb += [
            queue.i.valid.eq(accumulator.done), queue.i.payload.eq(accumulator.result),
            self.results.valid.eq(queue.o.valid), self.results.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.results.ready),
            credits.take.eq(issue.matrix & (issue.ends[0] | issue.ends[1])),
            credits.give.eq(queue.o.valid & queue.o.ready), issue.result_free.eq(credits.free),
        ]

    def _scores(self, m, issue, placement, numerators, value_exponent):
        """From stage 7: scores, their maxima, and the score buffer."""
        m.submodules.scores = scores = Scores(self._config)
        m.submodules.maximum_credits = credits = Credits(maxima_depth(self._config))
        half = Signal(init=1)
        m.d.sync += half.eq(half ^ issue.keys_load)
        m.d.comb += [
            scores.valid.eq(delayed(m, issue.keys, 7, "scored", reset=True)),
            scores.place.eq(delayed(m, issue.place, 7, "scored_place")),
            scores.parity.eq(delayed(m, half, 7, "scored_half")),
            scores.value_exponent.eq(delayed(m, value_exponent, 6, "scored_exponent")),
            numerators.score_valid.eq(scores.score_valid), numerators.score_address.eq(scores.score_address),
            numerators.score.eq(scores.score),
            self.maximum.valid.eq(scores.maximum.valid), self.maximum.payload.eq(scores.maximum.payload),
            scores.maximum.ready.eq(self.maximum.ready),
            credits.take.eq(issue.keys & issue.place.final & issue.place.block_end),
            credits.give.eq(scores.maximum.valid & scores.maximum.ready), issue.maximum_free.eq(credits.free),
        ]
        for row in range(self._config.pool_rows):
            m.d.comb += [scores.floor[row].eq(placement.floor[row]), scores.up[row].eq(placement.up[row])]

    def _values(self, m, issue, pool, numerators):
        """From stage 3: weighted V blocks into the lane sums."""
        m.submodules.lane_sums = sums = LaneSums(self._config)
        begun = issue.place.first & (issue.place.block == 0) & (issue.place.pass_ == 0)
        m.d.comb += [
            sums.geometry.eq(self.geometry), sums.begin.eq(issue.values & begun), issue.lanes_free.eq(sums.free),
            sums.valid.eq(delayed(m, issue.values, 3, "added", reset=True)),
            sums.place.eq(delayed(m, issue.place, 3, "added_place")),
            sums.last.eq(delayed(m, issue.place_last, 3, "added_last")),
            numerators.occupied.eq(sums.occupied), numerators.sum_address.eq(sums.sum_address),
            self.partial.valid.eq(sums.partial.valid), self.partial.payload.eq(sums.partial.payload),
            sums.partial.ready.eq(self.partial.ready),
        ]
        for row in range(self._config.v_kv):
            m.d.comb += sums.sums[row].eq(numerators.sums[row])
        for to, source in zip(sums.products, pool.products, strict=True):
            m.d.comb += [lane.eq(product) for lane, product in zip(to, source, strict=True)]
