"""SiLU(gate) * up: docs/numerics.md section 8."""

from math import e, log2
from struct import pack, unpack

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from hw.vector.fp32 import Adder, Multiplier
from hw.vector.functions import Exp2, Reciprocal
from hw.vector.pipe import delay, delay_valid, groups

__all__ = ["MINUS_LOG2_E", "ONE", "GatedPairs", "GatedUnit"]

ONE = 0x3F800000
(MINUS_LOG2_E,) = unpack("<I", pack("<f", -log2(e)))
"""RN(-log2 e)."""


class GatedUnit(Component):
    """RN(RN(gate * rcp(RN(1 + exp2(RN(gate * RN(-log2 e)))))) * up) of one lane, a result a clock."""

    LATENCY = Multiplier.LATENCY + Exp2.LATENCY + Adder.LATENCY + Reciprocal.LATENCY + 2 * Multiplier.LATENCY

    valid: In(1)
    gate: In(32)
    up: In(32)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.scale = scale = Multiplier()
        m.submodules.exp2 = exp2 = Exp2()
        m.submodules.one_plus = one_plus = Adder()
        m.submodules.rcp = rcp = Reciprocal()
        m.submodules.swish = swish = Multiplier()
        m.submodules.product = product = Multiplier()

        clock, valid = 0, self.valid
        for unit, inputs in (
            (scale, {"a": self.gate, "b": Const(MINUS_LOG2_E, 32)}),
            (exp2, {"x": scale.o}),
            (one_plus, {"a": exp2.o, "b": Const(ONE, 32)}),
            (rcp, {"x": one_plus.o}),
        ):
            m.d.comb += [getattr(unit, name).eq(value) for name, value in inputs.items()] + [unit.valid.eq(valid)]
            valid = delay_valid(m, valid, unit.LATENCY, f"valid_{clock}")
            clock += unit.LATENCY
        m.d.comb += [swish.a.eq(delay(m, self.gate, clock, "gate")), swish.b.eq(rcp.o), swish.valid.eq(valid)]
        m.d.comb += [
            product.a.eq(swish.o),
            product.b.eq(delay(m, self.up, clock + swish.LATENCY, "up")),
            product.valid.eq(delay_valid(m, valid, swish.LATENCY, "valid_product")),
            self.o.eq(product.o),
            self.error.eq(scale.error | one_plus.error | rcp.error | swish.error | product.error),
        ]
        return m


class GatedPairs(Component):
    """Groups of gates and groups of ups in turn; a group of products for each pair.

    Latency from the up group: :attr:`GatedUnit.LATENCY`. Takes a group a clock. The gate group waits for its up group.
    Records have an even number of groups.
    """

    def __init__(self, lanes):
        self._lanes = lanes
        super().__init__({"i": In(groups(lanes)), "o": Out(groups(lanes)), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        second, pair = Signal(), Signal()
        gates = Signal(ArrayLayout(32, self._lanes), reset_less=True)
        m.d.comb += pair.eq(self.i.valid & second)
        with m.If(self.i.valid):
            m.d.sync += [second.eq(~second), gates.eq(self.i.values)]
        errors = Signal(self._lanes)
        for n in range(self._lanes):
            m.submodules[f"lane_{n}"] = unit = GatedUnit()
            m.d.comb += [
                unit.valid.eq(pair), unit.gate.eq(gates[n]), unit.up.eq(self.i.values[n]),
                self.o.values[n].eq(unit.o), errors[n].eq(unit.error),
            ]
        m.d.comb += [
            self.o.valid.eq(delay_valid(m, pair, GatedUnit.LATENCY, "valid")),
            self.o.last.eq(delay_valid(m, pair & self.i.last, GatedUnit.LATENCY, "last")),
            self.error.eq(errors.any()),
        ]
        return m
