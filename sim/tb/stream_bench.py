"""Benches of one DRAM channel: sequential stream, read/write mix, random 2 KB chunks.

:func:`run_pattern` compiles controller, device and traffic into one program and returns its figures.
"""

import json
import subprocess
from pathlib import Path

from hw.config import BEAT_BYTES, preset
from hw.dram.causes import Cause
from hw.verilog import verilog_files
from sim.bench import WAIVED
from sim.build import compile_model
from sim.lpddr.rules import Rule
from sim.tb.stream_traffic import Pattern, StreamBench

__all__ = ["REFERENCE", "run_pattern"]

REFERENCE = {
    "stream": "98.3 to 99.7 % (Ramulator 2.1, hidden per-bank refresh, read queue 32 to 128); 91.6 % all-bank refresh",
    "mix": "81.5 to 90.8 % (Ramulator 2.1, hidden per-bank refresh, read queue 32 to 64)",
    "random2k": "88.4 to 99.5 % (Ramulator 2.1, hidden per-bank refresh, read queue 32 to 128, out of order)",
}
"""What an independent simulator reaches with its own controller on the same timing."""

_FAST = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "-fno-dfg-peephole")
"""The last keeps Verilator from turning branches into masks, so that the device's rules cost only when they apply."""


def run_pattern(pattern, *, config=None, clocks=500_000, seed=1, timing=None, policy=None, device_timing=None,
                limit=300):
    """Figures of *pattern* (a :class:`sim.tb.stream_traffic.Pattern` in lower case), counted from the first data beat
    for *clocks* clocks.

    *config*: a :class:`hw.config.Config`, default preset ``demo``. *timing*, *policy* of the controller and
    *device_timing* override what the density gives. *limit*: wall seconds.

    Returns a dict: ``clocks``, ``bytes`` moved, ``bus_busy`` (data beats a clock), ``causes`` (clocks of each cause),
    ``violations`` (clocks with one), ``broken`` (JEDEC names of the rules), ``errors`` (beats with wrong data),
    ``refreshes`` (REFpb), ``activates``, ``reads``, ``writes`` (the device's counts), ``host_seconds``,
    ``clocks_per_host_second`` and ``reference`` (None if there is none). RuntimeError if the channel stops.
    """
    config = config or preset("demo")
    bench = StreamBench(config, Pattern[pattern.upper()], clocks=clocks, seed=seed, timing=timing, policy=policy,
                        device_timing=device_timing)
    files = {**verilog_files(bench, "streambench"),
             "stream_bench.cpp": Path(__file__).with_suffix(".cpp").read_text()}
    program = compile_model("streambench", files, top="streambench", cflags="-march=native", cocotb=False,
                            args=[*_FAST, "-Wall", "-Wfuture-PROCASSINIT", *(f"-Wno-{w}" for w in WAIVED)])
    run = subprocess.run([program, str(clocks * 20)], capture_output=True, text=True, check=True, timeout=limit)
    raw = json.loads(run.stdout)
    if not raw["done"]:
        raise RuntimeError(f"{pattern}: not done after {raw['simulated']} clocks; causes {raw['causes']}")
    data = raw["causes"][Cause.DATA.value]
    return {
        "clocks": clocks,
        "bytes": data * BEAT_BYTES,
        "bus_busy": data / clocks,
        "causes": {cause.name: raw["causes"][cause.value] for cause in Cause},
        "violations": raw["violations"],
        "broken": [rule.jedec for rule in Rule if raw["broken"] >> rule & 1],
        **{name: raw[name] for name in ("errors", "refreshes", "activates", "reads", "writes")},
        "host_seconds": raw["seconds"],
        "clocks_per_host_second": raw["simulated"] / raw["seconds"],
        "reference": REFERENCE.get(pattern),
    }
