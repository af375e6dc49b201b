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
from hw.slice.pipe import Credits, delayed, round_shift
from hw.slice.scores import maxima_depth, score_depth
from hw.slice.walk import TokenWalk
from hw.tables import SOFTMAX, SOFTMAX_SEGMENTS

__all__ = ["Numerators", "merged_maximum_signature"]

NUMERATOR_BITS = 16
FRACTION_BITS = 12
SEGMENT_BITS = SOFTMAX_SEGMENTS.bit_length() - 1
REST_BITS = FRACTION_BITS - SEGMENT_BITS
SHIFT_LIMIT = 31
"""A larger shift of a 22-bit line or a 16-bit numerator gives the same: 0."""

DEPTH = 16
"""Numerators held for the V beats; more than the clocks from issue to queue, so that one a clock is sustained."""


def merged_maximum_signature(config: Config):
    """Broadcast of the maxima over all channels: one item a pass of each head in turn, without ready."""
    return Signature({"valid": Out(1), "item": Out(MaximumItem(config))})


class Numerators(Component):
    """For each V block of a head in turn and each pass: p(score - maximum) of every row, moved to the grid of the block's largest exponent.

    Runs by itself as soon as a head's merged maxima are there, up to :data:`DEPTH` items ahead of what ``numerators`` has given.
    One item a clock; 6 clocks from the last merged maximum to the first item. Holds the scores and V exponents
    of two heads.

    Members: ``head`` with ``head_valid`` when a KEYS record starts (two heads at most are unfinished), and from then on the
    writes ``score_*`` and ``kept`` of that head (heads alternate between two halves, ``score_address`` says which; ``kept`` follow in order);
    ``merged``; ``numerators``, rows of unsigned 16 bits, for every token, block and pass; ``newest_*``: V exponents of the newest token, latency 1;
    ``sum_address`` (pass, half) and ``sums``: S of every row, combinational, complete when the head's last item is out and kept while
    ``occupied[half]``: a head waits until its half is free.
    """

    def __init__(self, config: Config):
        self._config = config
        blocks = config.max_kv_heads * config.head_blocks
        super().__init__({
            "geometry": In(Geometry(config)),
            "head_valid": In(1), "head": In(Head(config)),
            "score_valid": In(1), "score_address": In(range(2 * score_depth(config))),
            "score": In(SCORE_BITS * config.v_kv),
            "kept_valid": In(1), "kept": In(ExponentBeat),
            "merged": In(merged_maximum_signature(config)),
            "newest_address": Out(range(blocks)), "newest_read": Out(1), "newest_exponent": In(8),
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
        valid = [Signal(name=f"valid_{n}") for n in range(6)]  # by stage, 0 the issue
        half = Signal()
        running, begin = Signal(), Signal()
        maxima, largest = self._sequence(m, walk, valid[0], half, running, begin)
        exponent = self._kept(m, half, running, begin)
        scores = self._scores(m, walk, valid[0], half, begin)
        m.d.comb += [
            walk.step.eq(valid[0]),
            valid[0].eq(running & credits.free & (exponent.valid | walk.place.newest | walk.place.empty)),
            exponent.ready.eq(valid[0] & walk.place.pass_end & ~(walk.place.newest | walk.place.empty)),
            credits.take.eq(valid[0]), credits.give.eq(output.o.valid & output.o.ready),
            self.newest_read.eq(valid[0]),
            self.numerators.valid.eq(output.o.valid), self.numerators.payload.eq(output.o.payload),
            output.o.ready.eq(self.numerators.ready),
        ]
        places = [walk.place]
        halves = [half]
        for n in range(1, 6):
            m.d.sync += valid[n].eq(valid[n - 1])
            place = Signal.like(walk.place, name=f"place_{n}", reset_less=True)
            m.d.sync += place.eq(places[-1])
            places.append(place)
            halves.append(delayed(m, halves[-1], 1, f"half_{n}"))
        behind = Signal(range(SHIFT_LIMIT + 1), reset_less=True)
        distance = Signal(signed(9))
        old = delayed(m, exponent.payload, 1, "exponent")
        m.d.comb += distance.eq(largest[places[1].block] - Mux(places[1].newest, self.newest_exponent, old))
        m.d.sync += behind.eq(Mux(distance > SHIFT_LIMIT, SHIFT_LIMIT, distance))
        behind = delayed(m, behind, 3, "behind")
        for row in range(config.v_kv):
            largest_score = Array(column[row] for column in maxima)[places[1].pass_]
            numerator = self._numerator(m, row, scores[row] - largest_score, valid, places[4].empty)
            floor, up = round_shift(m, numerator, behind, f"placed_{row}")
            m.d.comb += output.i.payload[row].eq(floor + up)
            self._sum(m, row, numerator, valid[5], places[5], halves[5])
        m.d.comb += output.i.valid.eq(valid[5])
        return m

    def _sequence(self, m, walk, step, half, running, begin):
        """Take a head and its merged maxima, then walk its tokens; returns the maxima a pass and row, and the exponents."""
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
            heads.i.valid.eq(self.head_valid), heads.i.payload.eq(self.head),
            merged.i.valid.eq(self.merged.valid), merged.i.payload.eq(self.merged.item),
            take.eq(heads.o.valid & merged.o.valid & ~running & ~self.occupied.bit_select(half, 1)), merged.o.ready.eq(take),
            begin.eq(take & (taken == self.geometry.passes - 1)),
            walk.load.eq(begin), walk.older.eq(head.older), walk.owner.eq(head.owner),
            walk.passes.eq(self.geometry.passes), walk.head_blocks.eq(self.geometry.head_blocks),
            heads.o.ready.eq(step & walk.last),
            self.newest_address.eq(head.newest + walk.place.block),
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
            write.addr.eq(write_address), write.data.eq(self.kept), write.en.eq(self.kept_valid),
            read.addr.eq(read_address), read.en.eq(running & (~fetched | feed.i.ready)),
            feed.i.valid.eq(fetched), feed.i.payload.eq(read.data), feed.clear.eq(begin),
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
            write.addr.eq(self.score_address), write.data.eq(self.score), write.en.eq(self.score_valid),
            read.addr.eq(token + walk.place.pass_), read.en.eq(step),
        ]
        with m.If(begin):
            m.d.sync += token.eq(Mux(half, score_depth(config), 0))
        with m.Elif(step & walk.place.pass_end & walk.place.block_end):
            m.d.sync += token.eq(token + self.geometry.passes)
        return [read.data[row * SCORE_BITS:][:SCORE_BITS].as_signed() for row in range(config.v_kv)]

    def _numerator(self, m, row, difference, valid, empty):
        """p of one row in stage 5, from the difference in stage 1."""
        line_bits = 17 + REST_BITS
        steps = [right - left for left, right in zip(SOFTMAX, SOFTMAX[1:], strict=False)]
        step_bits = max(steps).bit_length()
        m.submodules[f"table_{row}"] = table = Memory(
            shape=StructLayout({"left": 17, "step": step_bits}), depth=SOFTMAX_SEGMENTS,
            init=[{"left": left, "step": step} for left, step in zip(SOFTMAX, steps, strict=False)])
        read = table.read_port()
        d = Signal(signed(SCORE_BITS + 1), name=f"difference_{row}", reset_less=True)
        whole = Signal(signed(SCORE_BITS + 1 - FRACTION_BITS), name=f"whole_{row}")
        shift = Signal(range(SHIFT_LIMIT + 1), name=f"shift_{row}")
        line = Signal(line_bits, name=f"line_{row}", reset_less=True)
        p = Signal(NUMERATOR_BITS, name=f"numerator_{row}", reset_less=True)
        with m.If(valid[1]):
            m.d.sync += d.eq(difference)
        m.d.comb += [
            whole.eq(d[FRACTION_BITS:].as_signed()),
            shift.eq(Mux(whole < REST_BITS - SHIFT_LIMIT, SHIFT_LIMIT, REST_BITS - whole)),
            read.addr.eq(d[REST_BITS:FRACTION_BITS]), read.en.eq(valid[2]),
        ]
        rest = delayed(m, d[:REST_BITS], 1, f"rest_{row}")
        with m.If(valid[3]):
            m.d.sync += line.eq((read.data.left << REST_BITS) + read.data.step * rest)
        floor, up = round_shift(m, line, delayed(m, shift, 2, f"shift_{row}"), f"line_{row}")
        rounded = Signal(NUMERATOR_BITS + 1, name=f"rounded_{row}")
        m.d.comb += rounded.eq(floor + up)
        with m.If(valid[4]):
            m.d.sync += p.eq(Mux(empty, 0, Mux(rounded[NUMERATOR_BITS], 2**NUMERATOR_BITS - 1, rounded)))
        return p

    def _sum(self, m, row, numerator, valid, place, half):
        """S of one row, a pass and half; the first token starts it."""
        pass_bits = len(place.pass_)
        m.submodules[f"sums_{row}"] = memory = Memory(shape=SUM_BITS, depth=2 << pass_bits, init=[])
        write = memory.write_port()
        before, result = memory.read_port(domain="comb"), memory.read_port(domain="comb")
        address = Cat(place.pass_, half)
        m.d.comb += [
            before.addr.eq(address), write.addr.eq(address), write.en.eq(valid & (place.block == 0)),
            write.data.eq(Mux(place.first, 0, before.data) + numerator),
            result.addr.eq(self.sum_address), self.sums[row].eq(result.data),
        ]
