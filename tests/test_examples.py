"""What docs/examples has, built as its files say."""

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from hw.config import preset
from sim.commands.verilog import package, write_folder
from sim.lpddr.device import Device
from sim.readback import lint

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Folder with the Verilog of preset tiny."""
    folder = tmp_path_factory.mktemp("examples") / "verilog"
    write_folder(folder, package(preset("tiny")))
    return folder


def test_plain_top(tiny):
    files = [EXAMPLES / "lpddr5x_phy.sv", EXAMPLES / "plain_top.sv"]
    about = json.loads((tiny / "manifest.json").read_text())
    ports = next(module["ports"] for module in about["modules"] if module["name"] == about["top"])
    joined = set(re.findall(r"\.(\w+)\(", files[1].read_text()))
    assert {port["name"] for port in ports if port["direction"] == "input" or "axi" in port["name"]} <= joined
    assert lint(tiny, "plain_top", files) == ""


def test_litex_soc(tiny):
    """LiteX elaborates it, in a process of its own as its file says; what its own Verilog has always is waived."""
    text = subprocess.run([sys.executable, EXAMPLES / "litex_soc.py", tiny], cwd=tiny, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True).stdout
    (tiny / "soc.v").write_text(text)
    assert text.count("\nheadrace headrace(") == 1 and text.count("\nlpddr5x_phy lpddr5x_phy") == 2
    waived = [f"-Wno-{name}" for name in ("WIDTH", "COMBDLY", "CASEINCOMPLETE", "TIMESCALEMOD",
                                         "UNOPTFLAT")]  # the last: a state machine whose ready only sets next values
    assert lint(tiny, "soc", [EXAMPLES / "lpddr5x_phy.sv", "soc.v"], waived) == ""


def test_one_channel():
    """Written as Verilog; and folds forty beats that the device model has."""
    spec = spec_from_file_location("one_channel", EXAMPLES / "one_channel.py")
    spec.loader.exec_module(example := module_from_spec(spec))
    config = preset("tiny")
    assert "module fold(" in verilog.convert(example.Fold(config), name="fold")

    m = Module()
    m.submodules.fold = fold = example.Fold(config)
    m.submodules.device = device = Device(config.beat_address_bits)
    connect(m, fold.dfi, device.dfi)
    seen, finished = [], []

    async def memory(context):
        async for _, _, valid, beat in context.tick().sample(device.store.read_valid, device.store.read_beat):
            if valid:
                seen.append(beat)
                context.set(device.store.read_data, beat * 0x10001)

    async def bench(context):
        await context.tick().until(fold.ready)
        context.set(fold.chunk, {"beat": 5 << 7 | 30, "last": 39})
        context.set(fold.start, 1)
        await context.tick()
        context.set(fold.start, 0)
        await context.tick().until(fold.done)
        wanted = 0
        for beat in range(5 << 7 | 30, (5 << 7) + 70):
            wanted ^= beat * 0x10001
        assert context.get(fold.result) == wanted
        assert seen == list(range(5 << 7 | 30, (5 << 7) + 70))
        assert not context.get(device.broken)
        finished.append(True)

    simulator = Simulator(m)
    simulator.add_clock(1e-9)
    simulator.add_process(memory)
    simulator.add_testbench(bench)
    simulator.run_until(2e-6)
    assert finished, "not done after 2,000 clocks"
