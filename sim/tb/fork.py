"""Bench of the fork: every receiver gets every item once, in order, whatever the stalls."""

import random

import cocotb

from sim.bench import bench_args
from sim.streams import Sink, Source, start


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def all_receive_all(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    source = Source(dut, "i", stall=args["source_stall"], rng=rng)
    sinks = [Sink(dut, f"o__{n}", stall=stall, rng=rng, after_valid=n == 1 and stall > 0)
             for n, stall in enumerate(args["sink_stalls"])]
    await start(dut)
    sent = [rng.getrandbits(9) for _ in range(300)]
    source.send(*sent)
    for sink in sinks:
        await sink.wait(len(sent))
    assert all(sink.items == sent for sink in sinks)
    if not any(args["sink_stalls"]) and not args["source_stall"]:
        assert sinks[0].clocks[-1] - sinks[0].clocks[0] == len(sent) - 1, "one item a clock"
