"""The vector unit: every part connected."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from hw.config import Config
from hw.interfaces import BEAT, Geometry, LogitBeat, MergedItem, NewestKind, OperandBus, accumulator_bits
from hw.isa import Region, RowScale, VectorKind, VectorRecord
from hw.vector.argmax import ArgMax
from hw.vector.dispatch import Dispatch, is_one_of
from hw.vector.fp32 import FromInteger, Multiplier
from hw.vector.functions import Reciprocal
from hw.vector.logits import LogitBeats
from hw.vector.norm import InverseRms
from hw.vector.pipe import delay, delay_valid
from hw.vector.quantiser import Quantiser
from hw.vector.residual import Residual
from hw.vector.rope import Rope
from hw.vector.silu import ONE, GatedPairs

__all__ = ["INDEX_BITS", "LogitTap", "VectorStatus", "VectorUnit"]

INDEX_BITS = 20
"""Width of a token number."""


UNSCALED = (VectorKind.RESIDUAL, VectorKind.ADD)
"""Kinds whose rows go to the residual as they are."""


def LogitTap(config: Config):  # noqa: N802
    """Groups of logits as they come: ``values`` of elements ``index``, ``index`` + 1, ...; a tap, it holds nothing
    up."""
    return Signature({"valid": Out(1), "index": Out(INDEX_BITS), "values": Out(ArrayLayout(32, config.lanes))})


VectorStatus = StructLayout({
    "feeding": 1,  # a record is being fed, or waits for its data
    "kind": VectorKind,  # of that record
    "busy": 1,  # records are at work, those in the pipelines included
    "fence": 1,  # the last block of an operand is on the bus
    "operand": NewestKind,  # of that block
    "region": Region,  # of that block, if it is an OPERAND
})
"""What the vector unit is doing, for traces."""


class VectorUnit(Component):
    """Executes vector records in order (hw.isa); takes a group of ``lanes`` results a clock in every kind.

    Clocks from the last group of results (beat, merged item) taken to the last block on ``operand``, with q =
    :attr:`Quantiser.latency`: VALUE, QUERY, KEY 12 + q; ATTENTION 5 + q; RESIDUAL 9 + q; EMBED 6 + q; GLU 20 + q.
    ``token`` follows the last group of HEAD after 8. ADD has left 7 clocks after its last group, ROUTER with it.

    Members: ``records``; ``results``, groups of row results (Gather); ``beats``, bypass beats (Gather); ``merged``,
    attention sums. Results (beats) of a record are padded to a multiple of the channels; the padding is dropped.
    ``reciprocal`` = RN(1/hidden), ``eps``, ``query_scale`` = RN(log2 e / sqrt(head width)), binary32; ``geometry``;
    ``logits_enable``, all stable while ``busy``.

    Out: ``operand``; ``token``, a pulse with the argmax of HEAD; ``logits``, a tap; ``logit_beats``, eight logits a
    beat, only with ``logits_enable``, and then its back-pressure stalls HEAD; ``error``, set by a result that is
    infinite or NaN until ``clear_error``; ``done``, a pulse for each finished record; ``busy``; ``status``.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "records": In(stream.Signature(VectorRecord)),
            "results": In(stream.Signature(ArrayLayout(signed(accumulator_bits(config)), config.lanes))),
            "beats": In(stream.Signature(BEAT)),
            "merged": In(stream.Signature(MergedItem(config))),
            "reciprocal": In(32),
            "eps": In(32),
            "query_scale": In(32),
            "geometry": In(Geometry(config)),
            "logits_enable": In(1),
            "clear_error": In(1),
            "operand": Out(OperandBus(config)),
            "token": Out(Signature({"valid": Out(1), "index": Out(INDEX_BITS)})),
            "logits": Out(LogitTap(config)),
            "logit_beats": Out(stream.Signature(LogitBeat)),
            "error": Out(1),
            "done": Out(1),
            "busy": Out(1),
            "status": Out(VectorStatus),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.dispatch = dispatch = Dispatch(self._config)
        m.submodules.residual = residual = Residual(self._config)
        m.submodules.norm = norm = InverseRms(self._config.lanes)
        m.submodules.rope = rope = Rope(self._config)
        m.submodules.gated = gated = GatedPairs(self._config.lanes)
        m.submodules.quantiser = quantiser = Quantiser(self._config)

        for name in ("records", "results", "beats", "merged"):
            connect(m, flipped(getattr(self, name)), getattr(dispatch, name))
        m.d.comb += [
            dispatch.largest.eq(quantiser.largest), dispatch.norm_done.eq(norm.done),
            dispatch.done_operand.eq((quantiser.bus.valid & quantiser.bus.last) | residual.added),
            self.done.eq(dispatch.done), self.busy.eq(dispatch.busy),
            self.status.feeding.eq(dispatch.feeding), self.status.kind.eq(dispatch.kind),
            self.status.busy.eq(dispatch.busy), self.status.fence.eq(quantiser.bus.valid & quantiser.bus.last),
            self.status.operand.eq(quantiser.bus.kind), self.status.region.eq(quantiser.bus.region),
        ]
        errors = []
        (rows_valid, rows_tag, rows), (valid, tag, values) = self._scale(m, dispatch, norm, errors)

        def of(*kinds):
            return valid & is_one_of(tag.kind, *kinds)

        last = valid & tag.last
        m.d.comb += [
            residual.i.valid.eq((rows_valid & is_one_of(rows_tag.kind, *UNSCALED)) | dispatch.embed.valid),
            residual.i.last.eq(Mux(dispatch.embed.valid, dispatch.embed.last, rows_tag.last)),
            residual.i.values.eq(Mux(dispatch.embed.valid, dispatch.embed.values, rows)),
            residual.embed.eq(dispatch.embed.valid), residual.slot.eq(dispatch.slot),
            residual.keep.eq(dispatch.path == VectorKind.ADD),
            residual.load.eq(dispatch.load_norm), residual.load_slot.eq(dispatch.load_slot),
            residual.load_beat.eq(dispatch.load_beat), residual.load_data.eq(dispatch.load_data),
            norm.reciprocal.eq(self.reciprocal), norm.eps.eq(self.eps), norm.query_scale.eq(self.query_scale),
            rope.i.valid.eq(of(VectorKind.QUERY, VectorKind.KEY, VectorKind.VALUE)),
            rope.i.last.eq(last), rope.i.values.eq(values),
            rope.head_blocks.eq(self.geometry.head_blocks),
            rope.load.eq(dispatch.load_rope), rope.load_beat.eq(dispatch.load_beat),
            rope.load_data.eq(dispatch.load_data),
            gated.i.valid.eq(of(VectorKind.GLU)), gated.i.last.eq(last), gated.i.values.eq(values),
        ]
        connect(m, residual.x, norm.i)
        with m.Switch(tag.kind):
            with m.Case(VectorKind.QUERY):
                m.d.comb += rope.kind.eq(NewestKind.QUERY)
            with m.Case(VectorKind.KEY):
                m.d.comb += rope.kind.eq(NewestKind.KEY)
            with m.Default():
                m.d.comb += rope.kind.eq(NewestKind.VALUE)

        # The dispatcher lets only one of the four paths be busy at a time.
        attention = of(VectorKind.ATTENTION)
        m.d.comb += [
            quantiser.i.valid.eq(rope.o.valid | residual.o.valid | gated.o.valid | attention),
            quantiser.i.last.eq(rope.o.last | residual.o.last | gated.o.last | (attention & tag.last)),
            quantiser.group.eq(self.geometry.group), quantiser.head_blocks.eq(self.geometry.head_blocks),
        ]
        connect(m, quantiser.bus, flipped(self.operand))
        with m.If(rope.o.valid):
            m.d.comb += [quantiser.i.values.eq(rope.o.values), quantiser.kind.eq(rope.o_kind),
                         quantiser.region.eq(Region.QUERY)]
        with m.Elif(residual.o.valid):
            m.d.comb += [quantiser.i.values.eq(residual.o.values), quantiser.region.eq(Region.HIDDEN)]
        with m.Elif(gated.o.valid):
            m.d.comb += [quantiser.i.values.eq(gated.o.values),
                         quantiser.region.eq(Mux(dispatch.slot, Region.ATTENTION, Region.FFN))]
        with m.Else():
            m.d.comb += [quantiser.i.values.eq(values), quantiser.region.eq(Region.ATTENTION)]

        self._head(m, dispatch, of(VectorKind.HEAD), tag, values)
        errors += [residual.error, norm.error, rope.error, gated.error]
        raised = errors[0]
        for error in errors[1:]:
            raised = raised | error
        m.d.sync += self.error.eq((self.error & ~self.clear_error) | raised)
        return m

    def _scale(self, m, dispatch, norm, errors):
        """Groups of integers to binary32, and times their row scale or softmax reciprocal: (valid, tag, values) of
        both."""
        m.submodules.softmax = softmax = Reciprocal()
        converted = delay_valid(m, dispatch.valid, FromInteger.LATENCY, "converted")
        tag = delay(m, dispatch.tag, FromInteger.LATENCY, "tag")
        scale, inverse_sum = Signal(32), Signal(32, reset_less=True)
        is_sum, is_scaled = Signal(), Signal()
        m.d.comb += [
            is_sum.eq(converted & tag.is_sum),
            is_scaled.eq(converted & ~tag.is_sum & ~is_one_of(tag.kind, *UNSCALED)),
        ]
        with m.If(delay_valid(m, is_sum, Reciprocal.LATENCY, "sum_done")):
            m.d.sync += inverse_sum.eq(softmax.o)
            m.d.comb += scale.eq(softmax.o)
        with m.Else():
            m.d.comb += scale.eq(inverse_sum)
        with m.If(tag.kind != VectorKind.ATTENTION):
            with m.Switch(tag.scale):
                with m.Case(RowScale.NORM):
                    m.d.comb += scale.eq(norm.inverse)
                with m.Case(RowScale.NORM_QUERY):
                    m.d.comb += scale.eq(norm.query)
                with m.Default():
                    m.d.comb += scale.eq(Const(ONE, 32))
        rows, values = Signal(ArrayLayout(32, self._config.lanes)), Signal(ArrayLayout(32, self._config.lanes))
        for n in range(self._config.lanes):
            m.submodules[f"convert_{n}"] = convert = FromInteger(accumulator_bits(self._config))
            m.submodules[f"scale_{n}"] = product = Multiplier()
            m.d.comb += [
                convert.valid.eq(dispatch.valid), convert.value.eq(dispatch.values[n]),
                convert.exponent.eq(dispatch.exponent),
                product.valid.eq(is_scaled), product.a.eq(convert.o), product.b.eq(scale),
                rows[n].eq(convert.o), values[n].eq(product.o),
            ]
            if n == 0:
                m.d.comb += [softmax.valid.eq(is_sum), softmax.x.eq(convert.o)]
            errors += [convert.error, product.error]
        errors.append(softmax.error)
        valid = delay_valid(m, is_scaled, Multiplier.LATENCY, "scaled")
        return (converted, tag, rows), (valid, delay(m, tag, Multiplier.LATENCY, "scaled_tag"), values)

    def _head(self, m, dispatch, valid, tag, values):
        lanes = self._config.lanes
        m.submodules.argmax = argmax = ArgMax(lanes, INDEX_BITS)
        m.submodules.packer = packer = LogitBeats(lanes, FromInteger.LATENCY + Multiplier.LATENCY + 2)
        index, decided = Signal(INDEX_BITS), Signal()
        with m.If(valid):
            m.d.sync += index.eq(Mux(tag.last, 0, index + lanes))
        m.d.comb += [
            argmax.valid.eq(valid), argmax.last.eq(tag.last), argmax.count.eq(tag.count), argmax.values.eq(values),
            packer.i.valid.eq(valid & self.logits_enable), packer.i.last.eq(tag.last), packer.count.eq(tag.count),
            packer.i.values.eq(values),
            self.logits.valid.eq(valid), self.logits.index.eq(index), self.logits.values.eq(values),
            self.token.valid.eq(argmax.done), self.token.index.eq(argmax.index),
            dispatch.room.eq(packer.room | ~self.logits_enable),
            dispatch.done_head.eq(decided & packer.idle),
        ]
        m.d.sync += decided.eq(argmax.done | (decided & ~packer.idle))
        connect(m, packer.beats, flipped(self.logit_beats))
