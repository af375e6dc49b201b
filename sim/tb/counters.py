"""Bench of the performance counters."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from hw.dram.causes import Cause
from hw.host.register_map import COUNTERS
from hw.host.registers import CounterValues
from sim.bench import bench_args
from sim.streams import start, unpack

WIDTH = 3
"""Bits of a cause."""


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def counts(dut):
    """Every enabled clock of every channel is counted once, under its cause."""
    args = bench_args()
    rng = random.Random(args["seed"])
    await start(dut, enable=0, clear=0, cause=0)
    for _ in range(3):
        dut.clear.value = 1
        await RisingEdge(dut.clk)
        dut.clear.value = 0
        await ClockCycles(dut.clk, 2)
        want = dict.fromkeys(COUNTERS, 0)
        for _ in range(rng.randint(50, 200)):
            causes = [rng.choice(list(Cause)) for _ in range(args["channels"])]
            enable = rng.random() < 0.7
            dut.cause.value = sum(cause.value << WIDTH * n for n, cause in enumerate(causes))
            dut.enable.value = enable
            await RisingEdge(dut.clk)
            want["clocks"] += enable
            for cause in causes:
                want[COUNTERS[1 + cause.value]] += enable
        dut.enable.value = 0
        await ClockCycles(dut.clk, 3)
        got = unpack(CounterValues, int(dut.values.value))
        assert got == want
        assert sum(got[name] for name in COUNTERS[1:]) == got["clocks"] * args["channels"]
