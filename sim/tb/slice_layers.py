"""Whole layers in one slice: matrices, bypass beats and attention in turn, all streams shared."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from hw.interfaces import NewestKind
from hw.isa import Format, Region
from sim.bench import bench_args
from sim.tb.slice_attention import BLOCKS, CHANNEL, GROUPS, LIMIT, Attention, Layer, Shape
from sim.tb.slice_bench import SliceBench
from sim.tb.slice_matrix import Work


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(older=[0, 19, 45], stall=[0.0, 0.5])
async def layers(dut, older, stall):
    """Three layers: bypass, projections, attention, the matrices after it."""
    seed = bench_args()["seed"]
    rng, gaps = np.random.default_rng(seed), random.Random(seed)
    shape = Shape(heads=3, group=GROUPS[-1], blocks=BLOCKS[-1], older=older, owner=seed % 2 == 0)
    bench = await SliceBench.create(dut, gaps, stall, channel=CHANNEL, geometry=shape.geometry, after_valid=stall > 0)
    work = Work(rng)
    attention = Attention(bench, rng, shape, [Layer(rng, shape, False) for _ in range(3)])
    fences = []
    for layer in attention.layers:
        done = len(work.fences)
        work.bypass(3)
        hidden = work.matrix(Format.Q4_1, 5, 7, Region.HIDDEN)
        work.matrix(Format.Q4_0, 4, 7, Region.HIDDEN, hidden)
        work.send(bench)
        attention.send(layer)
        before = work.fences[done:]
        done = len(work.fences)
        work.matrix(Format.Q8_0, 3, 5, Region.ATTENTION)
        work.bypass(2)
        work.matrix(Format.Q4_1, 2, 8, Region.FFN)
        work.send(bench)
        fences.append((before, work.fences[done:]))
    merge = cocotb.start_soon(attention.merge())
    for n, (layer, (before, after)) in enumerate(zip(attention.layers, fences, strict=True), 1):
        await drive(bench, before)
        await attention.operands(layer)
        await bench.partial.wait(n * attention.items, LIMIT)
        await drive(bench, after)
    await merge
    await bench.results.wait(len(work.expected), LIMIT)
    await ClockCycles(dut.clk, 30)
    assert bench.row_results() == work.expected
    assert bench.vector.items == work.vector
    attention.check()


async def drive(bench, fences):
    """Operands of *fences*, each as soon as its region may be written."""
    for region, operand, before in fences:
        await bench.results.wait(before, LIMIT)
        await bench.operand.send(NewestKind.OPERAND, region, operand, range(len(operand.exponents)))
