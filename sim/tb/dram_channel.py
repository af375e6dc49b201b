"""Bench of controller and device model with random traffic.

The bench is the memory: a dictionary that answers the device's reads and takes its writes.
"""

import random
from collections import deque

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from hw.dram.causes import Cause
from hw.interfaces import ChunkCommand
from sim.bench import bench_args
from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming
from sim.streams import pack, start
from sim.tb.dram_gaps import Gaps

IDLE_INPUTS = {"read__command__valid": 0, "read__credit": 0, "read__flush": 0, "write__beats__valid": 0,
               "store__read_data": 0, "read__command__payload": 0, "write__beats__payload": 0}


def contents(beat):
    """What a beat holds before it is written."""
    return (beat * 0x9E3779B97F4A7C15F39CC0605CEDC835 | 1) % 2**256


class Memory:
    """Store of the device: data in the clock after a read comes due."""

    def __init__(self, dut):
        self.dut, self.beats = dut, {}
        cocotb.start_soon(self._run())

    async def _run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.store__read_valid.value:
                beat = int(dut.store__read_beat.value)
                dut.store__read_data.value = self.beats.get(beat, contents(beat))
            if dut.store__write_valid.value:
                self.beats[int(dut.store__write_beat.value)] = int(dut.store__write_data.value)


class Traffic:
    """Reads with credits and writes, both random; checks order, data, credits and idle."""

    def __init__(self, dut, args):
        self.dut, self.args, self.rng = dut, args, random.Random(args["seed"])
        self.now = {}  # contents after every accepted write
        self.pending = set()  # written since idle was last seen
        self.expected, self.outstanding, self.owed = deque(), 0, 0
        self.reads = self.writes = 0
        self.last_progress = 0
        self.causes = dict.fromkeys(Cause, 0)
        self.pulses = {"read_beat": 0, "write_beat": 0, "refreshed": 0}

    def place(self):
        """A beat address: few pairs and rows, so that hits, conflicts and neighbours all occur."""
        rng = self.rng
        return (rng.choice(self.rows) << 10) | (rng.choice(self.pairs) << 7) | rng.randrange(128)

    def chunk(self):
        beat = self.place()
        longest = 128 - beat % 128
        return beat, min(self.rng.choice((1, 2, 3, 8, 31, 64, 128)), longest)

    async def run(self, clocks):
        dut, rng, args = self.dut, self.rng, self.args
        read, write = None, None
        stalled = 0
        for clock in range(clocks):
            if clock % args["phase_clocks"] == 0:
                self.rows = [rng.randrange(2**args["row_bits"]) for _ in range(rng.choice((1, 2, 6)))]
                self.pairs = rng.sample(range(8), rng.choice((1, 2, 8)))
                self.read_rate, self.write_rate = rng.choice((0, 0.1, 1)), rng.choice((0, 0.02, 0.3, 1))
                self.credit_rate = rng.choice((0.3, 1, 1))
                self.flush_rate = rng.choice((0, 0.02))
                stalled = rng.choice((0, 0, 0, 600))
            await RisingEdge(dut.clk)
            self.observe(clock)
            if read and dut.read__command__ready.value:
                self.expected.extend(self.now.get(beat, contents(beat)) for beat in range(read[0], sum(read)))
                read = None
                self.last_progress = clock
            if write and dut.write__beats__ready.value:
                self.now[write[0]] = write[1]
                self.writes += 1
                write = None
                self.last_progress = clock
            if read is None and rng.random() < self.read_rate:
                read = self.chunk()
            if read and not self.pending.isdisjoint(range(read[0], sum(read))):
                read = None  # the reader's part: written and not yet idle
            if write is None and rng.random() < self.write_rate:
                write = (self.place(), rng.getrandbits(256))
                if read and read[0] <= write[0] < sum(read):
                    write = None  # which of the two comes first would not be known
                else:
                    self.pending.add(write[0])
            stalled = max(stalled - 1, 0)
            credit = min(self.owed, rng.randint(1, 2)) if not stalled and rng.random() < self.credit_rate else 0
            self.owed -= credit
            self.outstanding -= credit
            self.drive(read, write, credit, rng.random() < self.flush_rate)
            assert clock - self.last_progress < 6000 or not (read or write), f"no progress since {self.last_progress}"
        await self.drain()

    def drive(self, read, write, credit, flush):
        dut = self.dut
        dut.read__command__valid.value = read is not None
        if read:
            dut.read__command__payload.value = pack(ChunkCommand, {"beat": read[0], "last": read[1] - 1})
        dut.write__beats__valid.value = write is not None
        if write:
            dut.write__beats__payload.value = write[1] << 27 | write[0]
        dut.read__credit.value = credit
        dut.read__flush.value = flush

    def observe(self, clock):
        dut = self.dut
        if dut.read__valid.value:
            assert self.expected, f"clock {clock}: a beat that nobody asked for"
            wanted = self.expected.popleft()
            assert int(dut.read__data.value) == wanted, f"clock {clock}: beat {self.reads} has the wrong data"
            self.reads += 1
            self.owed += 1
            self.outstanding += 1
            assert self.outstanding <= self.args["fifo_beats"], "more beats than credits"
            self.last_progress = clock
        if dut.write__idle.value and not dut.write__beats__valid.value:
            self.pending.clear()
        self.causes[Cause(int(dut.cause.value))] += 1
        for pulse in self.pulses:
            self.pulses[pulse] += int(getattr(dut, pulse).value)

    async def drain(self):
        """Give all credits back, ask for nothing, and wait until everything has come."""
        for clock in range(8000):
            credit = min(self.owed, 2)
            self.owed -= credit
            self.outstanding -= credit
            self.drive(None, None, credit, True)
            await RisingEdge(self.dut.clk)
            self.observe(clock)
            if not self.expected and self.dut.write__idle.value:
                break
        else:
            raise AssertionError(f"{len(self.expected)} beats never came")
        self.drive(None, None, 0, False)
        for clock in range(40):
            await RisingEdge(self.dut.clk)
            self.observe(clock)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_traffic(dut):
    """No violation, every beat right, counters equal to the device's, main rules reached as tightly as phases allow."""
    args = bench_args()
    timing = DeviceTiming(**args["timing"])
    memory = Memory(dut)
    traffic = Traffic(dut, args)
    gaps = Gaps(dut, timing)
    await start(dut, **IDLE_INPUTS)
    await traffic.run(args["clocks"])
    broken = int(dut.broken.value)
    assert not broken, f"seed {args['seed']}: {[rule.jedec for rule in Rule if broken >> rule & 1]}"
    await ClockCycles(dut.clk, 2)
    assert memory.beats == traffic.now
    counts = {name: int(getattr(dut, name).value) for name in ("reads", "writes", "refreshes")}
    pulses = traffic.pulses
    assert counts == {"reads": pulses["read_beat"], "writes": pulses["write_beat"], "refreshes": pulses["refreshed"]}
    assert traffic.causes[Cause.DATA] == counts["reads"] + counts["writes"]
    assert (traffic.reads, traffic.writes) == (counts["reads"], counts["writes"])
    dut._log.info("causes %s gaps %s", {c.name: n for c, n in traffic.causes.items()}, gaps.least)
    if args["tight"]:
        assert gaps.least == gaps.tightest()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def hasty(dut):
    """The device names every rule that a controller breaks which was built with shorter times."""
    args = bench_args()
    Memory(dut)
    traffic = Traffic(dut, args)
    await start(dut, **IDLE_INPUTS)
    await traffic.run(args["clocks"])
    broken = int(dut.broken.value)
    differ = {rule.name for rule in Rule if broken >> rule & 1} ^ set(args["rules"])
    assert not differ, f"broken but not expected, or the other way round: {sorted(differ)}"


async def write_and_wait(dut, beat, limit):
    """Write one beat; clocks from its acceptance until ``idle``."""
    dut.write__beats__valid.value = 1
    dut.write__beats__payload.value = beat
    while True:
        await RisingEdge(dut.clk)
        if dut.write__beats__ready.value:
            break
    dut.write__beats__valid.value = 0
    for clock in range(limit):
        await RisingEdge(dut.clk)
        if clock and dut.write__idle.value:
            return clock
    raise AssertionError(f"not idle after {limit} clocks")


async def read_rows(dut):
    """Sequential rows without end, every credit given back at once."""
    row = 0
    dut.read__command__valid.value = 1
    while True:
        dut.read__command__payload.value = pack(ChunkCommand, {"beat": row << 7, "last": 127})
        await RisingEdge(dut.clk)
        dut.read__credit.value = int(dut.read__valid.value)
        if dut.read__command__ready.value:
            row += 1


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def writes_end(dut):
    """A lone write is drained: soon on flush or when nothing is read, after the timeout under a stream of reads."""
    limits = bench_args()["limits"]
    memory = Memory(dut)
    await start(dut, **IDLE_INPUTS)
    await ClockCycles(dut.clk, 200)
    quiet = await write_and_wait(dut, 1 << 25, limits["quiet"])
    dut.read__flush.value = 1
    flushed = await write_and_wait(dut, 3 << 7, limits["flush"])
    dut.read__flush.value = 0
    reading = cocotb.start_soon(read_rows(dut))
    await ClockCycles(dut.clk, 3000)
    busy = await write_and_wait(dut, 5 << 10, limits["busy"])
    reading.cancel()
    dut._log.info("clocks to idle: quiet %d, flush %d, under reads %d", quiet, flushed, busy)
    assert busy > limits["flush"]
    await ClockCycles(dut.clk, 20)
    assert set(memory.beats) == {1 << 25, 3 << 7, 5 << 10}
    assert not int(dut.broken.value)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def reset_in_traffic(dut):
    """After a reset in the middle of traffic everything starts again; times in the tables are of the run before."""
    args = bench_args()
    Memory(dut)
    await start(dut, **IDLE_INPUTS)
    for _ in range(3):
        reading = cocotb.start_soon(read_rows(dut))
        await ClockCycles(dut.clk, args["clocks"])
        reading.cancel()
        assert not int(dut.broken.value)
        assert int(dut.reads.value) > args["clocks"] * 0.9
        dut.read__credit.value = 0
        dut.read__command__valid.value = 0
        dut.rst.value = 1
        await ClockCycles(dut.clk, 200)
        dut.rst.value = 0
