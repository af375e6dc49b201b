"""Arithmetic units against the golden model: adder, multiplier, conversion, reciprocal, inverse root, 2^t."""

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib.wiring import Component, In, Out

from hw.vector.fp32 import Adder, FromInteger, Multiplier
from hw.vector.functions import Exp2, InverseRoot, Reciprocal
from sim.bench import run_bench

RESULT = {"o": 32, "error": 1}


class ArithmeticUnits(Component):
    """All units side by side on the same operands; one-argument functions of positive arguments get |a|."""

    LATENCY = {"add": Adder.LATENCY, "mul": Multiplier.LATENCY, "fp": FromInteger.LATENCY, "rcp": Reciprocal.LATENCY,
               "rsqrt": InverseRoot.LATENCY, "exp2": Exp2.LATENCY}

    def __init__(self, width):
        self._width = width
        super().__init__({
            "valid": In(1), "a": In(32), "b": In(32), "value": In(signed(width)), "exponent": In(signed(12)),
            **{f"{name}__{part}": Out(bits) for name in self.LATENCY for part, bits in RESULT.items()},
        })

    def elaborate(self, platform):
        m = Module()
        units = {"add": Adder(), "mul": Multiplier(), "fp": FromInteger(self._width), "rcp": Reciprocal(),
                 "rsqrt": InverseRoot(), "exp2": Exp2()}
        for name, unit in units.items():
            m.submodules[name] = unit
            m.d.comb += [unit.valid.eq(self.valid), getattr(self, f"{name}__o").eq(unit.o)]
            if name != "exp2":
                m.d.comb += getattr(self, f"{name}__error").eq(unit.error)
        for name in ("add", "mul"):
            m.d.comb += [units[name].a.eq(self.a), units[name].b.eq(self.b)]
        m.d.comb += [
            units["fp"].value.eq(self.value), units["fp"].exponent.eq(self.exponent),
            units["rcp"].x.eq(self.a[:31]), units["rsqrt"].x.eq(self.a[:31]), units["exp2"].x.eq(self.a),
        ]
        return m


@pytest.mark.parametrize("width, seed", [(58, 1), (46, 2), (62, 3), (20, 4)])
def test_units(width, seed):
    run_bench(ArithmeticUnits(width), "sim.tb.fp32", seed=seed,
              args={"width": width, "count": 12_000, "latency": ArithmeticUnits.LATENCY})
