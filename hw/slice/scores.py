"""The K phase: scores of tokens, their running maxima, and the largest V exponents."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import SCORE_BITS, MaximumItem
from hw.slice.placement import term_bits
from hw.slice.walk import place_layout

__all__ = ["LEAST_SCORE", "Scores", "maxima_depth", "score_depth"]

LEAST_SCORE = -(2 ** (SCORE_BITS - 1) - 1)
"""Score of no token; also the least score that saturation leaves."""


def score_depth(config: Config):
    """Scores that one head needs: tokens of a channel times passes."""
    return config.max_slots * config.max_passes


def maxima_depth(config: Config):
    """Items that the maximum queue holds: those of two heads."""
    return max(2, 1 << (2 * config.max_passes - 1).bit_length())


class Scores(Component):
    """Sums the placed dot products of a token's blocks to scores. No stall, one block a clock.

    Members: ``valid`` with ``place`` in the walk, ``parity`` of the head, ``value_exponent`` of the block and the placed
    dot products ``floor`` and ``up`` of every row. ``score_valid``, ``score_address``, ``score``: writes of the score buffer, 3 clocks
    after a token's last block. ``maximum``: one item a pass, 4 clocks after the last block of the last token; the
    sender keeps room for it in the queue, see :func:`maxima_depth`.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "valid": In(1), "place": In(place_layout(config)), "parity": In(1), "value_exponent": In(8),
            "floor": In(signed(term_bits(config))).array(config.pool_rows),
            "up": In(1).array(config.pool_rows),
            "score_valid": Out(1), "score_address": Out(range(2 * score_depth(config))),
            "score": Out(SCORE_BITS * config.v_kv),
            "maximum": Out(stream.Signature(MaximumItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        stages = [(self.valid, self.place, self.parity, self.value_exponent)]
        for n in range(3):
            valid = Signal(name=f"valid_{n + 1}")
            tag = [Signal.like(part, name=f"{name}_{n + 1}", reset_less=True)
                   for name, part in zip(("place", "parity", "exponent"), stages[-1][1:], strict=True)]
            m.d.sync += valid.eq(stages[-1][0])
            with m.If(stages[-1][0]):
                m.d.sync += [late.eq(early) for late, early in zip(tag, stages[-1][1:], strict=True)]
            stages.append((valid, *tag))
        maxima = [[Signal(signed(SCORE_BITS), name=f"maximum_{p}_{row}") for row in range(config.v_kv)]
                  for p in range(config.max_passes)]
        scores = []
        for row in range(config.v_kv):
            term = self._clip(m, f"term_{row}", self.floor[row] + self.up[row], stages[0][0])
            scores.append(self._sum(m, row, term, *stages[1][:2]))
        exponents = [Signal(8, name=f"largest_exponent_{n}") for n in range(config.head_blocks)]
        self._finish(m, scores, maxima, exponents, *stages[2])
        self._report(m, maxima, exponents, *stages[3][:2])
        return m

    def _clip(self, m, name, value, enable):
        """*value* within the score's symmetric range, registered."""
        result = Signal(signed(SCORE_BITS), name=name, reset_less=True)
        wide = Signal.like(value, name=f"{name}_wide")
        m.d.comb += wide.eq(value)
        with m.If(enable):
            m.d.sync += result.eq(Mux(wide > -LEAST_SCORE, -LEAST_SCORE, Mux(wide < LEAST_SCORE, LEAST_SCORE, wide)))
        return result

    def _sum(self, m, row, term, valid, place):
        """Score of one row, clipped; sums of unfinished tokens are kept a pass."""
        partial = Array(Signal(signed(SCORE_BITS + 3), name=f"partial_{row}_{p}", reset_less=True)
                        for p in range(self._config.max_passes))
        total = Signal(signed(SCORE_BITS + 3), name=f"total_{row}")
        m.d.comb += total.eq(Mux(place.block == 0, 0, partial[place.pass_]) + term)
        with m.If(valid):
            m.d.sync += partial[place.pass_].eq(total)
        return self._clip(m, f"score_{row}", total, valid & place.block_end)

    def _finish(self, m, scores, maxima, exponents, valid, place, parity, exponent):
        """Score buffer write, running maxima and largest V exponents."""
        depth = score_depth(self._config)
        done = Signal()
        index = Signal(range(depth + 1))
        here = Signal(range(depth + 1))
        m.d.comb += [
            done.eq(valid & place.block_end),
            here.eq(Mux(place.first & (place.pass_ == 0), 0, index)),
            self.score_valid.eq(done & ~place.empty),
            self.score_address.eq(here + Mux(parity, depth, 0)),
        ]
        with m.If(done):
            m.d.sync += index.eq(here + 1)
        for row, score in enumerate(scores):
            m.d.comb += self.score[row * SCORE_BITS:][:SCORE_BITS].eq(score)
            largest = Array(maxima[p][row] for p in range(self._config.max_passes))[place.pass_]
            with m.If(done):
                with m.If(place.empty):
                    m.d.sync += largest.eq(LEAST_SCORE)
                with m.Elif(place.first | (score > largest)):
                    m.d.sync += largest.eq(score)
        begins = Signal()
        m.d.comb += begins.eq(place.first & (place.block == 0))
        for n, register in enumerate(exponents):
            seen = Signal(8, name=f"seen_{n}")
            m.d.comb += seen.eq(Mux((place.block == n) & ~place.empty, exponent, 0))
            with m.If(valid & (begins | (seen > register))):
                m.d.sync += register.eq(seen)

    def _report(self, m, maxima, exponents, valid, place):
        m.submodules.queue = queue = Queue(MaximumItem(self._config), maxima_depth(self._config))
        item = queue.i.payload
        m.d.comb += queue.i.valid.eq(valid & place.final & place.block_end)
        for row in range(self._config.v_kv):
            m.d.comb += item.score[row].eq(Array(column[row] for column in maxima)[place.pass_])
        m.d.comb += [item.exponent[n].eq(register) for n, register in enumerate(exponents)]
        m.d.comb += [
            self.maximum.valid.eq(queue.o.valid), self.maximum.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.maximum.ready),
        ]
