"""The multiplier pool: rows of 32 multipliers, each with an adder tree."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.slice.pipe import LANE, added, extended

__all__ = ["Pool"]


class Pool(Component):
    """``pool_rows`` rows of 32 multipliers. One beat a clock, no stall.

    Stage by stage after the clock in which ``mantissas`` stand at the inputs: operands chosen and registered (1);
    ``products`` (2); sums of four products (3); ``dots`` (4). Codes are given one clock later than mantissas and
    probabilities, straight from the dequantiser's registers.

    Rows above 1 stand still while ``active`` is low. Products have at most 25 bits, dots mantissa_bits + 12.

    Members: ``low``, codes of row 0 and of rows above 1; ``high``, codes of row 1; ``mantissas[row][lane]``;
    ``weighted``: the operand of row r is ``probability[r]`` in all lanes (P.V) instead of the mantissas;
    ``products[row][lane]``; ``dots[row]``.
    """

    def __init__(self, config: Config):
        self._config = config
        rows, bits = config.pool_rows, config.mantissa_bits
        super().__init__({
            "low": In(LANE).array(BLOCK),
            "high": In(LANE).array(BLOCK),
            "mantissas": In(signed(bits)).array(rows, BLOCK),
            "active": In(1),
            "weighted": In(1),
            "probability": In(16).array(rows),
            "products": Out(LANE).array(rows, BLOCK),
            "dots": Out(LANE).array(rows),
        })

    def elaborate(self, platform):
        m = Module()
        for row in range(self._config.pool_rows):
            if row < 2:
                products, dot = self._row(m, row, self.high if row == 1 else self.low)
            else:
                with m.If(self.active):
                    products, dot = self._row(m, row, self.low)
            m.d.comb += [port.eq(product) for port, product in zip(self.products[row], products, strict=True)]
            m.d.comb += self.dots[row].eq(dot)
        return m

    def _row(self, m, row, codes):
        products = []
        for lane in range(BLOCK):
            operand = Signal(LANE, reset_less=True, name=f"operand_{row}_{lane}")
            product = Signal(LANE, reset_less=True, name=f"product_{row}_{lane}")
            m.d.sync += [
                operand.eq(Mux(self.weighted, self.probability[row], extended(self.mantissas[row][lane]))),
                product.eq(codes[lane] * operand),
            ]
            products.append(product)
        sums = []
        for first in range(0, BLOCK, 4):
            part = Signal(LANE, reset_less=True, name=f"part_{row}_{first}")
            m.d.sync += part.eq(added(products[first:first + 4]))
            sums.append(part)
        dot = Signal(LANE, reset_less=True, name=f"dot_{row}")
        m.d.sync += dot.eq(added(sums))
        return products, dot
