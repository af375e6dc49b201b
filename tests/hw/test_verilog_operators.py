"""Written Verilog computes what Amaranth's simulator does: random expressions, switches and registers.

Amaranth's simulator doesn't use the RTLIL that the Verilog is made from.
"""

import random

import pytest
from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from sim.bench import run_bench

INPUTS = {"a": unsigned(1), "b": signed(5), "c": unsigned(7), "d": signed(1), "e": unsigned(12), "f": signed(9)}
OUTPUTS = 16
CLOCKS = 100


def expression(choose, leaves, depth):
    """A random expression of *leaves*; at most 40 bits."""
    def inner():
        return expression(choose, leaves, depth - 1)

    if depth == 0:
        if choose.random() < 0.2:
            return Const(choose.getrandbits(5), Shape(choose.randint(1, 9), choose.random() < 0.5))
        return choose.choice(leaves)
    x, y = inner(), inner()
    if len(x) > 40 or len(y) > 40:
        x, y = x[:7], y[:6]
    low = choose.randrange(len(x))
    narrow = y.as_unsigned()[:3]
    leaf = choose.choice(leaves)  # of an expression's parts the simulator takes bits beyond its width
    return choose.choice([
        lambda: x + y, lambda: x - y, lambda: x[:9] * y, lambda: x & y, lambda: x | y, lambda: x ^ y,
        lambda: ~x, lambda: -x, lambda: x == y, lambda: x != y, lambda: x < y, lambda: x <= y, lambda: x > y,
        lambda: x >= y, lambda: x.any(), lambda: x.all(), lambda: x.xor(), lambda: x.bool(),
        lambda: x << narrow, lambda: x >> narrow, lambda: x[low:], lambda: x[low],
        lambda: Cat(x[:20], y[:20]),
        lambda: Mux(inner(), x, y), lambda: leaf.bit_select(narrow, min(4, len(leaf))),
        lambda: leaf.word_select(narrow, min(3, len(leaf))), lambda: x.as_signed(), lambda: x.as_unsigned(),
        lambda: abs(x), lambda: x.shift_left(2), lambda: x.rotate_right(1),
        lambda: Value.cast(Array([x, y, inner()])[narrow[:2]]),
        lambda: x.replicate(2) if len(x) < 20 else x, lambda: x.as_unsigned() // (narrow | 1),
        lambda: x.as_unsigned() % (narrow | 1),
    ])()


class Operators(Component):
    """Outputs are random functions of the inputs, by way of expressions, switches, parts and registers."""

    def __init__(self, seed):
        self._seed = seed
        super().__init__({name: In(shape) for name, shape in INPUTS.items()}
                         | {f"o{n}": Out(Shape(8 + n % 17, n % 2 == 1)) for n in range(OUTPUTS)})

    def elaborate(self, platform):
        """Signals of which some are registers; each may read those before it."""
        m = Module()
        choose = random.Random(self._seed)
        leaves = [getattr(self, name) for name in INPUTS]
        for n in range(OUTPUTS):
            def value(leaves=tuple(leaves)):
                return expression(choose, leaves, choose.randint(1, 3))

            target = Signal(Shape(choose.randint(2, 19), choose.random() < 0.5), init=1, name=f"s{n}",
                            reset_less=choose.random() < 0.5)
            domain = choose.choice([m.d.comb, m.d.sync])
            domain += target.eq(value())
            with m.If(value().bool()):
                domain += target[1:].eq(value())
                with m.Switch(Cat(value(), value(), value(), value())[:4]):
                    with m.Case("1--0", 3):
                        domain += target[0].eq(value())
                    with m.Case(1, 2):
                        domain += target.eq(value())
            with m.Elif(value().bool()):
                domain += target.bit_select(value().as_unsigned()[:2], 1).eq(value())
            leaves = [*leaves, target]
            m.d.comb += getattr(self, f"o{n}").eq(value())
        return m


def simulated(seed, stimulus):
    """Outputs in each clock of *stimulus* in Amaranth's simulator."""
    component, found = Operators(seed), []

    async def bench(ctx):
        for values in stimulus:
            for name, value in values.items():
                ctx.set(getattr(component, name), value)
            found.append([ctx.get(getattr(component, f"o{n}").as_unsigned()) for n in range(OUTPUTS)])
            await ctx.tick()

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_same_values_as_in_amaranth(seed):
    choose = random.Random(seed)
    stimulus = [{name: choose.getrandbits(shape.width) for name, shape in INPUTS.items()} for _ in range(CLOCKS)]
    expected = simulated(seed, stimulus)
    assert len({tuple(values) for values in expected}) > CLOCKS // 2
    run_bench(Operators(seed), "sim.tb.operators", args={"stimulus": stimulus, "expected": expected}, seed=seed,
              waived=("CMPCONST", "UNSIGNED"), opt="-O0")
