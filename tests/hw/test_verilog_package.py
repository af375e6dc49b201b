"""The written folder: read by Verilator and Yosys, described by its manifest, the same bytes anywhere."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hw.config import preset
from sim.commands.verilog import package, write_folder
from sim.lpddr.table import device_timing
from sim.readback import lint, without_zeros, yosys
from sim.system.model import generated

ROOT = Path(__file__).resolve().parents[2]

TRIALS = {
    "tiny": ("tiny", {}),
    "demo": ("demo", {}),
    "bertha500": ("bertha500", {}),
    "one channel": ("tiny", {"channels": 1, "v_kv": 1, "max_group": 3, "mantissa_bits": 8, "page_slots": 2}),
    "three channels": ("tiny", {"channels": 3, "v_kv": 5, "max_hidden": 96, "max_ffn": 160, "max_kv_heads": 1,
                                "max_head_dim": 32, "max_context": 77, "density_gbit": 8}),
    "four lanes": ("tiny", {"channels": 4, "lanes": 4, "v_kv": 2, "mantissa_bits": 16, "max_head_dim": 256,
                            "fifo_beats": 128, "write_queue": 16, "max_kv_heads": 3}),
}

DEEP = ("demo", "bertha500")
"""Presets with memories whose loops of zeros Yosys would unroll for minutes."""


@pytest.mark.parametrize("trial", TRIALS)
def test_reads_back(tmp_path, trial):
    """No warning of Verilator but the waived ones; no latch, loop, undriven or doubly driven wire, unresolved cell."""
    name, changes = TRIALS[trial]
    write_folder(tmp_path / "verilog", package(preset(name).override(**changes)))
    assert lint(tmp_path / "verilog") == ""
    assert yosys(tmp_path / "verilog", deep=trial in DEEP) == ""


def test_only_loops_of_zeros_are_not_read():
    """What is left out for :data:`DEEP` are whole loops whose every statement sets a row to zero, and all of them."""
    for file in package(preset("tiny")).values():
        left = without_zeros(file)
        assert "for (int" not in left
        gone = Counter(file.splitlines()) - Counter(left.splitlines())
        assert all(re.fullmatch(r" +(for \(int i(_\d+)? = 0; .*\)( begin)?|end|)( ?\w+\[i(_\d+)?\] = \d+'d0;)?", line)
                   for line in gone)


OTHERS = """\
module headrace_not (input logic a, output logic b); assign b = !a; endmodule
module headrace_step (input logic clk, input logic a, output logic b); always_ff @(posedge clk) b <= a; endmodule
"""


@pytest.mark.parametrize(("text", "found"), [
    ("always_latch if (start) irq = busy;", "dlatch"),
    ("assign irq = !irq ^ start;", "found logic loop"),
    ("logic nothing; assign irq = nothing & start;", "nothing is used but has no driver"),
    ("assign irq = start; assign irq = busy;", "multiple conflicting drivers"),
    ("other u (.a(start), .b(irq));", "other' referenced in module"),
    ("headrace_not one (.a(start), .b(irq)); wire x, y; headrace_not two (.a(x), .b(y)); assign x = y & busy;",
     "found logic loop"),
    ("headrace_step one (.clk(start), .a(!irq), .b(irq));", ""),
    ("assign irq = start & busy;", ""),
])
@pytest.mark.parametrize("deep", [False, True], ids=["flat", "deep"])
def test_yosys_finds(tmp_path, text, found, deep):
    """What the check is for is found when it is there, and nothing else is."""
    (tmp_path / "rtl").mkdir()
    (tmp_path / "headrace.f").write_text("rtl/headrace.sv\n")
    module = f"module headrace (input logic start, input logic busy, output logic irq);\n{text}\nendmodule\n"
    (tmp_path / "rtl" / "headrace.sv").write_text(module + OTHERS)
    answer = yosys(tmp_path, deep)
    assert found in answer and bool(found) == bool(answer)


def test_same_bytes_and_the_files_of_the_benches(tmp_path):
    """Another process with another hash seed writes the bytes that docs/verilog.md names; whole runs compile these."""
    command = "from sim.cli import main; main()"
    subprocess.run([sys.executable, "-c", command, "verilog", "--preset", "tiny", "-o", tmp_path / "out"],
                   env={**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(ROOT)}, cwd=tmp_path, check=True)
    about = json.loads((tmp_path / "out" / "manifest.json").read_text())
    sums = (tmp_path / "out" / "SHA256SUMS").read_bytes()
    assert about["content"] == hashlib.sha256(sums).hexdigest()
    for line in sums.decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest, name

    config = preset("tiny")
    compiled = generated(config, None, device_timing(config.density_gbit), 0, False, False)
    listed = (tmp_path / "out" / "headrace.f").read_text().split()
    assert listed == [module["file"] for module in about["modules"]]
    for name in listed:
        assert compiled[Path(name).name] == (tmp_path / "out" / name).read_text(), name

    named = re.search(r"content ([0-9a-f]{64})", (ROOT / "docs" / "verilog.md").read_text())[1]
    assert named == about["content"], f"docs/verilog.md is stale: tiny's content is now {about['content']}"


def test_manifest_describes_the_ports(tmp_path):
    """Each port of a module's text is in the manifest with its width, and a struct's fields fill it."""
    files = package(preset("tiny").override(channels=1))
    about = json.loads(files["manifest.json"])
    assert about["changes"] == {"channels": 1} and about["top"] == "headrace"
    for module in about["modules"]:
        text = files[module["file"]]
        assert f"class {module['class']} of {module['source']}" in " ".join(text.replace("//", "").split())
        assert (ROOT / module["source"]).exists()
        found = re.findall(r"^    (input|output) +logic (?:\[(\d+):0\] )?\\?(\w+)", text, re.MULTILINE)
        assert [(way, int(top or 0) + 1, name) for way, top, name in found] == [
            (port["direction"], port["width"], port["name"]) for port in module["ports"]]
        for port in module["ports"]:
            fields = port.get("fields", {}).values()
            assert all(field["low"] + field["width"] <= port["width"] for field in fields)
            assert not fields or sum(field["width"] for field in fields) == port["width"], port
