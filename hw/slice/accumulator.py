"""Row accumulators: placed terms summed to row results."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import accumulator_bits
from hw.slice.pipe import WORD, added, delayed, extended
from hw.slice.placement import minimum_bits, term_bits

__all__ = ["RowAccumulator"]


class RowAccumulator(Component):
    """Sum of the terms of a row; a row may end after either block of a beat. One beat a clock, no stall.

    Members, given with the terms of a beat: ``valid``; ``ends[block]``, the row ends with this block (never both);
    ``floor``, ``up``, ``minimum_floor``, ``minimum_up``: terms of the two blocks, 0 for a block that isn't there. One
    clock later: ``result`` if ``done``, combinational from the accumulator.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "valid": In(1),
            "ends": In(1).array(2),
            "floor": In(signed(term_bits(config))).array(2),
            "up": In(1).array(2),
            "minimum_floor": In(signed(minimum_bits(config))).array(2),
            "minimum_up": In(1).array(2),
            "done": Out(1),
            "result": Out(signed(accumulator_bits(config))),
        })

    def elaborate(self, platform):
        m = Module()
        block = [Signal(WORD, reset_less=True, name=f"block_{n}") for n in range(2)]
        for n in range(2):
            terms = (self.floor[n], self.up[n], self.minimum_floor[n], self.minimum_up[n])
            m.d.sync += block[n].eq(added([extended(term, WORD) for term in terms], WORD))
        valid = delayed(m, self.valid, 1, "valid", reset=True)
        ends = [delayed(m, self.ends[n] & self.valid, 1, f"ends_{n}", reset=True) for n in range(2)]
        total, first, both = Signal(WORD), Signal(WORD), Signal(WORD)
        m.d.comb += [
            first.eq(total + block[0]),
            both.eq(first + block[1]),
            self.done.eq(ends[0] | ends[1]),
            self.result.eq(Mux(ends[0], first, both)),
        ]
        with m.If(valid):
            m.d.sync += total.eq(Mux(ends[1], 0, Mux(ends[0], block[1], both)))
        return m
