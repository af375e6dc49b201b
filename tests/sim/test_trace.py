"""Traces: command words decoded, spans of the timeline, and what a user can get wrong."""

import json

import numpy as np
import pytest

from firmware.errors import UserError
from hw.config import preset
from sim.commands.trace import Request
from sim.lpddr.bus import Command
from sim.lpddr.table import device_timing
from sim.tb import dram_words as words
from sim.trace.perfetto import CENTRAL_TRACKS, TRACKS, chrome_trace
from sim.trace.ramulator import access_lines
from sim.trace.window import CLOCK_NS, RECORD, read_window

CS = 1 << 14
IDLE = 4 | 1 << 11  # no request, KV writer idle


def window(path, records, clocks=1000):
    np.array(records, RECORD).tofile(path)
    return read_window(path, 1, 0, clocks)


def command(clock, p0=None, p1=None):
    value = sum((CS | word) << 15 * phase for phase, word in enumerate((p0, p1)) if word is not None)
    return clock, 0, 0, value


@pytest.fixture
def small(tmp_path):
    return window(tmp_path / "trace", [
        (0, 0, 1, IDLE), (0, 0, 2, 1), (0, 0, 3, 7 | 3 << 16), (0, 0, 4, 1 | 9 << 1),
        command(2, words.act1(6, 0x2A55A)), command(3, words.act2(0x2A55A)),
        command(12, None, words.cas(False)), (12, 0, 2, 2), (13, 0, 1, 0 | 1 << 5 | 1 << 9 | 1 << 11),
        command(13, None, words.rd(6, 37)), command(14, None, words.rd(6, 38)), (15, 0, 1, IDLE | 1 << 3),
        command(20, words.pre(6), words.wr(2, 5)), command(40, words.ref(5)), command(41, words.mrw1(3)),
        command(42, words.mrw2(200)), (48, 0, 3, 64), (50, 0, 4, 1 << 5), (55, 0, 4, 1 << 5 | 1 << 6 | 2 << 9),
        (56, 0, 4, 0), command(60, words.pre_all()),
        (99, 0, 1, IDLE)])


def test_commands(small):
    assert small.stop == 100
    assert small.commands[0] == (
        Command(4, "ACT1", 6), Command(6, "ACT2", 6, 0x2A55A), Command(25, "CAS"), Command(27, "RD16", 6, 0x2A55A, 37),
        Command(29, "RD16", 6, 0x2A55A, 38), Command(40, "PRE", 6), Command(41, "WR16", 2, -1, 5),
        Command(80, "REF", 5), Command(82, "MRW1"), Command(84, "MRW2"), Command(120, "PRE", all_banks=True))


def test_states(small):
    assert [(s.clock, s.cause, s.starved, s.slice, s.writing) for s in small.states[0]] == [
        (0, "no request", "no", "idle", False), (13, "data", "no", "waits for data", False),
        (15, "no request", "program", "idle", False), (99, "no request", "no", "idle", False)]


def test_timeline(small):
    timing = device_timing()
    trace = json.loads(json.dumps(chrome_trace(small, timing, "a title", ["RoPE row", "layer 0 Q"])))
    events = trace["traceEvents"]
    spans = {((TRACKS if e["pid"] else CENTRAL_TRACKS)[e["tid"]], e["name"]):
             (e["ts"] * 1000 / CLOCK_NS, e["dur"] * 1000 / CLOCK_NS) for e in events if e["ph"] == "X"}
    assert ("slice record", "RoPE row") not in spans  # it was over before the window
    assert spans["slice record", "layer 0 Q"] == pytest.approx((13, 2), abs=1e-3)
    assert spans["vector unit", "head"] == pytest.approx((0, 50), abs=1e-3)
    assert spans["pipelines", "busy"] == pytest.approx((50, 6), abs=1e-3)
    assert [(e["name"], e["ts"]) for e in events if e["ph"] == "i"] == [
        ("SiLU(gate) * up complete", pytest.approx(55 * CLOCK_NS / 1000, abs=1e-3))]
    assert [(e["args"], e["ts"]) for e in events if e["ph"] == "C"] == [
        ({"data": 7, "scales": 3}, 0), ({"data": 64, "scales": 0}, pytest.approx(48 * CLOCK_NS / 1000, abs=1e-3))]
    assert spans["bank 6", f"row {0x2A55A}"] == pytest.approx((3, 17), abs=1e-3)
    assert spans["data bus", "read 2 beats"] == pytest.approx((13.5, 2), abs=1e-3)
    assert spans["data bus", "write 1 beats"] == pytest.approx((20.5, 1), abs=1e-3)
    assert spans["bank 2", "row opened before"][0] == pytest.approx(20.5, abs=1e-3)
    assert spans["bank 5", "refresh"] == spans["bank 13", "refresh"] == pytest.approx((40, timing.rfc_pb / 2), abs=1e-3)
    assert spans["cause", "data"] == pytest.approx((13, 2), abs=1e-3)
    assert spans["slice", "waits for data"] == pytest.approx((13, 2), abs=1e-3)
    assert spans["reader waits for", "program"] == pytest.approx((15, 84), abs=1e-3)


def test_accesses(small):
    assert list(access_lines(small, 0)) == [f"R 0,0,1,2,{0x2A55A},37\n", f"R 0,0,1,2,{0x2A55A},38\n"]


@pytest.mark.parametrize("change, words", [
    ({"format": "vcd"}, "perfetto, ramulator2"), ({"start": -1}, "--from -1"), ({"clocks": 0}, "--clocks 0"),
    ({"channel": 4}, "channels 0 to 3"), ({"tokens": 0}, "--tokens 0"),
])
def test_refusals(tmp_path, change, words):
    request = {"config": preset("demo"), "model": None, "prompt": "a", "output": tmp_path / "out"} | change
    with pytest.raises(UserError) as refusal:
        Request(**request).check()
    assert words in str(refusal.value)
