"""The merge of all channels' attention: score maxima on the way to the exponentials, P.V sums on the way out."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.fork import Queue
from hw.interfaces import SCORE_BITS, SUM_BITS, Geometry, MaximumItem, MergedItem, PartialItem
from hw.slice.numerators import merged_maximum_signature
from hw.slice.pipe import Credits, delayed

__all__ = ["Merge"]

HEADS = 8
"""Heads whose largest V exponents wait for their sums; five at most are between a KEYS record and the merged sums."""

OUTPUT_DEPTH = 8
"""Merged items held; more than the clocks through the adder tree, so that one a clock is sustained."""

LEVELS = 2
"""Tree levels between registers."""


def tree(m, values, operation, shape, name):
    """Registered tree of *operation* over signed *values*, :data:`LEVELS` levels a clock; returns (result, latency)."""
    latency = 0
    while len(values) > 1 or latency == 0:
        for level in range(LEVELS):
            pairs = [values[n:n + 2] for n in range(0, len(values), 2)]
            values = []
            for n, pair in enumerate(pairs):
                joined = Signal(shape, name=f"{name}_{latency}_{level}_{n}")
                m.d.comb += joined.eq(operation(*pair) if len(pair) == 2 else pair[0])
                values.append(joined)
        registers = [Signal(shape, name=f"{name}_{latency}_{n}", reset_less=True) for n in range(len(values))]
        m.d.sync += [register.eq(value) for register, value in zip(registers, values, strict=True)]
        values = registers
        latency += 1
    return values[0], latency


def larger(a, b):
    return Mux(a > b, a, b)


def total(a, b):
    return a + b


class Merge(Component):
    """Joins the channels' maxima and sums item by item; a channel's item waits until all channels have theirs.

    One item a clock of each kind. Latency for C channels: ceil(ceil(log2 C) / 2) clocks (at least 1) from the last
    channel's maximum to ``merged_maximum``, one more from its partial item to ``merged``. The channels must have room
    for the merged maxima of the heads that they have reported.

    Members: ``geometry``; ``maximum`` and ``partial``, a stream a channel; ``merged_maximum``, broadcast: largest
    scores and V exponents; ``merged``: sums, each with the V exponent of its block (0 beside a softmax sum).
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "geometry": In(Geometry(config)),
            "maximum": In(stream.Signature(MaximumItem(config))).array(config.channels),
            "partial": In(stream.Signature(PartialItem(config))).array(config.channels),
            "merged_maximum": Out(merged_maximum_signature(config)),
            "merged": Out(stream.Signature(MergedItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.exponents = exponents = Queue(ArrayLayout(8, self._config.head_blocks), HEADS)
        self._maxima(m, exponents.i)
        self._sums(m, exponents.o)
        return m

    def _maxima(self, m, exponents):
        """Element-wise maximum; each head's last item leaves its exponents for the sums."""
        passes = Signal.like(self.geometry.passes)
        take, last = Signal(), Signal()
        promised = Signal(range(HEADS + 1))  # heads joined whose exponents are not queued yet
        item = self.merged_maximum.item
        m.d.comb += [
            last.eq(passes == self.geometry.passes - 1),
            take.eq(Cat(channel.valid for channel in self.maximum).all() & exponents.ready & (promised == 0)),
            *(channel.ready.eq(take) for channel in self.maximum),
        ]
        with m.If(take):
            m.d.sync += passes.eq(Mux(last, 0, passes + 1))
        for row in range(self._config.v_kv):
            scores = [channel.payload.score[row].as_signed() for channel in self.maximum]
            result, latency = tree(m, scores, larger, signed(SCORE_BITS), f"score_{row}")
            m.d.comb += item.score[row].eq(result)
        for n in range(self._config.head_blocks):
            values = [channel.payload.exponent[n] for channel in self.maximum]
            result, latency = tree(m, values, larger, 8, f"exponent_{n}")
            m.d.comb += [item.exponent[n].eq(result), exponents.payload[n].eq(result)]
        m.d.comb += [
            self.merged_maximum.valid.eq(delayed(m, take, latency, "valid", reset=True)),
            exponents.valid.eq(delayed(m, take & last, latency, "whole", reset=True)),
        ]
        m.d.sync += promised.eq(promised + (take & last) - exponents.valid)

    def _sums(self, m, exponents):
        """Adder trees, one a lane, behind the join; the walk over a head's items finds each element's block."""
        config, geometry = self._config, self.geometry
        m.submodules.output = output = Queue(MergedItem(config), OUTPUT_DEPTH)
        m.submodules.credits = credits = Credits(OUTPUT_DEPTH)
        element = Signal(range(BLOCK // config.lanes))
        block, head = Signal(range(max(2, config.head_blocks))), Signal(range(config.max_group + 1))
        take = Signal()
        is_sum = self.partial[0].payload.is_sum
        exponent = Signal(8)
        m.d.comb += [
            take.eq(Cat(channel.valid for channel in self.partial).all() & exponents.valid & credits.free),
            *(channel.ready.eq(take) for channel in self.partial),
            exponent.eq(Mux(is_sum, 0, Array(exponents.payload[n] for n in range(config.head_blocks))[block])),
            credits.take.eq(take), credits.give.eq(output.o.valid & output.o.ready),
        ]
        with m.If(take & ~is_sum):
            m.d.sync += element.eq(element + 1)
            with m.If(element == BLOCK // config.lanes - 1):
                m.d.sync += [element.eq(0), block.eq(block + 1)]
                with m.If(block == geometry.head_blocks - 1):
                    m.d.sync += [block.eq(0), head.eq(head + 1)]
                    with m.If(head == geometry.group - 1):
                        m.d.sync += head.eq(0)
                        m.d.comb += exponents.ready.eq(1)
        item = output.i.payload
        for n in range(config.lanes):
            values = [channel.payload.elements[n].as_signed() for channel in self.partial]
            result, latency = tree(m, values, total, signed(SUM_BITS + 6), f"lane_{n}")
            m.d.comb += item.elements[n].eq(result)
        m.d.comb += [
            output.i.valid.eq(delayed(m, take, latency, "joined", reset=True)),
            item.is_sum.eq(delayed(m, is_sum, latency, "is_sum")),
            item.exponent.eq(delayed(m, exponent, latency, "exponent")),
            self.merged.valid.eq(output.o.valid),
            self.merged.payload.eq(output.o.payload),
            output.o.ready.eq(self.merged.ready),
        ]
