import pytest
from amaranth.sim import Simulator

from hw.dram.rows import RowEngine
from hw.dram.timing import timing_for

ACT1, FIXED = 0b111, 0b111


def activations(timing, held):
    """Clocks of the ACT-1 of a row engine that is always asked to activate; *held*: clocks taken for CAS."""
    engine, times = RowEngine(timing, 16), []

    async def bench(ctx):
        ctx.set(engine.activate.valid, 1)
        for clock in range(60):
            ctx.set(engine.hold, clock in held)
            if ctx.get(engine.cs) and ctx.get(engine.command) & FIXED == ACT1:
                times.append(clock)
            await ctx.tick()

    simulator = Simulator(engine)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return times


@pytest.mark.parametrize("changes", [{}, {"trrd": 4}, {"trrd": 2}, {"trrd": 8}, {"tfaw": 40}])
@pytest.mark.parametrize("hold", range(12))
def test_four_activate_window(changes, hold):
    """A CAS in any clock does not bring the fifth ACT-1 into the window, also where tFAW is more than four tRRD."""
    timing = timing_for(16).replace(**changes)
    times = activations(timing, {hold})
    assert len(times) >= 6
    assert min(2 * (fifth - first) for first, fifth in zip(times, times[4:], strict=False)) >= timing.tfaw
    assert min(2 * (b - a) for a, b in zip(times, times[1:], strict=False)) >= timing.trrd
