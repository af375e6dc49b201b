"""Bench of the sequencer: random programs against a plain expansion of them, faults, watchdog, cancelled runs, rate."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from firmware.program import (
    Program,
    access,
    execute_end,
    execute_loop,
    execute_next,
    slice_of,
    slice_record,
    vector_of,
    vector_record,
    walk,
    words_of,
)
from hw.config import preset
from hw.interfaces import ReaderRecord, SliceDispatch
from hw.isa import (
    PROGRAM_DEPTH,
    AccessKind,
    AccessRecord,
    Condition,
    ExecuteKind,
    ExecuteRecord,
    Format,
    Index,
    SliceKind,
    SliceRecord,
    VectorKind,
    VectorRecord,
)
from hw.sequencer.control import ACCESS_WORDS, EXECUTE_WORDS, ErrorInfo, Fault, ProgramWrite, RunSettings, Wait
from hw.slice.issue import Status
from sim.bench import bench_args
from sim.streams import Sink, pack, start, unpack
from sim.system.faults import patched

SLACK = 20
"""Clocks that a run may take beside its records."""


def config():
    return preset("tiny").override(channels=bench_args()["channels"])


def plain(const):
    """A constant of a struct layout as a dict of integers."""
    return unpack(const.shape(), const.as_bits())


class Expected:
    """What a run must send, from the program and the tokens that the vector unit will find."""

    def __init__(self, program, run, found, channels):
        self.records, self.slices, self.vectors, self.tokens = [], [], [], []
        token = run["token"]
        number = run["position"]["slot"] * channels + run["position"]["channel"]
        for step in range(run["steps"]):
            position = {"slot": number // channels, "channel": number % channels}
            for record, layer in walk(program.access, run["head"]):
                factor = {Index.NONE: 0, Index.LAYER: layer, Index.TOKEN: token, Index.POSITION: number}[record.index]
                self.records.append({
                    "kind": record.kind.value, "format": record.format.value, "head": record.head,
                    "beats": record.beats, "beat": (record.base + record.stride * factor) % 2**27,
                    "position": position})
            for record, _ in walk(program.execute, run["head"]):
                if record.kind is ExecuteKind.SLICE:
                    self.slices.append({"record": plain(slice_of(record)), "position": position})
                else:
                    self.vectors.append(plain(vector_of(record)))
            number += 1
            if run["head"]:
                token = found[step]
                self.tokens.append(token)
                if run["stop_enable"] and token == run["stop_token"]:
                    return


def random_program(rng):
    """A program with two loops of a few records; the token is awaited once, before other records that use it."""
    def access_record(indices, condition=None, **fields):
        return access(
            AccessKind(rng.randint(1, 5)), index=rng.choice(indices),
            condition=condition or rng.choice(list(Condition)), format=rng.choice(list(Format)),
            head=rng.randrange(63), beats=rng.randrange(2**24), base=rng.randrange(2**25),
            stride=rng.randrange(2**4), **fields)  # the last beat is inside 2**26, whatever the token

    def execute_record(kinds=tuple(kind for kind in VectorKind if kind is not VectorKind.HEAD)):
        condition = rng.choice(list(Condition))
        if rng.random() < 0.5:
            return slice_record(SliceKind(rng.randrange(4)), condition, rows=rng.randrange(2**20),
                                blocks=rng.randrange(2**11), take_fence=rng.randrange(2), head=rng.randrange(63))
        return vector_record(rng.choice(kinds), condition, count=rng.randrange(2**20), slot=rng.randrange(2))

    before = [Index.NONE, Index.POSITION]
    rows = [access_record(before) for _ in range(rng.randrange(3))]
    rows.append(access_record([Index.TOKEN], Condition.ALWAYS, wait_token=1))
    todo = [execute_record() for _ in range(rng.randrange(3))]
    for _ in range(2):
        count = rng.randint(1, 4)
        rows += [access(AccessKind.LOOP, beats=count), *(access_record(list(Index)) for _ in range(rng.randrange(4))),
                 access(AccessKind.NEXT), access_record(list(Index))]
        todo += [execute_loop(count), *(execute_record() for _ in range(rng.randrange(4))), execute_next()]
    todo += [vector_record(VectorKind.HEAD, Condition.WITH_HEAD, count=9), execute_record(), execute_end()]
    return Program((*rows, access(AccessKind.END)), tuple(todo))


class VectorUnit:
    """Takes vector records at random times; each keeps it busy; HEAD ends with the next of ``found``."""

    def __init__(self, dut, rng, ready_to_find):
        self.dut, self.rng, self.ready_to_find = dut, rng, ready_to_find
        self.held, self.found = [], []
        cocotb.start_soon(self.run())

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            assert not (self.held and dut.tokens__valid.value), "token passed on while the vector unit is busy"
            if dut.vectors__valid.value and dut.vectors__ready.value:
                self.held.append(unpack(VectorRecord, int(dut.vectors__payload.value))["kind"])
            dut.token_valid.value = 0
            if self.held and self.rng.random() < 0.2:
                if self.held[0] != VectorKind.HEAD.value:
                    self.held.pop(0)
                elif self.ready_to_find():
                    self.held.pop(0)
                    dut.token_valid.value = 1
                    dut.token.value = self.found.pop(0)
            dut.vector_idle.value = not self.held


STREAMS = ("records", "slices", "vectors", "tokens")


class Bench:
    """Programs, runs and sinks of a sequencer."""

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.config = config()
        self.channels = self.config.channels
        self.settings = RunSettings(self.config)
        self.sinks = {}
        self.counted = 0  # clocks with ``counting`` since the last start
        self.found = 0  # clocks from the last start to the last token

    async def count(self):
        clocks = 0
        while True:
            await RisingEdge(self.dut.clk)
            clocks += 1
            self.counted += int(self.dut.counting.value)
            if self.dut.start.value and not self.dut.busy.value:
                clocks = self.counted = 0
            if self.dut.token_valid.value:
                self.found = clocks

    def watch(self, stall):
        """Sinks on all streams; ``stall`` None leaves their ready alone."""
        layouts = (ReaderRecord(self.config), SliceDispatch(self.config), VectorRecord, None)
        self.sinks = {name: Sink(self.dut, name, layout=layout, stall=stall, rng=self.rng)
                      for name, layout in zip(STREAMS, layouts, strict=True)}

    async def begin(self):
        quiet = ("settings", "start", "cancel", "program_valid", "program", "token_valid", "token")
        quiet += ("left", "table_fault", "table_channel", "watchdog", *(f"status__{n}" for n in range(self.channels)))
        quiet += ("logits_fault",)
        await start(self.dut, kv_heads=63, vector_idle=1, slices_idle=1, ready=1, **dict.fromkeys(quiet, 0))

    async def load(self, access_words, execute_words):
        for execute, words in ((0, access_words), (1, execute_words)):
            for word, data in enumerate(words):
                self.dut.program_valid.value = 1
                self.dut.program.value = pack(ProgramWrite, {"execute": execute, "word": word, "data": data})
                await RisingEdge(self.dut.clk)
        self.dut.program_valid.value = 0

    async def load_program(self, program):
        await self.load(words_of(program.access, ACCESS_WORDS), words_of(program.execute, EXECUTE_WORDS))

    async def pulse(self, name, clocks=1):
        getattr(self.dut, name).value = 1
        for _ in range(clocks):
            await RisingEdge(self.dut.clk)
        getattr(self.dut, name).value = 0
        await RisingEdge(self.dut.clk)

    def error(self):
        """The error but for what is zero."""
        return {name: value for name, value in unpack(ErrorInfo, int(self.dut.error.value)).items() if value}

    async def run(self, run, cancel=None, limit=20_000):
        """Start *run* and wait for its end; returns ("done" or "failed", clocks), or ("cancelled", clocks)."""
        dut = self.dut
        dut.settings.value = pack(self.settings, run)
        dut.start.value = 1
        await RisingEdge(dut.clk)
        dut.start.value = 0
        dut.settings.value = self.rng.getrandbits(self.settings.size)
        for clock in range(limit):
            if clock == cancel:
                dut.cancel.value = 1
                await RisingEdge(dut.clk)
                dut.cancel.value = 0
                for _ in range(4):
                    await RisingEdge(dut.clk)
                return "cancelled", clock
            await RisingEdge(dut.clk)
            if dut.done.value or dut.failed.value:
                outcome = "done" if dut.done.value else "failed"
                await RisingEdge(dut.clk)
                assert not dut.busy.value
                return outcome, clock
        raise AssertionError(f"no end after {limit} clocks")

    def clear(self):
        for sink in self.sinks.values():
            sink.items.clear()

    async def drained(self):
        for _ in range(200):
            await RisingEdge(self.dut.clk)

    def check(self, expected):
        for name, sink in self.sinks.items():
            want = getattr(expected, name)
            assert sink.items == want, f"{name}: {first_difference(sink.items, want)}"


def first_difference(got, want):
    for n, (a, b) in enumerate(zip(got, want, strict=False)):
        if a != b:
            return f"item {n} is {a}, not {b}"
    return f"{len(got)} items, not {len(want)}"


def random_run(rng, channels, head):
    found = [rng.randrange(2**20) for _ in range(rng.randint(1, 5))] if head else []
    return found, {
        "token": rng.randrange(2**20), "position": {"slot": rng.randrange(60), "channel": rng.randrange(channels)},
        "steps": len(found) or 1, "head": int(head), "stop_enable": rng.randrange(2),
        "stop_token": rng.choice(found or [0])}


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def random_programs(dut):
    """Several programs, several runs each: every stream carries what a plain expansion says."""
    args = bench_args()
    rng = random.Random(args["seed"])
    bench = Bench(dut, rng)
    bench.watch(args["stall"])
    done = 0

    def ready_to_find():
        steps = len(run_found) - len(unit.found)
        return len(bench.sinks["records"].items) >= (steps + 1) * per_step

    unit = VectorUnit(dut, rng, ready_to_find)
    cocotb.start_soon(bench.count())
    await bench.begin()
    for _ in range(args["programs"]):
        program = random_program(rng)
        await bench.load_program(program)
        for head in (True, False, True):
            run_found, run = random_run(rng, bench.channels, head)
            per_step = sum(1 for _ in walk(program.access, head))
            expected = Expected(program, run, run_found, bench.channels)
            unit.found = list(run_found)
            bench.clear()
            outcome, _ = await bench.run(run)
            assert outcome == "done"
            await bench.drained()
            bench.check(expected)
            assert not head or bench.counted == bench.found
            done += 1
    assert done == 3 * args["programs"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def faults(dut):
    """Each fault is reported with its engine and record, and the next run is good."""
    rng = random.Random(bench_args()["seed"])
    bench = Bench(dut, rng)
    bench.watch(0.3)
    await bench.begin()
    end, execute_ends = access(AccessKind.END), execute_end()
    table = access(AccessKind.TABLE, beats=1)
    bad_condition = patched(AccessRecord, table, "condition", 3)
    bad_kind = ExecuteRecord.from_bits(6)
    bypass = slice_record(SliceKind.BYPASS)

    def access_with(name, value):
        return patched(AccessRecord, access(AccessKind.WEIGHTS, beats=1), name, value)

    def execute_with(layout, record, name, value):
        return patched(layout, record, name, value, ExecuteRecord["payload"].offset)

    load = vector_record(VectorKind.LOAD_NORM)
    size = bench.config.channel_beats
    cases = [
        ((table, access_with("kind", 8), end), (execute_ends,), (Fault.OPCODE, 0, 1)),
        ((table, access_with("format", 3), end), (execute_ends,), (Fault.FIELD, 0, 1)),
        ((access(AccessKind.VECTOR, base=size - 2, beats=2), access(AccessKind.VECTOR, base=size - 2, beats=3), end),
         (execute_ends,), (Fault.ADDRESS, 0, 1)),
        ((access(AccessKind.VECTOR, base=size - 40, beats=20, index=Index.POSITION, stride=2**23), end),
         (execute_ends,), (Fault.ADDRESS, 0, 0)),
        ((access(AccessKind.KV_V, head=62), access(AccessKind.KV_K, head=63), end), (execute_ends,),
         (Fault.FIELD, 0, 1)),
        ((end,), (slice_record(SliceKind.KEYS, head=62), slice_record(SliceKind.KEYS, head=63), execute_ends),
         (Fault.FIELD, 1, 1)),
        ((end,), (bypass, execute_with(SliceRecord, bypass, "kind", 5), execute_ends), (Fault.OPCODE, 1, 1)),
        ((end,), (execute_with(SliceRecord, slice_record(SliceKind.MATRIX), "format", 3), execute_ends),
         (Fault.FIELD, 1, 0)),
        ((end,), (load, execute_with(VectorRecord, load, "kind", 12), execute_ends), (Fault.OPCODE, 1, 1)),
        ((end,), (execute_with(VectorRecord, load, "scale", 3), execute_ends), (Fault.FIELD, 1, 0)),
        ((table, bad_condition, end), (execute_ends,), (Fault.CONDITION, 0, 1)),
        ((end,), (bypass, bypass, bad_kind, execute_ends), (Fault.OPCODE, 1, 2)),
        ((access(AccessKind.LOOP, beats=0), access(AccessKind.NEXT), end), (execute_ends,), (Fault.LOOP, 0, 0)),
        ((table, access(AccessKind.NEXT), end), (execute_ends,), (Fault.LOOP, 0, 1)),
        ((end,), (execute_loop(2), execute_loop(2), execute_next(), execute_ends), (Fault.LOOP, 1, 1)),
        ((end,), (execute_loop(2), execute_ends), (Fault.LOOP, 1, 1)),
        ((table,) * PROGRAM_DEPTH, (execute_ends,), (Fault.OVERRUN, 0, PROGRAM_DEPTH - 1)),
    ]
    good = Program((table, end), (bypass, vector_record(VectorKind.LOAD_NORM), execute_ends))
    run = {"token": 1, "position": {"slot": 3, "channel": 0}, "steps": 1}
    for number, (rows, todo, (fault, engine, record)) in enumerate(cases):
        await bench.load(words_of(rows, ACCESS_WORDS), words_of(todo, EXECUTE_WORDS))
        assert (await bench.run(run))[0] == "failed", f"case {number}"
        want = {"fault": fault.value, "execute": engine, "record": record}
        assert bench.error() == {name: value for name, value in want.items() if value}, f"case {number}"
        await bench.drained()
        await bench.load_program(good)
        assert (await bench.run(run))[0] == "failed" and bench.error()["fault"] == fault.value, "only a cancel helps"
        await bench.pulse("cancel")
        bench.clear()
        assert (await bench.run(run))[0] == "done"
        assert not bench.error()
        await bench.drained()
        bench.check(Expected(good, {**run, "head": 0}, [], bench.channels))
    for wrong in ({"steps": 0}, {"steps": 2, "head": 0}, {"beyond": 1}):
        assert (await bench.run({**run, **wrong}))[0] == "failed"
        assert bench.error() == {"fault": Fault.SETTINGS.value}
        assert (await bench.run(run))[0] == "done"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def stuck_runs(dut):
    """A run in which nothing moves ends, and says why; nothing else ends one, however long it takes."""
    bench = Bench(dut, random.Random(bench_args()["seed"]))
    bench.watch(0.3)
    await bench.begin()
    end = access(AccessKind.END)
    await bench.load_program(Program((end,), (slice_record(SliceKind.BYPASS), execute_end())))
    run = {"token": 1, "position": {"slot": 3, "channel": 0}, "steps": 1}
    last = bench.channels - 1

    def statuses(waiting, others=0):
        """The last slice waits; *others* are busy, or wait for what *others* names."""
        fields = {"busy": 1, f"waiting_{others}": 1} if isinstance(others, str) else {"busy": others}
        for n in range(bench.channels):
            here = {"busy": 1, f"waiting_{waiting}": 1} if n == last else fields
            getattr(dut, f"status__{n}").value = pack(Status, here)

    async def idle_after(clocks):
        await ClockCycles(dut.clk, clocks)
        dut.vector_idle.value = 1

    async def lower_after(clocks, limit):
        await ClockCycles(dut.clk, clocks)
        dut.watchdog.value = limit

    async def stuck(waiting, others=0, limit=300, **levels):
        dut.slices_idle.value, dut.watchdog.value = 0, limit
        for name, level in levels.items():
            getattr(dut, name).value = level
        statuses(waiting, others)
        outcome, clocks = await bench.run(run, cancel=1000)
        error = bench.error()
        await bench.pulse("cancel")
        dut.slices_idle.value = dut.vector_idle.value = dut.ready.value = 1
        return outcome, clocks, error

    fence = {"fault": Fault.FENCE.value, "wait": Wait.OPERAND.value, "channel": last}
    outcome, clocks, error = await stuck("operand")
    assert (outcome, {"channel": 0, **error}) == ("failed", fence | {"channel": last}) and 64 <= clocks < 150
    outcome, clocks, error = await stuck("operand", vector_idle=0)
    assert (outcome, {"channel": 0, **error}) == ("failed", fence) and 300 <= clocks < 340
    cocotb.start_soon(idle_after(150))
    outcome, clocks, error = await stuck("operand", limit=0, vector_idle=0)
    assert (outcome, {"channel": 0, **error}) == ("failed", fence) and 214 <= clocks < 240
    for wait in (Wait.MAXIMUM, Wait.RESULTS, Wait.DATA):
        outcome, clocks, error = await stuck(wait.name.lower())
        want = {"fault": Fault.WATCHDOG.value, "wait": wait.value, "channel": last}
        assert (outcome, {"channel": 0, **error}) == ("failed", want)
        assert 300 <= clocks < 340
    outcome, clocks, error = await stuck("operand", others="data")
    assert (outcome, {"channel": 0, **error}) == ("failed", fence), "a fence is named before other waits"
    if bench.channels > 1:
        assert (await stuck("operand", others=1))[0] == "cancelled"
        outcome, clocks, error = await stuck("results", others="data")
        assert (outcome, error) == ("failed", {"fault": Fault.WATCHDOG.value, "wait": Wait.DATA.value}), "the first"
    cocotb.start_soon(lower_after(500, 300))
    outcome, clocks, error = await stuck("data", limit=1 << 20)
    assert outcome == "failed" and error["fault"] == Fault.WATCHDOG.value and 500 <= clocks < 510
    assert (await stuck("data", limit=0))[0] == "cancelled"
    assert (await stuck("data", ready=0))[0] == "cancelled"
    statuses("data")
    assert (await bench.run(run))[0] == "done"

    dut.table_channel.value = last
    dut.slices_idle.value = dut.table_fault.value = 0
    cocotb.start_soon(bench.pulse("table_fault", 10))
    assert (await bench.run(run))[0] == "failed"
    assert {"channel": 0, **bench.error()} == {"fault": Fault.TABLE.value, "channel": last}
    dut.slices_idle.value = 1
    await bench.drained()
    await bench.pulse("cancel")
    dut.left.value = 1
    assert (await bench.run(run))[0] == "failed" and bench.error() == {"fault": Fault.LEFTOVER.value}
    await bench.pulse("cancel")
    dut.left.value = 0
    assert (await bench.run(run))[0] == "done" and not bench.error()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cancelled_runs(dut):
    """A cancel at any time, also beside a fault, leaves a sequencer whose next run is right."""
    rng = random.Random(bench_args()["seed"])
    bench = Bench(dut, rng)
    await bench.begin()
    rows = [access(AccessKind.TABLE, beats=n) for n in range(20)]
    todo = [slice_record(SliceKind.BYPASS, rows=n) for n in range(20)]
    program = Program((access(AccessKind.LOOP, beats=3), *rows, access(AccessKind.NEXT), access(AccessKind.END)),
                      (execute_loop(3), *todo, execute_next(), execute_end()))
    await bench.load_program(program)
    run = {"token": 1, "position": {"slot": 3, "channel": bench.channels - 1}, "steps": 1, "head": 0}

    async def fault_after(clocks):
        await ClockCycles(dut.clk, clocks)
        await bench.pulse("table_fault")

    for number in range(6):
        for name in STREAMS:
            getattr(dut, f"{name}__ready").value = rng.randrange(2)
        clock = rng.randrange(60)
        if number % 2:
            cocotb.start_soon(fault_after(clock + 1))
        assert (await bench.run(run, cancel=clock))[0] == "cancelled"
        assert not dut.busy.value
        assert not any(getattr(dut, f"{name}__valid").value for name in STREAMS)
    for name in STREAMS:
        getattr(dut, f"{name}__ready").value = 1
    bench.watch(None)
    outcome, clocks = await bench.run(run)
    assert outcome == "done"
    bench.check(Expected(program, run, [], bench.channels))
    assert clocks <= 4 * 3 * len(rows) + SLACK, f"{clocks} clocks for {3 * len(rows)} access records"
