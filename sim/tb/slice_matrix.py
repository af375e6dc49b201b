"""The slice's MATRIX and BYPASS records against the golden model's accumulators."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from hw.interfaces import NewestKind
from hw.isa import Format, Region, SliceKind
from sim.bench import bench_args
from sim.golden.matrix import accumulate, largest_exponent
from sim.tb.slice_bench import CONFIG, SliceBench, Taken
from sim.tb.slice_layout import matrix_beats, random_blocks, random_weights

REGIONS = (Region.HIDDEN, Region.ATTENTION, Region.FFN)
RESULT_LATENCY = 9
LIMIT = 40_000


class Work:
    """Random matrices with their operands, and the beats that a slice gets for them."""

    def __init__(self, rng):
        self.rng = rng
        self.records, self.data, self.scales, self.vector, self.expected = [], [], [], [], []
        self.fences = []  # (record number, region, blocks, results that must be out before it may be written)
        self._sent = (0, 0, 0)
        self._users = dict.fromkeys(REGIONS, 0)  # results of the last matrix that reads a region

    def matrix(self, fmt, rows, blocks, region, operand=None):
        """A matrix record; without *operand*, a new one comes over the bus. Returns the operand."""
        weights = random_weights(self.rng, rows, blocks, fmt)
        fresh = operand is None
        if fresh:
            spread = (1, 254) if self.rng.random() < 0.2 else (100, 130)
            operand = random_blocks(self.rng, (blocks,), CONFIG.mantissa_bits, spread)
            self.fences.append((region, operand, self._users[region]))
        exponent = largest_exponent(weights)
        data, scales = matrix_beats(weights, fmt)
        self.data += data
        self.scales += scales
        self.expected += [int(value) for value in accumulate(weights, operand, exponent)]
        self._users[region] = len(self.expected)
        self.records.append({"record": {
            "kind": SliceKind.MATRIX, "format": fmt, "region": region, "take_fence": fresh, "rows": rows,
            "blocks": blocks, "weight_exponent": exponent}})
        return operand

    def bypass(self, beats, region=None):
        """A BYPASS record; with a *region*, it takes one fence of it."""
        payload = [int.from_bytes(self.rng.bytes(32), "little") for _ in range(beats)]
        self.data += payload
        self.vector += payload
        if region is not None:
            operand = random_blocks(self.rng, (2,), CONFIG.mantissa_bits, (100, 130))
            self.fences.append((region, operand, self._users[region]))
        self.records.append({"record": {"kind": SliceKind.BYPASS, "rows": beats, "take_fence": region is not None,
                                        "region": region or Region.HIDDEN}})

    def send(self, bench):
        """Queue records and beats that are new since the last call."""
        for source, items, sent in zip((bench.dispatch, bench.data, bench.scales),
                                       (self.records, self.data, self.scales), self._sent, strict=True):
            source.send(*items[sent:])
        self._sent = (len(self.records), len(self.data), len(self.scales))

    async def run(self, bench):
        """Give it all to *bench* and compare what comes out."""
        self.send(bench)
        for region, operand, before in self.fences:
            await bench.results.wait(before, LIMIT)
            await bench.operand.send(NewestKind.OPERAND, region, operand, range(len(operand.exponents)))
        await bench.results.wait(len(self.expected), LIMIT)
        await bench.vector.wait(len(self.vector), LIMIT)
        await ClockCycles(bench.dut.clk, 30)
        assert bench.row_results() == self.expected
        assert bench.vector.items == self.vector
        assert not (bench.data.pending or bench.scales.pending or bench.dispatch.pending)


def seeds():
    seed = bench_args()["seed"]
    return np.random.default_rng(seed), random.Random(seed)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.3, 0.75])
async def random_matrices(dut, stall):
    """Matrices of every format back to back, rows that straddle beats, new and shared operands, bypass between."""
    rng, gaps = seeds()
    work = Work(rng)
    for n in range(24):
        fmt = list(Format)[int(rng.integers(3))]
        region = REGIONS[int(rng.integers(3))]
        blocks = int(rng.integers(2, 9))
        operand = work.matrix(fmt, int(rng.integers(1, 9)), blocks, region)
        for _ in range(int(rng.integers(3))):
            work.matrix(list(Format)[int(rng.integers(3))], int(rng.integers(1, 6)), blocks, region, operand)
        if n % 3 == 0:
            work.bypass(int(rng.integers(4)), region if n % 2 else None)
    await work.run(await SliceBench.create(dut, gaps, stall, after_valid=stall > 0.5))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(fmt=list(Format), blocks=[2, 3, 7])
async def one_beat_a_clock(dut, fmt, blocks):
    """Without gaps every clock takes a data beat, across rows and records, and a result comes 9 clocks after its
    beat.
    """
    rng, gaps = seeds()
    work = Work(rng)
    operand = work.matrix(fmt, 9, blocks, Region.FFN)
    work.matrix(fmt, 8, blocks, Region.FFN, operand)
    bench = await SliceBench.create(dut, gaps, 0.0)
    taken, results = Taken(dut, "data"), Taken(dut, "results")
    await work.run(bench)
    assert taken.clocks == list(range(taken.clocks[0], taken.clocks[0] + len(work.data))), "a clock without a data beat"
    per_beat = 1 if fmt is Format.Q8_0 else 2
    second = -(-9 * blocks // per_beat)
    ends = [start + -(-row * blocks // per_beat) - 1
            for start, rows in ((0, 9), (second, 8)) for row in range(1, rows + 1)]
    assert [results.clocks[n] - taken.clocks[end] for n, end in enumerate(ends)] == [RESULT_LATENCY] * 17
