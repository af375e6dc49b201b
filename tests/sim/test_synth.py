"""``headrace synth``: its tree of blocks, its harness, its words; one small block through Yosys and nextpnr."""

import json
import re

import pytest

from hw.config import preset
from sim.cli import main
from sim.synth.blocks import TOP, Block, blocks_of
from sim.synth.flow import CELLS, DEVICES, smallest
from sim.synth.harness import harness
from sim.synth.path import critical_path, longest

FIGURES = {"preset", "parameters", "tools", "speed", "blocks", "total"}
ROW = {"name", "module", "depth", "copies", "cells", "device", "lacking", "mhz", "critical"}


def command(monkeypatch, *words):
    """Exit code of the command."""
    monkeypatch.setattr("sys.argv", ["headrace", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.fixture(scope="module")
def tiny():
    return blocks_of(preset("tiny"))


def test_each_module_is_in_one_block(tiny):
    """Nothing is counted twice, nothing left out; a channel's blocks are there for each channel."""
    names = [block.name for block in tiny]
    assert names[0] == TOP and len(names) == len(set(names))
    modules = {block.module for block in tiny}
    for block in tiny:
        whole = {name for name, text in block.files.items() if "blackbox" not in text}
        assert whole & {f"{module}.sv" for module in modules} == {f"{block.module}.sv"}
        assert {name for name in block.files if name not in whole} == {f"{module}.sv" for module in block.inner}
    copies = {block.name: block.copies for block in tiny}
    assert copies["channel"] == copies["slice"] == copies["pool"] == 2 and copies["vector_unit_quantiser"] == 1
    assert {block.module for block in tiny[1:]} == {name for block in tiny for name in block.inner}


def test_harness_reaches_every_bit(tiny):
    for block in tiny:
        text = harness(block)
        for way, name in (("input", "stimulus"), ("output", "answer")):
            slices = re.findall(rf"\({name}\[(\d+):(\d+)\]\)", text)
            bits = [bit for high, low in slices for bit in range(int(low), int(high) + 1)]
            ports = [port for port in block.ports if port.direction == way and port.name not in ("clk", "rst")]
            wanted = sum(port.width for port in ports)
            assert bits == list(range(wanted))


def step(kind, delay, cell, net=None):
    return {"type": kind, "delay": delay, "from": {"cell": cell}, "to": {"cell": "block.b.end_TRELLIS_FF_Q_2"},
            **({"net": net} if net else {})}


PATH = [
    step("clk-to-q", 0.5, "block.a.start_TRELLIS_FF_Q_3"),
    step("routing", 1.0, "block.a.start_TRELLIS_FF_Q_3", "block.a.start[3]"),
    step("logic", 0.25, "block.a.start_LUT4_A"),
    step("routing", 0.75, "block.a.start_LUT4_A", "block.a.port__valid[0]"),
    step("logic", 0.25, "block.a.port__valid_CCU2C_S0_LUT4_Z"),
    step("logic", 0.5, "block.a.port__valid_LUT4_A_B1_CCU2C_S0$CCU2_COMB0"),
    step("routing", 0.5, "block.x", "block.a.start_LUT4_A_Z[1]"),
    step("setup", 0.1, "block.b.end_TRELLIS_FF_Q_2"),
]


def test_critical_path_in_words():
    short = {"from": "posedge clk", "to": "posedge clk", "path": PATH[:2]}
    pins = {"from": "<async>", "to": "<async>", "path": 3 * PATH}
    assert longest([short, pins, {**short, "path": PATH}]) == PATH
    assert critical_path(PATH) == {
        "from": "a.start", "to": "b.end", "through": {"LUT": 2, "carry cell": 1}, "past": ["a.port.valid"],
        "logic_ns": 1.6, "wire_ns": 2.25}
    assert critical_path(longest([pins])) is None


def test_smallest_device():
    block = Block("none", "none", "", (), {}, (), 1, 0)
    cells = dict.fromkeys(CELLS, 0)
    assert smallest(block, cells | {"lut": 24_288})[0].name == "LFE5U-25F"
    assert smallest(block, cells | {"lut": 24_287, "carry": 1})[0].name == "LFE5U-45F"
    device, lacking = smallest(block, cells | {"multiplier": 157})
    assert device is None and lacking == f"more than {DEVICES[-1].name}: multiplier 157 of 156"


def test_one_block(tmp_path, monkeypatch):
    """Through both programs; a second time without them. Its figures have the documented keys."""
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path))
    words = ["synth", "--block", "exponent_loader", "--json", str(tmp_path / "synth.json")]
    assert command(monkeypatch, *words) == 0
    figures = json.loads((tmp_path / "synth.json").read_text())
    (row,) = figures["blocks"]
    assert set(figures) == FIGURES and set(row) == ROW and set(row["cells"]) == set(CELLS)
    assert row["cells"]["ff"] > 0 and row["mhz"] > 1 and row["critical"]["logic_ns"] > 0 and row["device"]
    assert figures["total"] is None
    monkeypatch.setattr("sim.synth.flow._run", lambda *_: pytest.fail("done again"))
    assert command(monkeypatch, *words) == 0
    assert json.loads((tmp_path / "synth.json").read_text()) == figures


@pytest.mark.parametrize(("words", "text"), [
    (["--block", "slices"], "--block slices: no such block; blocks: headrace, "),
    (["--speed", "5"], "--speed 5: speed grades are 6, 7, 8"),
    (["--set", "lanes=3"], "lanes is 3"),
])
def test_bad_options(monkeypatch, capsys, words, text):
    assert command(monkeypatch, "synth", *words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and text in lines[0]
