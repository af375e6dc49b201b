"""What the slice benches share: drivers of one slice and its operand bus."""

from cocotb import start_soon
from cocotb.triggers import RisingEdge

from hw.interfaces import Geometry, MaximumItem, PartialItem, SliceDispatch, accumulator_bits
from sim.bench import bench_args
from sim.streams import Sink, Source, pack, signed, start
from sim.tb.slice_configs import CONFIGS

__all__ = ["CONFIG", "OperandDriver", "SliceBench", "Taken"]

CONFIG = CONFIGS[bench_args()["config"]]
"""Sizes of the slice in this simulator."""


class OperandDriver:
    """Drives the operand bus, one block a call, with idle clocks drawn from *rng*."""

    def __init__(self, dut, *, stall, rng):
        self._dut, self._stall, self._rng = dut, stall, rng
        dut.operand__valid.value = 0

    async def send(self, kind, region, blocks, addresses, *, rows=None, bits=CONFIG.mantissa_bits):
        """Send flat *blocks* (n, 32) to *addresses*; the last one has ``last``."""
        dut = self._dut
        for n, address in enumerate(addresses):
            while self._rng.random() < self._stall:
                await RisingEdge(dut.clk)
            dut.operand__kind.value = kind.value
            dut.operand__region.value = region.value
            dut.operand__row.value = 0 if rows is None else int(rows[n])
            dut.operand__address.value = int(address)
            dut.operand__last.value = n == len(addresses) - 1
            dut.operand__exponent.value = int(blocks.exponents[n])
            dut.operand__sum.value = int(blocks.sums[n]) & ((1 << CONFIG.mantissa_bits + 5) - 1)
            dut.operand__mantissas.value = sum(
                (int(value) & ((1 << bits) - 1)) << CONFIG.mantissa_bits * lane
                for lane, value in enumerate(blocks.mantissas[n]))
            dut.operand__valid.value = 1
            await RisingEdge(dut.clk)
            dut.operand__valid.value = 0


class Taken:
    """Clock numbers, from its creation on, in which stream *name* gave an item; a monitor."""

    def __init__(self, dut, name):
        self.clocks = []
        start_soon(self._run(dut.clk, getattr(dut, f"{name}__valid"), getattr(dut, f"{name}__ready")))

    async def _run(self, clk, valid, ready):
        clock = 0
        while True:
            await RisingEdge(clk)
            clock += 1
            if valid.value and ready.value:
                self.clocks.append(clock)


class SliceBench:
    """A slice with sources and sinks; *stall* is the share of idle clocks of each stream and of the operand bus."""

    def __init__(self, dut, rng, stall, after_valid=False):
        self.dut, self.rng = dut, rng
        self.data = Source(dut, "data", stall=stall, rng=rng)
        self.scales = Source(dut, "scales", stall=stall, rng=rng)
        self.dispatch = Source(dut, "dispatch", layout=SliceDispatch(CONFIG), stall=stall, rng=rng)
        self.results = Sink(dut, "results", stall=stall, rng=rng, after_valid=after_valid)
        self.vector = Sink(dut, "vector", stall=stall, rng=rng, after_valid=after_valid)
        self.maximum = Sink(dut, "maximum", layout=MaximumItem(CONFIG), stall=stall, rng=rng, after_valid=after_valid)
        self.partial = Sink(dut, "partial", layout=PartialItem(CONFIG), stall=stall, rng=rng, after_valid=after_valid)
        self.operand = OperandDriver(dut, stall=stall, rng=rng)

    @classmethod
    async def create(cls, dut, rng, stall, *, channel=0, geometry=None, after_valid=False):
        """Reset *dut* and drive it."""
        dut.merged_maximum__valid.value = 0
        for name in ("data", "scales", "dispatch"):
            getattr(dut, f"{name}__valid").value = 0
        dut.operand__valid.value = 0
        await start(dut, channel=channel, geometry=pack(Geometry(CONFIG), geometry or {"passes": 1, "head_blocks": 1}))
        return cls(dut, rng, stall, after_valid)

    def row_results(self, first=0):
        """Results from number *first* on, with their sign."""
        return [signed(bits, accumulator_bits(CONFIG)) for bits in self.results.items[first:]]
