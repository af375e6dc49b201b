"""Bench of the vector unit behind its gathers: steps of a made-up model against the golden functions."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from hw.config import preset
from hw.interfaces import Geometry, LogitBeat, MergedItem
from hw.isa import VectorKind, VectorRecord
from sim.bench import bench_args
from sim.golden import fp32
from sim.streams import Sink, Source, pack, signed, start
from sim.tb.vector_model import Shape, beats_of, steps

BUS_FIELDS = ("kind", "region", "row", "address", "last", "exponent", "sum", "mantissas")


class BusMonitor:
    """Blocks on the operand bus, tokens, done pulses and the logit tap; clocks of ends of operands and of tokens."""

    def __init__(self, dut, config, lanes):
        self.dut, self.lanes = dut, lanes
        self.bits = config.mantissa_bits
        self.blocks, self.clocks, self.tokens, self.logits = [], [], [], []
        self.operands = self.done = self.clock = 0
        self.taken = {"results": [], "beats": [], "merged": []}  # clocks

    def _block(self):
        values = {name: int(getattr(self.dut, f"operand__{name}").value) for name in BUS_FIELDS}
        values["sum"] = signed(values["sum"], self.bits + 5)
        values["mantissas"] = [signed(values["mantissas"] >> (self.bits * n), self.bits) for n in range(32)]
        return values

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self.clock += 1
            if dut.operand__valid.value:
                block = self._block()
                self.blocks.append(block)
                if block["last"]:
                    self.operands += 1
                    self.clocks.append(self.clock)
            if dut.token__valid.value:
                self.tokens.append(int(dut.token__index.value))
                self.clocks.append(self.clock)
            if dut.logits__valid.value:
                values = int(dut.logits__values.value)
                self.logits.append((int(dut.logits__index.value),
                                    [values >> (32 * n) & 0xFFFFFFFF for n in range(self.lanes)]))
            for n, clocks in enumerate(self.taken.values()):
                if int(dut.taken.value) >> n & 1:
                    clocks.append(self.clock)
            self.done += int(dut.done.value)


async def feed_results(dut, tasks, monitor, sources):
    """Row results of each task once the operands that they need have left, dealt round the channels."""
    channels = len(sources)
    width = len(dut.results__0__payload)
    for task in tasks:
        while task.results and monitor.operands < task.needs:
            await RisingEdge(dut.clk)
        for n, value in enumerate(task.results):
            sources[n % channels].send(value & (1 << width) - 1)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def equals_golden(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    shape = Shape(**args["shape"])
    config = preset("demo").override(**args["config"])
    constants, tasks = steps(shape, args["seed"], count=3, layers=1, extra=12)
    stall = args["stall"]

    monitor = BusMonitor(dut, config, shape.lanes)
    records = Source(dut, "records", layout=VectorRecord, stall=stall, rng=rng)
    merged = Source(dut, "merged", layout=MergedItem(config), stall=stall, rng=rng)
    beats = [Source(dut, f"beats__{c}", stall=stall, rng=rng) for c in range(shape.channels)]
    results = [Source(dut, f"results__{c}", stall=stall, rng=rng) for c in range(shape.channels)]
    logit_beats = Sink(dut, "logit_beats", layout=LogitBeat, stall=stall, rng=rng)
    geometry = {"kv_heads": shape.kv_heads, "group": shape.group, "passes": -(-shape.group // shape.v_kv),
                "head_blocks": shape.head_blocks}
    await start(dut, geometry=pack(Geometry(config), geometry), logits_enable=args["logits"], clear_error=0,
                **constants)
    cocotb.start_soon(monitor.run())
    cocotb.start_soon(feed_results(dut, tasks, monitor, results))
    for task in tasks:
        records.send({"kind": task.kind, "scale": task.scale, "slot": task.slot, "count": task.count,
                      "weight_exponent": task.weight_exponent, "region": task.region})
        for n, beat in enumerate(task.beats):
            beats[n % shape.channels].send(beat)
        merged.send(*task.merged)

    idle = 0
    while idle < 20:
        await RisingEdge(dut.clk)
        waiting = records.pending or dut.busy.value or any(source.pending for source in results)
        idle = 0 if waiting else idle + 1

    expected = [block for task in tasks for block in task.blocks]
    for n, (got, want) in enumerate(zip(monitor.blocks, expected, strict=False)):
        assert got == want, f"block {n}:\n{got}\ngolden\n{want}"
    assert len(monitor.blocks) == len(expected)
    assert monitor.done == len(tasks)
    assert not dut.error.value
    heads = [task for task in tasks if task.kind == VectorKind.HEAD]
    assert monitor.tokens == [task.token for task in heads]
    check_logits(monitor, logit_beats, heads, shape.lanes, args["logits"])
    assert not any(source.pending for source in (*beats, *results, merged)), "data left over"
    if not stall:
        check_latency(monitor, tasks, shape, args["latency"])


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def flags_overflow(dut):
    """An infinite operand and an overflow set ``error``, which stays until it is cleared; large finite values do
    not."""
    args = bench_args()
    channels, hidden = args["shape"]["channels"], 32
    records = Source(dut, "records", layout=VectorRecord)
    beats = [Source(dut, f"beats__{c}") for c in range(channels)]
    one = int(fp32.to_bits(np.float32(1)))
    await start(dut, clear_error=0, reciprocal=one, eps=one, query_scale=one)

    async def run(kind, values):
        records.send({"kind": kind, "count": hidden})
        words = beats_of(np.array(values, np.float32))
        for n in range(-(-len(words) // channels) * channels):
            beats[n % channels].send(words[n] if n < len(words) else 0)
        for _ in range(3):
            await RisingEdge(dut.clk)
        while dut.busy.value:
            await RisingEdge(dut.clk)

    large = [2.0**60] * hidden
    for weights, residual, bad in (
        (large, large, False), (large, [*large[1:], np.inf], True), ([2.0**68] * hidden, large, True),
        ([1.0] * hidden, [2.0**70] * hidden, True), (large, large, False),
    ):
        await run(VectorKind.LOAD_NORM, weights)
        await run(VectorKind.EMBED, residual)
        assert bool(dut.error.value) == bad, (weights[0], residual[-1])
        for _ in range(5):
            await RisingEdge(dut.clk)
        assert bool(dut.error.value) == bad
        dut.clear_error.value = 1
        await RisingEdge(dut.clk)
        dut.clear_error.value = 0
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        assert not dut.error.value


def check_logits(monitor, logit_beats, heads, lanes, enabled):
    """The tap has every logit at its index; the beats have them in order, the last one filled up with zeros."""
    wanted = [(n, int(bits)) for task in heads for n, bits in enumerate(task.logits)]
    count = len(heads[0].logits)
    tapped = [(index + n, bits) for index, values in monitor.logits for n, bits in enumerate(values)
              if index + n < count]
    assert tapped == wanted
    expected = []
    for task in heads if enabled else ():
        words = [int(bits) for bits in task.logits] + [0] * (-count % 8)
        beats = [sum(word << (32 * n) for n, word in enumerate(words[k:k + 8])) for k in range(0, len(words), 8)]
        expected += [{"data": beat, "last": int(n == len(beats) - 1)} for n, beat in enumerate(beats)]
    assert logit_beats.items == expected


def check_latency(monitor, tasks, shape, latency):
    """From the last group (beat, item) taken to the operand's last block, or to the token: exactly as stated."""
    offset = {"results": 0, "beats": 0, "merged": 0}
    ends = iter(monitor.clocks)
    for task in tasks:
        source, size, data = (("beats", 8, task.beats) if task.beats else ("merged", None, task.merged) if task.merged
                              else ("results", shape.lanes, task.results))
        last = len(task.merged) - 1 if task.merged else -(-task.count // size) - 1
        taken = monitor.taken[source][offset[source] + last]
        offset[source] += len(data) // (shape.lanes if source == "results" else 1)
        if task.kind.name in latency:
            clocks = next(ends) - taken
            assert clocks == latency[task.kind.name], f"{task.kind}: {clocks} clocks, stated {latency[task.kind.name]}"
