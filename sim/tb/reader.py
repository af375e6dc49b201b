"""Bench of reader and prefetch FIFO: weights, vectors and host reads of one channel."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from hw.interfaces import ChunkCommand, ReaderRecord
from hw.isa import AccessKind, Format
from sim.bench import bench_args
from sim.streams import Sink, Source, start
from sim.tb.kv_reference import bench_config
from sim.tb.reader_memory import ChannelMemory

SUPERBLOCK = {Format.Q4_0: 9, Format.Q4_1: 5, Format.Q8_0: 17}


class HostReader:
    """Host reads beside the records; collects what comes back."""

    def __init__(self, dut, rng, stall):
        self.source = Source(dut, "host_read__command", layout=ChunkCommand, stall=stall, rng=rng)
        self.got = []
        dut.host_read__flush.value = 0
        cocotb.start_soon(self._collect(dut))

    async def _collect(self, dut):
        while True:
            await RisingEdge(dut.clk)
            if dut.host_read__valid.value:
                self.got.append(int(dut.host_read__data.value))


def random_records(rng, count, longest):
    """Weights and vectors anywhere in the channel, each far from the others; (record, beats of data, of scales)."""
    records = []
    for n in range(count):
        kind = rng.choice([AccessKind.WEIGHTS, AccessKind.WEIGHTS, AccessKind.VECTOR])
        form = rng.choice(list(Format))
        beats = rng.choice([0, 1, 2, 5, 128, 129, rng.randint(1, longest)])
        if kind == AccessKind.WEIGHTS and beats % SUPERBLOCK[form] == 1:
            beats += 1  # a superblock has data
        beat = (n << 12) + rng.randrange(300)
        scale = [kind == AccessKind.WEIGHTS and i % SUPERBLOCK[form] == 0 for i in range(beats)]
        records.append(({"kind": kind, "format": form, "beats": beats, "beat": beat}, scale))
    return records


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def streams_and_host_reads(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    memory = ChannelMemory(dut, rng, credits=config.fifo_beats, stall=args["memory_stall"])
    source = Source(dut, "records", layout=ReaderRecord(config), stall=args["source_stall"], rng=rng)
    data = Sink(dut, "data", stall=args["sink_stall"], rng=rng, after_valid=args["after_valid"])
    scales = Sink(dut, "scales", stall=args["sink_stall"], rng=rng)
    host = HostReader(dut, rng, 0.9)
    memory.bounded = args["bounded"]
    await start(dut, bounded=args["bounded"])

    records = random_records(rng, 60, 400)
    reads = [{"beat": rng.randrange(1 << 15) * 128 + (1 << 20), "last": rng.choice([0, 3, 127])} for _ in range(20)]
    source.send(*(record for record, _ in records))
    host.source.send(*reads)
    await data.wait(sum(scale.count(False) for _, scale in records))
    await scales.wait(sum(scale.count(True) for _, scale in records))
    await host.source.drain()
    await ClockCycles(dut.clk, 400)
    want_data, want_scales = [], []
    for record, scale in records:
        for n, is_scale in enumerate(scale):
            (want_scales if is_scale else want_data).append(memory.beats[record["beat"] + n])
    assert data.items == want_data
    assert scales.items == want_scales
    assert host.got == [memory.beats[r["beat"] + n] for r in reads for n in range(r["last"] + 1)]
    assert not memory.written
    assert memory.credits == config.fifo_beats, "credits lost"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def latency_and_rate(dut):
    """Chunks of two beats go out one a clock; a beat is visible in the clock after it comes."""
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    memory = ChannelMemory(dut, rng, credits=config.fifo_beats, latency=(4, 4))
    source = Source(dut, "records", layout=ReaderRecord(config))
    taken = Sink(dut, "records", stall=None)
    data = Sink(dut, "data")
    await start(dut)
    source.send(*({"kind": AccessKind.VECTOR, "beats": 2, "beat": n * 64} for n in range(20)))
    await data.wait(40)
    clocks = [clock for clock, _, _ in memory.chunks]
    assert clocks == list(range(clocks[0], clocks[0] + 20))
    assert clocks[0] - taken.clocks[0] == 7
    # The model sets valid after edge n, the port is sampled high at edge n + 1, the output at edge n + 2.
    assert data.clocks[0] - memory.returned[0] == 2
    assert data.clocks == list(range(data.clocks[0], data.clocks[0] + 40))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def credits_hold_when_the_slice_stops(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    memory = ChannelMemory(dut, rng, credits=config.fifo_beats)
    source = Source(dut, "records", layout=ReaderRecord(config))
    host = HostReader(dut, rng, 0)
    dut.data__ready.value = 0
    dut.scales__ready.value = 0
    await start(dut)
    source.send({"kind": AccessKind.WEIGHTS, "format": Format.Q4_1, "beats": 1000, "beat": 17})
    await ClockCycles(dut.clk, 2000)
    assert len(memory.returned) == config.fifo_beats
    data, scales = Sink(dut, "data", stall=0.5, rng=rng), Sink(dut, "scales", stall=0.5, rng=rng)
    await data.wait(800)
    await scales.wait(200)
    # Credits of host reads come back by themselves.
    host.source.send(*({"beat": n << 7, "last": 127} for n in range(4)))
    await ClockCycles(dut.clk, 700)
    assert len(host.got) == 512
