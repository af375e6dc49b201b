"""Bench of the short queue: order, stream rules, random stalls on both sides."""

import random

import cocotb

from sim.bench import bench_args
from sim.streams import Sink, Source, start


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def keeps_order(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    source = Source(dut, "i", stall=args["source_stall"], rng=rng)
    sink = Sink(dut, "o", stall=args["sink_stall"], rng=rng, after_valid=args["after_valid"])
    await start(dut)
    sent = [rng.getrandbits(args["width"]) for _ in range(500)]
    source.send(*sent)
    await sink.wait(len(sent))
    assert sink.items == sent
