"""Bench of a component without streams: inputs of each clock and the outputs that they must give come as arguments."""

import cocotb
from cocotb.triggers import Timer

from sim.bench import bench_args


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def outputs_are_as_expected(dut):
    args = bench_args()
    dut.clk.value = 0
    dut.rst.value = 0
    for clock, (stimulus, expected) in enumerate(zip(args["stimulus"], args["expected"], strict=True)):
        for name, value in stimulus.items():
            getattr(dut, name).value = value
        await Timer(1, "ns")
        for n, value in enumerate(expected):
            found = getattr(dut, f"o{n}").value.to_unsigned()
            assert found == value, f"o{n} in clock {clock} is {found:#x}, not {value:#x}"
        dut.clk.value = 1
        await Timer(1, "ns")
        dut.clk.value = 0
        await Timer(1, "ns")
