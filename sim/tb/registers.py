"""Bench of the register block through cocotbext-axi's AXI4-Lite master."""

import itertools
import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from hw.config import preset
from hw.host.register_map import COUNTERS, FieldKind, register_map
from hw.host.registers import CounterValues, VectorConstants
from hw.interfaces import Geometry
from hw.sequencer.control import ErrorInfo, Fault, ProgramWrite, RunSettings, Wait
from sim.bench import bench_args
from sim.streams import Source, pack, start, unpack

MAP = register_map()
INPUTS = ("busy", "aborting", "done", "failed", "error", "ready", "vector_error", "counters")


def pauses(rng):
    """Endless random pauses of the master's channels."""
    return (rng.random() < 0.4 for _ in itertools.count())


async def begin(dut, rng):
    """A reset block and its master."""
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axil_"), dut.clk, dut.rst)
    if bench_args()["stall"]:
        for interface in (master.write_if, master.read_if):
            for channel in ("aw_channel", "w_channel", "b_channel", "ar_channel", "r_channel"):
                if hasattr(interface, channel):
                    getattr(interface, channel).set_pause_generator(pauses(rng))
    await start(dut, **dict.fromkeys(INPUTS, 0))
    return master


async def read(master, name):
    """Fields of a register."""
    register = MAP[name]
    answer = await master.read(register.address, register.bits // 8)
    assert answer.resp == AxiResp.OKAY
    return register.unpack(int.from_bytes(answer.data, "little"))


async def write(master, name, **fields):
    answer = await master.write(MAP[name].address, MAP[name].pack(**fields).to_bytes(4, "little"))
    assert answer.resp == AxiResp.OKAY


def stored(register):
    return {name: f for name, f in register.fields.items() if f.kind is FieldKind.STORAGE}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def storage(dut):
    """Registers keep what is written, in their own bits, a byte at a time if asked to."""
    rng = random.Random(bench_args()["seed"])
    master = await begin(dut, rng)
    want = {}
    for name, register in MAP.registers.items():
        for field_name, field in stored(register).items():
            assert (await read(master, name))[field_name] == field.reset
            want.setdefault(name, {})[field_name] = rng.getrandbits(field.width)
        if name in want:
            await write(master, name, **want[name])
    for name in rng.sample(list(want), len(want)):
        got = await read(master, name)
        assert {f: got[f] for f in want[name]} == want[name], name
    register = MAP["epsilon"]
    await master.write(register.address + 2, b"\xa5")
    expected = want["epsilon"]["value"] & 0xFF00FFFF | 0xA50000
    assert (await read(master, "epsilon"))["value"] == expected

    cfg = preset("tiny")
    settings = unpack(RunSettings(cfg), int(dut.settings.value))
    assert settings["token"] == want["step_token"]["token"] and settings["steps"] == want["step_count"]["steps"]
    assert settings["position"]["slot"] == want["step_slot"]["slot"] % 2 ** cfg.max_slots.bit_length()
    assert settings["beyond"] == (want["step_slot"]["slot"] >= cfg.max_slots
                                  or want["step_channel"]["channel"] >= cfg.channels)
    assert int(dut.watchdog.value) == want["watchdog"]["clocks"]
    assert settings["head"] == want["step_flags"]["head"] and settings["stop_token"] == want["stop_token"]["token"]
    assert unpack(Geometry(cfg), int(dut.geometry.value)) == {
        **want["heads"], "kv_base": want["kv_base"]["beat"], **want["page"], **want["page_head"]}
    assert unpack(VectorConstants, int(dut.constants.value)) == {
        "hidden": want["hidden"]["elements"], "inverse_hidden": want["inverse_hidden"]["value"], "epsilon": expected,
        "query_scale": want["query_scale"]["value"], "logits": want["step_flags"]["logits"],
        "logits_base": want["logits_base"]["beat"]}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def errors_and_constants(dut):
    """Identity reads back; addresses without a register are refused and change nothing."""
    rng = random.Random(bench_args()["seed"])
    master = await begin(dut, rng)
    for name in ("id", "version"):
        register = MAP[name]
        assert await read(master, name) == {f: field.reset for f, field in register.fields.items()}
    assert (await read(master, "build"))["channels"] == preset("tiny").channels
    used = {r.address + 4 * n for r in MAP.registers.values() for n in range(r.bits // 32)}
    free = [a for a in range(0, 0x4000, 4) if a not in used]
    for address in [*rng.sample(free, 8), 0x0C, 0x5800, 0xFFFC]:
        assert (await master.read(address, 4)).resp == AxiResp.SLVERR, hex(address)
        assert (await master.write(address, b"\xff" * 4)).resp == AxiResp.SLVERR, hex(address)
    for name in MAP.registers:
        fields = await read(master, name)
        assert all(fields[f] == field.reset for f, field in stored(MAP[name]).items()), name


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def pulses_and_interrupts(dut):
    """Pulses last a clock; events wait for a written 1; the line follows the enables."""
    rng = random.Random(bench_args()["seed"])
    master = await begin(dut, rng)
    seen = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            seen.extend(name for name in ("start", "cancel", "clear_counters") if getattr(dut, name).value)

    cocotb.start_soon(watch())
    for fields in ({"start": 1}, {"abort": 1, "clear_counters": 1}, {}):
        await write(master, "control", **fields)
        assert not any((await read(master, "control")).values())
    assert seen == ["start", "cancel", "clear_counters"]

    await write(master, "interrupt_enable", done=1, error=1)
    Source(dut, "tokens").send(77)
    await ClockCycles(dut.clk, 5)
    assert not dut.irq.value
    assert await read(master, "interrupt_status") == {"done": 0, "error": 0, "token": 1}
    for port, event in (("done", "done"), ("failed", "error"), ("vector_error", "error")):
        getattr(dut, port).value = 1
        await RisingEdge(dut.clk)
        getattr(dut, port).value = 0
        await ClockCycles(dut.clk, 2)
        assert dut.irq.value
        assert (await read(master, "interrupt_status"))[event]
        await write(master, "interrupt_status", **{event: 1})
        await ClockCycles(dut.clk, 2)
        assert not dut.irq.value
    assert (await read(master, "interrupt_status"))["token"]
    assert (await read(master, "error"))["vector"]
    await write(master, "control", start=1)
    assert not (await read(master, "error"))["vector"]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def tokens_and_status(dut):
    """Tokens come once, in order, without loss when more come than the FIFO holds; status and counters are read."""
    rng = random.Random(bench_args()["seed"])
    master = await begin(dut, rng)
    sent = [rng.getrandbits(20) for _ in range(300)]
    source = Source(dut, "tokens", stall=0.3, rng=rng)
    source.send(*sent)
    await ClockCycles(dut.clk, 600)
    assert source.pending == len(sent) - 256 and (await read(master, "status"))["tokens"] == 256
    got = []
    while len(got) < len(sent):
        fields = await read(master, "tokens")
        if fields["valid"]:
            got.append(fields["token"])
    assert got == sent
    assert not (await read(master, "tokens"))["valid"]
    source.send(1, 2, 3)
    await ClockCycles(dut.clk, 40)
    dut.aborting.value = 1
    await ClockCycles(dut.clk, 2)
    dut.aborting.value = 0
    assert not (await read(master, "tokens"))["valid"], "an abort drops the tokens"

    values = {name: rng.getrandbits(64) for name in COUNTERS}
    dut.counters.value = pack(CounterValues, values)
    error = {"fault": Fault.FENCE.value, "execute": 1, "record": 0xA7, "channel": 19, "wait": Wait.DATA.value}
    dut.error.value = pack(ErrorInfo, error)
    dut.ready.value = dut.busy.value = 1
    await ClockCycles(dut.clk, 2)
    for name in COUNTERS:
        assert (await read(master, name))["count"] == values[name]
    assert await read(master, "error") == {**error, "vector": 0}
    assert await read(master, "status") == {"busy": 1, "ready": 1, "tokens": 0}


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def program_windows(dut):
    """Words reach their program; reads, parts of words and writes during a run are refused."""
    rng = random.Random(bench_args()["seed"])
    master = await begin(dut, rng)
    seen = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.program_valid.value:
                seen.append(unpack(ProgramWrite, int(dut.program.value)))

    cocotb.start_soon(watch())
    want = []
    for execute, name in ((0, "access_program"), (1, "execute_program")):
        window = MAP.windows[name]
        for word in [0, window.words - 1, *rng.sample(range(window.words), 5)]:
            data = rng.getrandbits(32)
            answer = await master.write(window.address + 4 * word, data.to_bytes(4, "little"))
            assert answer.resp == AxiResp.OKAY
            want.append({"execute": execute, "word": word, "data": data})
        assert (await master.read(window.address, 4)).resp == AxiResp.SLVERR
        assert (await master.write(window.address, b"\x01")).resp == AxiResp.SLVERR
    dut.busy.value = 1
    assert (await master.write(MAP.windows["access_program"].address, bytes(4))).resp == AxiResp.SLVERR
    await ClockCycles(dut.clk, 2)
    assert seen == want
