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
    """Items that a queue of maxima holds: those of two heads at least."""
    return max(2, 1 << (2 * config.max_passes - 1).bit_length())


def clipped(value):
    """*value*, a register, within the symmetric range of a score."""
    return Mux(value > -LEAST_SCORE, -LEAST_SCORE, Mux(value < LEAST_SCORE, LEAST_SCORE, value))


class Scores(Component):
    """Sums the placed dot products of a token's blocks to scores. No stall, one block a clock.

    Members: ``valid`` with ``place`` in the walk, ``half`` of the head, ``value_exponent`` of the block and the
    placed dot products ``floor`` and ``up`` of every row; ``score_valid``, ``score_address``, ``score``: writes of
    the score buffer, 2 clocks after a token's last block; ``maximum``: one item a pass, 4 clocks after the last block
    of the last token. The sender keeps room for it in the queue, see :func:`maxima_depth`. Stands still while
    ``active`` is low.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "active": In(1),
            "valid": In(1),
            "place": In(place_layout(config)),
            "half": In(1),
            "value_exponent": In(8),
            "floor": In(signed(term_bits(config))).array(config.pool_rows),
            "up": In(1).array(config.pool_rows),
            "score_valid": Out(1),
            "score_address": Out(range(2 * score_depth(config))),
            "score": Out(SCORE_BITS * config.v_kv),
            "maximum": Out(stream.Signature(MaximumItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.queue = queue = Queue(MaximumItem(config), maxima_depth(config))
        m.d.comb += [
            self.maximum.valid.eq(queue.o.valid),
            self.maximum.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.maximum.ready),
        ]
        maxima = [[Signal(signed(SCORE_BITS), name=f"maximum_{p}_{row}") for row in range(config.v_kv)]
                  for p in range(config.max_passes)]
        exponents = [Signal(8, name=f"largest_exponent_{n}") for n in range(config.head_blocks)]
        with m.If(self.active):
            stages = self._stages(m)
            scores = [self._score(m, row, *stages[2][:2]) for row in range(config.v_kv)]
            self._finish(m, scores, maxima, exponents, *stages[4])
            self._report(m, queue.i, maxima, exponents, *stages[5][:2])
        return m

    def _stages(self, m):
        """(valid, place, half, V exponent) of the block in each stage, 0 the input."""
        stages = [(self.valid, self.place, self.half, self.value_exponent)]
        for n in range(1, 6):
            late = [Signal.like(part, name=f"{name}_{n}")
                    for name, part in zip(("valid", "place", "half", "exponent"), stages[-1], strict=True)]
            m.d.sync += [register.eq(part) for register, part in zip(late, stages[-1], strict=True)]
            stages.append(tuple(late))
        return stages

    def _score(self, m, row, valid, place):
        """Score of one row in stage 4: clipped terms of the blocks, summed and clipped; sums are kept a pass."""
        placed = Signal(signed(term_bits(self._config) + 1), name=f"placed_{row}", reset_less=True)
        term = Signal(signed(SCORE_BITS), name=f"term_{row}", reset_less=True)
        total = Signal(signed(SCORE_BITS + 3), name=f"total_{row}", reset_less=True)
        score = Signal(signed(SCORE_BITS), name=f"score_{row}", reset_less=True)
        partial = Array(Signal.like(total, name=f"partial_{row}_{p}") for p in range(self._config.max_passes))
        sum_of_blocks = Mux(place.block == 0, 0, partial[place.pass_]) + term
        m.d.sync += [
            placed.eq(self.floor[row] + self.up[row]),
            term.eq(clipped(placed)),
            total.eq(sum_of_blocks),
            score.eq(clipped(total)),
        ]
        with m.If(valid):
            m.d.sync += partial[place.pass_].eq(sum_of_blocks)
        return score

    def _finish(self, m, scores, maxima, exponents, valid, place, half, exponent):
        """Score buffer write, running maxima and largest V exponents."""
        depth = score_depth(self._config)
        done, begins = Signal(), Signal()
        index, here = Signal(range(depth + 1)), Signal(range(depth + 1))
        m.d.comb += [
            done.eq(valid & place.block_end),
            begins.eq(place.first & (place.block == 0)),
            here.eq(Mux(place.first & (place.pass_ == 0), 0, index)),
            self.score_valid.eq(done & ~place.empty),
            self.score_address.eq(here + Mux(half, depth, 0)),
            *(self.score[row * SCORE_BITS:][:SCORE_BITS].eq(score) for row, score in enumerate(scores)),
        ]
        with m.If(done):
            m.d.sync += index.eq(here + 1)
            for row, score in enumerate(scores):
                largest = Array(column[row] for column in maxima)[place.pass_]
                with m.If(place.empty):
                    m.d.sync += largest.eq(LEAST_SCORE)
                with m.Elif(place.first | (score > largest)):
                    m.d.sync += largest.eq(score)
        for n, register in enumerate(exponents):
            seen = Signal(8, name=f"seen_{n}")
            m.d.comb += seen.eq(Mux((place.block == n) & ~place.empty, exponent, 0))
            with m.If(valid & (begins | (seen > register))):
                m.d.sync += register.eq(seen)

    def _report(self, m, queue, maxima, exponents, valid, place):
        item = queue.payload
        m.d.comb += [
            queue.valid.eq(valid & place.final & place.block_end),
            *(item.score[row].eq(Array(column[row] for column in maxima)[place.pass_])
              for row in range(self._config.v_kv)),
            *(item.exponent[n].eq(register) for n, register in enumerate(exponents)),
        ]
