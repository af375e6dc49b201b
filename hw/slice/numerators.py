"""The softmax numerators of a channel's tokens, ahead of the V beats that they weight."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import SCORE_BITS, SUM_BITS, Geometry, MaximumItem
from hw.slice.exponents import ByteFeed, ExponentBeat, page_exponent_beats
from hw.slice.issue import Head
from hw.slice.pipe import Credits, round_shift, rounded
from hw.slice.scores import maxima_depth, score_depth
from hw.slice.softmax import NUMERATOR_BITS, SHIFT_LIMIT, SoftmaxLine
from hw.slice.walk import TokenWalk, place_layout, place_of

__all__ = ["Numerators", "merged_maximum_signature"]

DEPTH = 16
"""Numerators held for the V beats; more than the clocks from issue to queue, so that one a clock is sustained."""

STAGES = 8
"""Clocks from a step of the walk to the queue."""


def merged_maximum_signature(config: Config):
    """Broadcast of the maxima over all channels: one item a pass of each head in turn, without ready."""
    return Signature({"valid": Out(1), "item": Out(MaximumItem(config))})


class Numerators(Component):
    """p(score - maximum) of every row, moved to the grid of the V block's largest exponent: for each block, each
    pass.

    Runs by itself as soon as a head's merged maxima are there, up to :data:`DEPTH` items ahead of what ``numerators``
    has given. One item a clock; 12 clocks from the last merged maximum to the first item. Holds scores and V
    exponents of two heads. Stands still while ``active`` is low.

    Members: ``head_valid`` with ``head`` when a KEYS record starts, and from then on the writes ``score_*`` and
    ``kept_*`` of that head (heads alternate between two halves; ``score_address`` says which, ``kept`` follow in
    order); ``pending``, heads that aren't finished, two at most; ``merged``; ``numerators``, rows of unsigned 16
    bits, for every token, block and pass; ``newest_*``, V exponents of the newest token, latency 1; ``occupied``,
    halves whose sums are on their way out: a head waits until its half is free; ``sum_address`` and ``sums``: S of
    every row, combinational, complete when the head's last item is out.
    """

    def __init__(self, config: Config):
        self._config = config
        blocks = config.max_kv_heads * config.head_blocks
        super().__init__({
            "active": In(1),
            "geometry": In(Geometry(config)),
            "head_valid": In(1),
            "head": In(Head(config)),
            "pending": Out(1),
            "score_valid": In(1),
            "score_address": In(range(2 * score_depth(config))),
            "score": In(SCORE_BITS * config.v_kv),
            "kept_valid": In(1),
            "kept": In(ExponentBeat),
            "merged": In(merged_maximum_signature(config)),
            "newest_address": Out(range(blocks)),
            "newest_read": Out(1),
            "newest_exponent": In(8),
            "numerators": Out(stream.Signature(ArrayLayout(NUMERATOR_BITS, config.v_kv))),
            "occupied": In(2),
            "sum_address": In(StructLayout({"pass_": range(max(2, config.max_passes)), "half": 1})),
            "sums": Out(SUM_BITS).array(config.v_kv),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.credits = credits = Credits(DEPTH)
        m.submodules.output = output = Queue(ArrayLayout(NUMERATOR_BITS, config.v_kv), DEPTH)
        m.submodules.walk = walk = TokenWalk(config)
        half, running, begin, step, from_memory = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            walk.step.eq(step),
            credits.take.eq(step),
            credits.give.eq(output.o.valid & output.o.ready),
            self.newest_read.eq(step),
            self.numerators.valid.eq(output.o.valid),
            self.numerators.payload.eq(output.o.payload),
            output.o.ready.eq(self.numerators.ready),
        ]
        maxima, largest = self._sequence(m, walk, step, half, running, begin)
        exponent = self._kept(m, half, running, begin)
        scores = self._scores(m, walk, step, half, begin)
        m.d.comb += [
            from_memory.eq(~(walk.newest | walk.empty)),
            step.eq(running & credits.free & (exponent.valid | ~from_memory)),
            exponent.ready.eq(step & walk.pass_end & from_memory),
        ]
        with m.If(self.active):
            self._pipeline(m, walk, half, step, exponent.payload, scores, maxima, largest, output.i)
        return m

    def _pipeline(self, m, walk, half, step, exponent, scores, maxima, largest, output):
        """From a step, stage 0, to the output queue, in the last stage."""
        valid, places, halves = [step], [place_of(walk)], [half]
        for n in range(1, STAGES):
            late = (Signal(name=f"valid_{n}"), Signal(place_layout(self._config), name=f"place_{n}", reset_less=True),
                    Signal(name=f"half_{n}", reset_less=True))
            m.d.sync += [late[0].eq(valid[-1]), late[1].eq(places[-1]), late[2].eq(halves[-1])]
            for stages, register in zip((valid, places, halves), late, strict=True):
                stages.append(register)
        old = Signal(8, reset_less=True)
        distance = Signal(signed(9), reset_less=True)
        behind = [Signal(range(SHIFT_LIMIT + 1), reset_less=True, name=f"behind_{n}") for n in range(3, STAGES - 1)]
        m.d.sync += [
            old.eq(exponent),
            distance.eq(largest[places[1].block] - Mux(places[1].newest, self.newest_exponent, old)),
            behind[0].eq(Mux(distance > SHIFT_LIMIT, SHIFT_LIMIT, distance)),
            *(late.eq(early) for early, late in zip(behind, behind[1:], strict=False)),
        ]
        m.d.comb += output.valid.eq(valid[-1])
        for row in range(self._config.v_kv):
            m.submodules[f"softmax_{row}"] = line = SoftmaxLine()
            m.d.comb += [
                line.active.eq(self.active),
                line.difference.eq(scores[row] - Array(column[row] for column in maxima)[places[1].pass_]),
                line.zero.eq(places[5].empty),
            ]
            parts = round_shift(m, line.numerator, behind[-1], f"placed_{row}")
            m.d.comb += output.payload[row].eq(parts[0] + rounded(*parts))
            self._sum(m, row, line.numerator, valid[-2], places[-2], halves[-2])

    def _sequence(self, m, walk, step, half, running, begin):
        """Take a head and its merged maxima, then walk its tokens; returns the maxima a pass and row, and the
        exponents.
        """
        config = self._config
        m.submodules.heads = heads = Queue(Head(config), 2)
        m.submodules.maxima = merged = Queue(MaximumItem(config), maxima_depth(config))
        maxima = [[Signal(signed(SCORE_BITS), name=f"maximum_{p}_{row}", reset_less=True) for row in range(config.v_kv)]
                  for p in range(config.max_passes)]
        largest = Array(Signal(8, name=f"largest_{n}", reset_less=True) for n in range(config.head_blocks))
        taken = Signal(range(max(2, config.max_passes)))
        take = Signal()
        head = heads.o.payload
        m.d.comb += [
            heads.i.valid.eq(self.head_valid),
            heads.i.payload.eq(self.head),
            heads.o.ready.eq(step & walk.last),
            self.pending.eq(heads.o.valid),
            merged.i.valid.eq(self.merged.valid),
            merged.i.payload.eq(self.merged.item),
            merged.o.ready.eq(take),
            take.eq(heads.o.valid & merged.o.valid & ~running & ~self.occupied.bit_select(half, 1)),
            begin.eq(take & (taken == self.geometry.passes - 1)),
            walk.load.eq(begin),
            walk.older.eq(head.older),
            walk.owner.eq(head.owner),
            walk.passes.eq(self.geometry.passes),
            walk.head_blocks.eq(self.geometry.head_blocks),
            self.newest_address.eq(head.newest + walk.block),
        ]
        with m.If(take):
            m.d.sync += taken.eq(Mux(begin, 0, taken + 1))
            for p, column in enumerate(maxima):
                with m.If(taken == p):
                    m.d.sync += [register.eq(merged.o.payload.score[row]) for row, register in enumerate(column)]
            m.d.sync += [register.eq(merged.o.payload.exponent[n]) for n, register in enumerate(largest)]
        with m.If(begin):
            m.d.sync += running.eq(1)
        with m.Elif(heads.o.ready):
            m.d.sync += [running.eq(0), half.eq(~half)]
        return maxima, largest

    def _kept(self, m, half, running, begin):
        """V exponents of two heads, written beat by beat; returns the stream of bytes of the running head."""
        depth = self._config.max_pages * page_exponent_beats(self._config)
        m.submodules.kept = memory = Memory(shape=ExponentBeat, depth=2 * depth, init=[])
        m.submodules.bytes = feed = ByteFeed()
        write, read = memory.write_port(), memory.read_port()
        write_half = Signal(init=1)
        fetched = Signal()
        write_address, read_address = Signal.like(write.addr), Signal.like(read.addr)
        with m.If(self.head_valid):
            m.d.sync += [write_half.eq(~write_half), write_address.eq(Mux(write_half, 0, depth))]
        with m.Elif(self.kept_valid):
            m.d.sync += write_address.eq(write_address + 1)
        m.d.comb += [
            write.addr.eq(write_address),
            write.data.eq(self.kept),
            write.en.eq(self.kept_valid),
            read.addr.eq(read_address),
            read.en.eq(running & (~fetched | feed.i.ready)),
            feed.i.valid.eq(fetched),
            feed.i.payload.eq(read.data),
            feed.clear.eq(begin),
        ]
        with m.If(begin):
            m.d.sync += [read_address.eq(Mux(half, depth, 0)), fetched.eq(0)]
        with m.Elif(read.en):
            m.d.sync += [read_address.eq(read_address + 1), fetched.eq(1)]
        return feed.o

    def _scores(self, m, walk, step, half, begin):
        """Score buffer of two heads; returns the rows' scores of the step one clock before."""
        config = self._config
        m.submodules.scores = memory = Memory(shape=SCORE_BITS * config.v_kv, depth=2 * score_depth(config), init=[])
        write, read = memory.write_port(), memory.read_port()
        token = Signal.like(read.addr)
        m.d.comb += [
            write.addr.eq(self.score_address),
            write.data.eq(self.score),
            write.en.eq(self.score_valid),
            read.addr.eq(token + walk.pass_),
            read.en.eq(step),
        ]
        with m.If(begin):
            m.d.sync += token.eq(Mux(half, score_depth(config), 0))
        with m.Elif(step & walk.pass_end & walk.block_end):
            m.d.sync += token.eq(token + self.geometry.passes)
        return [read.data[row * SCORE_BITS:][:SCORE_BITS].as_signed() for row in range(config.v_kv)]

    def _sum(self, m, row, numerator, valid, place, half):
        """S of one row, a pass and half; the first token starts it."""
        m.submodules[f"sums_{row}"] = memory = Memory(shape=SUM_BITS, depth=2 << len(place.pass_), init=[])
        write = memory.write_port()
        before, result = memory.read_port(domain="comb"), memory.read_port(domain="comb")
        address = Cat(place.pass_, half)
        m.d.comb += [
            before.addr.eq(address),
            write.addr.eq(address),
            write.data.eq(Mux(place.first, 0, before.data) + numerator),
            write.en.eq(valid & (place.block == 0)),
            result.addr.eq(self.sum_address),
            self.sums[row].eq(result.data),
        ]
