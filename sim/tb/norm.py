"""Bench of the norm: 1/rms of vectors of several lengths with random gaps, and its stated latency."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from sim.bench import bench_args
from sim.golden import fp32, norm
from sim.streams import start


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def equals_golden(dut):
    args = bench_args()
    rng, draw = random.Random(args["seed"]), np.random.default_rng(args["seed"])
    lanes = args["lanes"]
    await start(dut, i__valid=0)
    for _ in range(12):
        n = 32 * rng.choice([1, 2, 3, 18])
        spread = rng.choice([0, 3, 20, 60])
        x = (draw.standard_normal(n) * 2.0 ** draw.uniform(-spread, spread / 2, n)).astype(np.float32)
        eps, scale = np.float32(10.0 ** -rng.randint(5, 7)), norm.query_scale(rng.choice([32, 64, 128]))
        dut.reciprocal.value = int(fp32.to_bits(np.float32(1 / n)))
        dut.eps.value, dut.query_scale.value = int(fp32.to_bits(eps)), int(fp32.to_bits(scale))
        words = fp32.to_bits(x)
        for k in range(0, n, lanes):
            while rng.random() < 0.2:
                dut.i__valid.value = 0
                await RisingEdge(dut.clk)
            dut.i__valid.value, dut.i__last.value = 1, int(k + lanes == n)
            dut.i__values.value = sum(int(word) << (32 * lane) for lane, word in enumerate(words[k:k + lanes]))
            await RisingEdge(dut.clk)
        dut.i__valid.value = 0
        for clock in range(1, args["latency"] + 1):
            await RisingEdge(dut.clk)
            assert bool(dut.done.value) == (clock == args["latency"]), f"done in clock {clock}"
        for _ in range(3):
            await RisingEdge(dut.clk)
            assert not dut.done.value
        inverse = norm.inverse_rms(x, eps)
        assert int(dut.inverse.value) == int(fp32.to_bits(inverse))
        assert int(dut.query.value) == int(fp32.to_bits(fp32.mul(inverse, scale)))
        assert not dut.error.value
