"""Bench of the argmax: few distinct values, so that nearly every record has ties, zeros of both signs among them."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from hw.vector.argmax import ArgMax
from sim.bench import bench_args
from sim.golden import fp32
from sim.streams import start

POOLS = (
    [0x00000000, 0x80000000],
    [0x80000000, 0x00000000, 0xBF800000, 0x80800000],
    [0xC0000000, 0xBF800001, 0xBF800000, 0xFF7FFFFF],
    [0x3F800000, 0x3F800001, 0x80000000, 0x7F7FFFFF, 0xC0000000],
)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def lowest_index_of_largest(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    lanes = args["lanes"]
    ends, expected, got = [], [], []
    clock = 0

    async def step():
        nonlocal clock
        await RisingEdge(dut.clk)
        clock += 1
        if dut.done.value:
            got.append((clock, int(dut.index.value)))

    await start(dut, valid=0)
    for _ in range(150):
        words = rng.choices(rng.choice(POOLS), k=rng.randint(1, 40))
        expected.append(int(np.argmax(fp32.from_bits(np.array(words, np.uint32)))))
        for n in range(0, len(words), lanes):
            while rng.random() < 0.2:
                dut.valid.value = 0
                await step()
            group = words[n:n + lanes]
            filler = [0x7F000000] * (lanes - len(group))  # larger than anything real, but beyond the count
            dut.valid.value, dut.last.value = 1, int(n + lanes >= len(words))
            dut.count.value = len(group)
            dut.values.value = sum(word << (32 * k) for k, word in enumerate(group + filler))
            await step()
        ends.append(clock)
    dut.valid.value = 0
    for _ in range(8):
        await step()
    assert [index for _, index in got] == expected
    assert [came - end for (came, _), end in zip(got, ends, strict=True)] == [ArgMax.LATENCY] * len(ends)
