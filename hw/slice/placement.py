"""Terms placed on a fixed-point grid: dot products of pool rows, and the minima of Q4_1 blocks."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import GUARD_BITS
from hw.slice.dequant import Half
from hw.slice.pipe import LANE, WORD, delayed, extended, round_shift, rounded

__all__ = ["Placement", "minimum_bits", "term_bits"]

SHIFT_LIMIT = 63
"""Any larger shift gives the same: every product is below 2^(limit - 2) after its guard bits."""

UNIT = 11
"""A score is placed with multiplier 2^11, so that its product has the width of a term's."""


def term_bits(config: Config):
    """Width of a placed dot product: dot + FP16 mantissa + guard."""
    return config.mantissa_bits + 12 + 11 + GUARD_BITS


def minimum_bits(config: Config):
    """Width of a placed minimum: sum of 32 mantissas + FP16 mantissa + guard."""
    return config.mantissa_bits + 5 + 11 + GUARD_BITS


class Placement(Component):
    """round_shift of every product of docs/numerics.md sections 3 and 7, as a floor and a bit to add to it.

    Inputs of a beat, in the clock in which its operand's exponents stand at the operand store's outputs (clock 0):

    * a matrix beat: ``exponent``, ``sum``, ``scale``, ``minimum`` of its two blocks (pool rows 0 and 1), ``largest``
      exponent of the operand and ``weight_exponent``. Terms are dot * ms << 12 shifted right by (largest - exponent)
      + (weight_exponent - es), minima likewise.
    * a key beat (``keys`` high): ``exponent`` of every row's query block and ``key_exponent``. Scores are dot *
      2^(exponent + key_exponent - 254 - (M - 2) - 6 + 12); one that exceeds 24 bits comes out as some number that
      exceeds them too.

    ``dots`` come 4 clocks later (clock 4) and ``floor``, ``up``, ``minimum_floor``, ``minimum_up`` leave in clock 6.
    Rows above 1 stand still while ``active`` is low. No stall.
    """

    def __init__(self, config: Config):
        self._config = config
        rows = config.pool_rows
        super().__init__({
            "active": In(1),
            "keys": In(1),
            "largest": In(8),
            "weight_exponent": In(5),
            "exponent": In(8).array(rows),
            "sum": In(signed(config.mantissa_bits + 5)).array(2),
            "scale": In(Half).array(2),
            "minimum": In(Half).array(2),
            "key_exponent": In(8),
            "dots": In(LANE).array(rows),
            "floor": Out(signed(term_bits(config))).array(rows),
            "up": Out(1).array(rows),
            "minimum_floor": Out(signed(minimum_bits(config))).array(2),
            "minimum_up": Out(1).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        for row in range(config.pool_rows):
            if row < 2:
                outputs = self._term(m, row) + self._minimum(m, row)
            else:
                with m.If(self.active):
                    outputs = self._score(m, row)
            m.d.comb += outputs
        return m

    def _term(self, m, row):
        """A row that has matrix terms as well as scores."""
        factor = Signal(LANE, name=f"factor_{row}")
        m.d.comb += factor.eq(Mux(self.keys, 1 << UNIT, extended(self.scale[row].mantissa)))
        shift = self._clamp(m, f"term_{row}", Mux(self.keys, self._score_shift(row), self._shift(row, self.scale[row])))
        product = self.dots[row] * delayed(m, factor, 4, f"factor_{row}")
        return self._place(m, f"term_{row}", product, shift, self.floor[row], self.up[row])

    def _score(self, m, row):
        """A row that has scores alone."""
        shift = self._clamp(m, f"term_{row}", self._score_shift(row))
        product = Cat(Const(0, UNIT), extended(self.dots[row], WORD))
        return self._place(m, f"term_{row}", product, shift, self.floor[row], self.up[row])

    def _shift(self, row, half):
        return self.largest - self.exponent[row] + self.weight_exponent - half.exponent

    def _score_shift(self, row):
        return 269 + self._config.mantissa_bits - self.exponent[row] - self.key_exponent

    def _minimum(self, m, row):
        shift = self._clamp(m, f"minimum_{row}", self._shift(row, self.minimum[row]))
        factor, total = Signal(LANE, name=f"minimum_{row}_factor"), Signal(LANE, name=f"minimum_{row}_sum")
        m.d.comb += [factor.eq(extended(self.minimum[row].mantissa)), total.eq(extended(self.sum[row]))]
        product = delayed(m, factor, 1, f"minimum_{row}_factor") * delayed(m, total, 1, f"minimum_{row}_sum")
        product = delayed(m, product, 3, f"minimum_{row}_product")
        return self._place(m, f"minimum_{row}", product, shift, self.minimum_floor[row], self.minimum_up[row])

    def _clamp(self, m, name, value):
        """*value* within 0 and the limit, 5 clocks later."""
        wide = Signal(signed(11), name=f"{name}_shift_wide")
        shift = Signal(range(SHIFT_LIMIT + 1), name=f"{name}_shift_0")
        m.d.comb += [wide.eq(value), shift.eq(Mux(wide < 0, 0, Mux(wide > SHIFT_LIMIT, SHIFT_LIMIT, wide[:6])))]
        return delayed(m, shift, 5, f"{name}_shift")

    def _place(self, m, name, product, shift, floor, up):
        """Two stages: the product, then (product << G) >> shift; returns what drives *floor* and *up*."""
        placed = Signal(WORD, name=f"{name}_placed", reset_less=True)
        m.d.sync += placed.eq(Cat(Const(0, GUARD_BITS), product))
        shifted, half, rest = round_shift(m, placed, shift, name)
        return [floor.eq(shifted), up.eq(rounded(shifted, half, rest))]
