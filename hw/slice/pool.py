"""The multiplier pool: rows of 32 multipliers, each with an adder tree."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config

__all__ = ["PROBABILITY_BITS", "Pool", "dot_bits", "product_bits"]

PROBABILITY_BITS = 17
"""A softmax numerator, unsigned 16 bits, as a signed operand."""


def dot_bits(config: Config):
    """Width of a block's dot product: 32 products of an operand mantissa and a signed byte."""
    return config.mantissa_bits + 12


def product_bits(config: Config):
    """Width of one product: the wider operand times a signed byte."""
    return max(config.mantissa_bits, PROBABILITY_BITS) + 8


class Pool(Component):
    """``pool_rows`` rows of 32 multipliers. One beat a clock, no stall.

    Stage by stage after the clock in which ``mantissas`` stand at the inputs: operands chosen and registered (1); ``products``
    (2); sums of four products (3); ``dots`` (4). Codes are given one clock later than mantissas and probabilities, straight
    from the dequantiser's registers.

    Rows 0 and 1 always run; rows above take part only in beats flagged ``every_row``, given with the mantissas.

    Members: ``low``, codes of row 0 and of rows above 1; ``high``, codes of row 1; ``mantissas[row][lane]``; ``weighted``: the operand of row
    r is ``probability[r]`` in all lanes (P.V) instead of the mantissas; ``products[row][lane]``; ``dots[row]``.
    """

    def __init__(self, config: Config):
        self._config = config
        rows, bits = config.pool_rows, config.mantissa_bits
        super().__init__({
            "low": In(signed(8)).array(BLOCK),
            "high": In(signed(8)).array(BLOCK),
            "mantissas": In(signed(bits)).array(rows, BLOCK),
            "weighted": In(1),
            "every_row": In(1),
            "probability": In(16).array(rows),
            "products": Out(signed(product_bits(config))).array(rows, BLOCK),
            "dots": Out(signed(dot_bits(config))).array(rows),
        })

    def elaborate(self, platform):
        m = Module()
        active = Signal(3)
        m.d.sync += active.eq((active << 1) | self.every_row)
        for row in range(self._config.pool_rows):
            enables = (1, 1, 1, 1) if row < 2 else (self.every_row, *active)
            self._row(m, row, self.high if row == 1 else self.low, enables)
        return m

    def _row(self, m, row, codes, enables):
        """Multipliers and tree of one row; ``enables`` has one for each of the four stages."""
        operand_shape = signed(max(self._config.mantissa_bits, PROBABILITY_BITS))
        product_shape = signed(product_bits(self._config))
        in_tree = self._config.mantissa_bits + 8
        probability = Signal(operand_shape, name=f"probability_{row}")
        m.d.comb += probability.eq(self.probability[row])
        products = []
        for lane in range(BLOCK):
            operand = Signal(operand_shape, reset_less=True, name=f"operand_{row}_{lane}")
            product = Signal(product_shape, reset_less=True, name=f"product_{row}_{lane}")
            with m.If(enables[0]):
                m.d.sync += operand.eq(Mux(self.weighted, probability, self.mantissas[row][lane]))
            with m.If(enables[1]):
                m.d.sync += product.eq(codes[lane] * operand)
            m.d.comb += self.products[row][lane].eq(product)
            products.append(product[:in_tree].as_signed())
        sums = []
        for first in range(0, BLOCK, 4):
            part = Signal(signed(in_tree + 2), reset_less=True, name=f"part_{row}_{first}")
            with m.If(enables[2]):
                m.d.sync += part.eq((products[first] + products[first + 1])
                                    + (products[first + 2] + products[first + 3]))
            sums.append(part)
        while len(sums) > 2:
            sums = [sums[n] + sums[n + 1] for n in range(0, len(sums), 2)]
        dot = Signal(signed(dot_bits(self._config)), reset_less=True, name=f"dot_{row}")
        with m.If(enables[3]):
            m.d.sync += dot.eq(sums[0] + sums[1])
        m.d.comb += self.dots[row].eq(dot)
