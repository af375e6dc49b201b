"""Bench of the gather: order over the channels under random stalls, groups only when complete."""

import random

import cocotb

from sim.bench import bench_args
from sim.streams import Sink, Source, start


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def keeps_order(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    channels, lanes, width = args["channels"], args["lanes"], args["width"]
    # Each channel stalls in its own way, one of them hardly ever ready.
    sources = [Source(dut, f"i__{c}", stall=rng.choice([0, 0.2, 0.7]) * args["stall"], rng=rng)
               for c in range(channels)]
    sink = Sink(dut, "o", stall=0.3 * args["stall"], rng=rng, after_valid=bool(args["stall"]))
    await start(dut)
    items = [rng.getrandbits(width) for _ in range(channels * 60)]
    for n, item in enumerate(items):
        sources[n % channels].send(item)
    groups = len(items) // lanes
    await sink.wait(groups)
    assert [group >> (width * n) & (1 << width) - 1 for group in sink.items for n in range(lanes)] == items
    if not args["stall"]:
        # A channel's source needs a clock to offer its next item only when it is asked for one every clock.
        assert channels == lanes or sink.clocks[-1] - sink.clocks[0] == groups - 1, "less than a group a clock"
