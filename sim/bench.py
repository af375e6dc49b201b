"""Runs cocotb tests on one Amaranth component, in Verilator.

A pytest calls :func:`run_bench`; the module that it names holds ``@cocotb.test`` functions and reads
:func:`bench_args`. Stream drivers and monitors are in :mod:`sim.streams`.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import cocotb_tools.config
import find_libpython

from sim.build import compile_model, public_ports, run_folder

__all__ = ["WAIVED", "BenchFailure", "bench_args", "cocotb_environment", "run_bench"]

ARGUMENTS = "HEADRACE_BENCH_ARGS"

WAIVED = ("PROCASSINIT",)
"""Warnings that the Verilog cannot avoid (hw/verilog/waivers.vlt has the reason); any other stops the build."""


class BenchFailure(AssertionError):
    """A bench failed; the message has the seed and the end of the log."""


def bench_args():
    """The ``args`` that the pytest gave to :func:`run_bench`, with ``seed``; called inside the simulator."""
    return json.loads(os.environ[ARGUMENTS])


def run_bench(component, module, *, args=None, seed=0, sources=(), toplevel=None, public=(), opt="-O1", limit=600,
              test=None, waived=()):
    """Convert *component* to Verilog, compile it (cached) and run the cocotb tests of python *module* on it.

    The Verilog module is the class name in lower case, with ``clk``, ``rst`` and the flattened signature as ports; a
    struct port is one vector. *args* (JSON values) reach the tests through :func:`bench_args`; *seed* also seeds
    cocotb's ``random``.

    *sources*: further SystemVerilog, ``.vlt`` or C++ files (paths); *toplevel* is then the top module in them.
    *public*: names ``module.variable`` of inner signals that the test reads (``module.*`` for all). *opt*: compiler
    optimisation (-O1 compiles fastest; long benches want -O2). *test*: run only the tests with this name. *limit*: wall
    seconds for the simulation. *waived*: further warnings of Verilator that don't stop the build.

    Returns the simulator's output. Raises :class:`BenchFailure` with the seed and the end of the log.
    """
    # Amaranth is needed on this side only; tests inside the simulator start faster without it.
    from hw.verilog import verilog_files

    name = type(component).__name__.lower()
    files = verilog_files(component, name)
    files["bench.vlt"] = public_ports(toplevel or name)
    for row in public:
        inner, _, variable = row.rpartition(".")
        files["bench.vlt"] += f'public_flat_rw -module "{inner}" -var "{variable}"\n'
    files.update((Path(source).name, Path(source).read_text()) for source in sources)
    program = compile_model(
        name, files, top=toplevel or name, opt=opt, cflags="-march=native",
        args=["--no-public-flat-rw", "--timing", "--assert", "--timescale", "1ns/1ps", "-Wall", "-Wfuture-PROCASSINIT",
              *(f"-Wno-{warning}" for warning in (*WAIVED, *waived)), "--x-assign", "fast", "--x-initial", "fast"])
    return _simulate(program, toplevel or name, module, {**(args or {}), "seed": seed}, limit, test)


def cocotb_environment(top, module, seed, results):
    """Environment in which a program of :func:`sim.build.compile_model` runs the cocotb tests of python *module*."""
    libpython = find_libpython.find_libpython()
    if libpython is None:
        raise RuntimeError(f"{sys.executable} has no shared libpython, which cocotb needs")
    root = Path(__file__).resolve().parents[1]
    return {
        **os.environ,
        "COCOTB_TOPLEVEL": top,
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_RESULTS_FILE": str(results),
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "COCOTB_ANSI_OUTPUT": "0",
        "GPI_USERS": f"{libpython};{cocotb_tools.config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root), *(path for path in sys.path if path)]),
        "TOPLEVEL_LANG": "verilog",
    }


def _simulate(program, top, module, args, limit, test):
    with run_folder(top) as folder:
        results = folder / "results.xml"
        environment = cocotb_environment(top, module, args["seed"], results)
        environment[ARGUMENTS] = json.dumps(args)
        if test is not None:
            environment["COCOTB_TEST_FILTER"] = rf"\.{test}$"
        process = subprocess.Popen([program], cwd=folder, env=environment, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            log, _ = process.communicate(timeout=limit)
            trouble = _trouble(results, process.returncode)
        except subprocess.TimeoutExpired:
            _stop(process)
            log, _ = process.communicate()
            trouble = f"no end after {limit} s"
        except BaseException:
            _stop(process)
            raise
    if trouble:
        tail = "\n".join(log.splitlines()[-60:])
        raise BenchFailure(f"{module} on {top}, seed {args['seed']}, args {json.dumps(args)}: {trouble}\n{tail}")
    return log


def _stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _trouble(results, code):
    """What went wrong in one line; empty if at least one test ran and none failed."""
    if not results.exists():
        return f"the simulator ended with code {code} before the tests did"
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if failed:
        return f"failed: {', '.join(failed)}"
    if not any(case.find("skipped") is None for case in cases):
        return "no test ran"
    return f"the simulator ended with code {code}" if code else ""
