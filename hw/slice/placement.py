"""Terms placed on a fixed-point grid: dot products of pool rows, and the minima of Q4_1 blocks."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import GUARD_BITS
from hw.slice.dequant import Half
from hw.slice.pipe import delayed, round_shift
from hw.slice.pool import dot_bits

__all__ = ["Placement", "minimum_bits", "term_bits"]

SHIFT_LIMIT = 63
"""Any larger shift gives the same: every product is below 2^(limit - 2) after its guard bits."""

UNIT = 11
"""A score is placed with multiplier 2^11, so that its product has the width of a term's."""


def term_bits(config: Config):
    """Width of a placed dot product: dot + FP16 mantissa + guard."""
    return dot_bits(config) + 11 + GUARD_BITS


def minimum_bits(config: Config):
    """Width of a placed minimum: sum of 32 mantissas + FP16 mantissa + guard."""
    return config.mantissa_bits + 5 + 11 + GUARD_BITS


class Placement(Component):
    """round_shift of every product of docs/numerics.md sections 3 and 7, as a floor and a bit to add to it.

    Inputs of a beat, in the clock in which its operand's exponents stand at the operand store's outputs (clock 0):

    * a matrix beat: ``exponent``, ``sum``, ``scale``, ``minimum`` of its two blocks (pool rows 0 and 1), ``largest`` exponent of the operand
      and ``weight_exponent``. Terms are dot * ms << 12 shifted right by (largest - exponent) + (weight_exponent - es), minima likewise.
    * a key beat (``keys`` high): ``exponent`` of every row's query block and ``key_exponent``. Scores are dot * 2^(exponent + key_exponent -
      254 - (M - 2) - 6 + 12); one that exceeds 24 bits comes out as some number that exceeds them too.

    ``dots`` come 4 clocks later (clock 4) and ``floor``, ``up``, ``minimum_floor``, ``minimum_up`` leave in clock 6. Rows above 1 work only for
    keys, and hold their outputs otherwise. No stall.
    """

    def __init__(self, config: Config):
        self._config = config
        rows = config.pool_rows
        super().__init__({
            "keys": In(1),
            "largest": In(8),
            "weight_exponent": In(5),
            "exponent": In(8).array(rows),
            "sum": In(signed(config.mantissa_bits + 5)).array(2),
            "scale": In(Half).array(2),
            "minimum": In(Half).array(2),
            "key_exponent": In(8),
            "dots": In(signed(dot_bits(config))).array(rows),
            "floor": Out(signed(term_bits(config))).array(rows),
            "up": Out(1).array(rows),
            "minimum_floor": Out(signed(minimum_bits(config))).array(2),
            "minimum_up": Out(1).array(2),
        })

    def elaborate(self, platform):
        m = Module()
        config = self._config
        keys_4 = delayed(m, self.keys, 4, "keys", reset=True)
        keys_5 = delayed(m, keys_4, 1, "keys_late", reset=True)
        for row in range(config.pool_rows):
            shift = Signal(range(SHIFT_LIMIT + 1), name=f"shift_{row}")
            score_shift = 269 + config.mantissa_bits - self.exponent[row] - self.key_exponent
            if row < 2:
                behind = Signal(9, name=f"behind_{row}")
                m.d.comb += behind.eq(self.largest - self.exponent[row] + self.weight_exponent)
                self._clamp(m, shift, Mux(self.keys, score_shift, behind - self.scale[row].exponent))
                factor = delayed(m, Mux(self.keys, Const(1 << UNIT, 13), self.scale[row].mantissa), 4, f"factor_{row}")
                product = self.dots[row] * factor.as_signed()
                self._place(m, f"term_{row}", product, delayed(m, shift, 5, f"term_{row}_shift"),
                            (self.floor[row], self.up[row]))
                self._minimum(m, row, behind)
            else:
                self._clamp(m, shift, score_shift)
                self._place(m, f"term_{row}", self.dots[row] << UNIT, delayed(m, shift, 5, f"term_{row}_shift"),
                            (self.floor[row], self.up[row]), keys_4, keys_5)
        return m

    def _minimum(self, m, row, behind):
        shift = Signal(range(SHIFT_LIMIT + 1), name=f"minimum_{row}_shift_0")
        self._clamp(m, shift, behind - self.minimum[row].exponent)
        factor = delayed(m, self.minimum[row].mantissa, 1, f"minimum_{row}_factor")
        total = delayed(m, self.sum[row], 1, f"minimum_{row}_sum")
        product = Signal(signed(minimum_bits(self._config) - GUARD_BITS), name=f"minimum_{row}_product")
        m.d.comb += product.eq(factor * total)
        self._place(m, f"minimum_{row}", delayed(m, product, 3, f"minimum_{row}_product"),
                    delayed(m, shift, 5, f"minimum_{row}_shift"), (self.minimum_floor[row], self.minimum_up[row]))

    def _clamp(self, m, shift, value):
        wide = Signal(signed(11), name=f"{shift.name}_wide")
        m.d.comb += [wide.eq(value), shift.eq(Mux(wide < 0, 0, Mux(wide > SHIFT_LIMIT, SHIFT_LIMIT, wide[:6])))]

    def _place(self, m, name, product, shift, outputs, first=1, second=1):
        """Two stages: the product, then floor and rounding bit of (product << G) >> shift, ties to even."""
        floor, up = outputs
        width = len(floor)
        placed = Signal(signed(width), name=f"{name}_placed", reset_less=True)
        with m.If(first):
            m.d.sync += placed.eq(product << GUARD_BITS)
        shifted, round_up = round_shift(m, placed, shift, name)
        floor_register = Signal(signed(width), name=f"{name}_floor", reset_less=True)
        up_register = Signal(name=f"{name}_up", reset_less=True)
        with m.If(second):
            m.d.sync += [floor_register.eq(shifted), up_register.eq(round_up)]
        m.d.comb += [floor.eq(floor_register), up.eq(up_register)]
