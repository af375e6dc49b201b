"""The merge against NumPy's maximum and sum over channels."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from hw.config import BLOCK
from hw.interfaces import Geometry, MaximumItem, MergedItem, PartialItem
from sim.bench import bench_args
from sim.streams import Sink, Source, pack, signed, start, unpack
from sim.tb.merge_config import config

WIDEST = 2**39 - 1
LEAST = -(2**23 - 1)


def words(values, bits):
    """Signed numbers as a payload's unsigned fields."""
    return [int(value) & ((1 << bits) - 1) for value in values]


class Model:
    """Random items of every channel, head by head, and their merge."""

    def __init__(self, rng, cfg, geometry, heads):
        channels, group, blocks = cfg.channels, geometry["group"], geometry["head_blocks"]
        self.maxima = [[] for _ in range(channels)]
        self.partials = [[] for _ in range(channels)]
        self.merged_maxima, self.merged = [], []
        for _ in range(heads):
            exponents = rng.integers(0, 256, (channels, cfg.head_blocks))
            exponents[:, blocks:] = 0
            for _ in range(geometry["passes"]):
                scores = rng.choice([LEAST, -LEAST, 0, -1], (channels, cfg.v_kv))
                scores = np.where(rng.random(scores.shape) < 0.7, rng.integers(LEAST, -LEAST, scores.shape), scores)
                for items, score, exponent in zip(self.maxima, scores, exponents, strict=True):
                    items.append({"score": words(score, 24), "exponent": exponent.tolist()})
                self.merged_maxima.append({"score": words(scores.max(axis=0), 24),
                                           "exponent": exponents.max(axis=0).tolist()})
            largest = exponents.max(axis=0)
            for _ in range(group):
                self._item(rng.integers(0, WIDEST, (channels, 1)), 1, 0, cfg)
                for block in range(blocks):
                    for _ in range(BLOCK // cfg.lanes):
                        elements = rng.integers(-WIDEST, WIDEST, (channels, cfg.lanes), endpoint=True)
                        self._item(elements, 0, int(largest[block]), cfg)

    def _item(self, elements, is_sum, exponent, cfg):
        for channel, own in enumerate(elements):
            self.partials[channel].append({"is_sum": is_sum, "elements": words(own, 40)})
        total = words(elements.sum(axis=0), 46)
        self.merged.append({"is_sum": is_sum, "exponent": exponent, "elements": total + [0] * (cfg.lanes - len(total))})


async def monitor(dut, layout, into):
    while True:
        await RisingEdge(dut.clk)
        if dut.merged_maximum__valid.value:
            into.append(unpack(layout, int(dut.merged_maximum__item.value)))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(blocks=[1, 2, 4], group=[1, 5], stall=[0.0, 0.4, 0.8])
async def heads(dut, blocks, group, stall):
    """Several heads in flight: maxima of later heads join before the sums of earlier ones."""
    seed = bench_args()["seed"]
    cfg = config(bench_args()["channels"])
    rng, gaps = np.random.default_rng(seed), random.Random(seed)
    geometry = {"kv_heads": 5, "group": group, "passes": -(-group // cfg.v_kv), "head_blocks": blocks}
    model = Model(rng, cfg, geometry, heads=5)
    for channel in range(cfg.channels):
        getattr(dut, f"maximum__{channel}__valid").value = 0
        getattr(dut, f"partial__{channel}__valid").value = 0
    await start(dut, geometry=pack(Geometry(cfg), geometry))
    maxima = []
    cocotb.start_soon(monitor(dut, MaximumItem(cfg), maxima))
    sink = Sink(dut, "merged", layout=MergedItem(cfg), stall=stall, rng=gaps, after_valid=stall > 0.5)
    for channel in range(cfg.channels):
        Source(dut, f"maximum__{channel}", layout=MaximumItem(cfg), stall=stall, rng=gaps).send(*model.maxima[channel])
        partial = Source(dut, f"partial__{channel}", layout=PartialItem(cfg), stall=stall, rng=gaps)
        partial.send(*model.partials[channel])
    await sink.wait(len(model.merged), 90_000)
    await ClockCycles(dut.clk, 10)
    assert maxima == model.merged_maxima
    assert [fields(item) for item in sink.items] == [fields(item) for item in model.merged]
    if stall == 0.0:
        assert sink.clocks[-1] - sink.clocks[0] == len(model.merged) - 1, "not one item a clock"


def fields(item):
    return item["is_sum"], item["exponent"], [signed(value, 46) for value in item["elements"]]
