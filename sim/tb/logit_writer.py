"""Bench of the logit writer: where beats go, and when they are in memory."""

import random

import cocotb
from cocotb.triggers import RisingEdge

from hw.interfaces import LogitBeat, write_signature
from hw.isa import ADDRESS_BITS
from sim.bench import bench_args
from sim.streams import Sink, Source, start
from sim.tb.kv_reference import bench_config

WRITE = write_signature().members["beats"].signature.members["payload"].shape


@cocotb.test(timeout_time=50, timeout_unit="us")
async def steps(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    channels = args["channels"]
    source = Source(dut, "logits", layout=LogitBeat, stall=args["stall"], rng=rng)
    sinks = [Sink(dut, f"write__{n}__beats", layout=WRITE, stall=args["stall"], rng=rng) for n in range(channels)]
    base = rng.getrandbits(ADDRESS_BITS - 4)
    await start(dut, base=base, **{f"write__{n}__idle": 0 for n in range(channels)})
    want = [[] for _ in range(channels)]
    for count in (1, channels, 3 * channels + 1):
        for j in range(count):
            beat = {"data": rng.getrandbits(256), "last": int(j == count - 1)}
            source.send(beat)
            want[j % channels].append({"beat": base + j // channels, "data": beat["data"]})
        await source.drain()
        for sink, beats in zip(sinks, want, strict=True):
            assert sink.items == beats
    await RisingEdge(dut.clk)
    assert not dut.idle.value and dut.flush.value
    for n in range(channels):
        assert not dut.idle.value
        getattr(dut, f"write__{n}__idle").value = 1
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        getattr(dut, f"write__{n}__idle").value = 0
        await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    assert dut.idle.value and not dut.flush.value, "idle does not depend on other writers"

    end = bench_config(args).channel_beats
    dut.base.value = end - 1
    beat = {"data": 5, "last": 0}
    assert not dut.fault.value
    source.send(*[beat] * (channels + 1))
    for _ in range(40):
        await RisingEdge(dut.clk)
    assert dut.fault.value and source.pending == 1, "the beat past the end is not taken"
    for sink, beats in zip(sinks, want, strict=True):
        assert sink.items == [*beats, {"beat": end - 1, "data": 5}]
