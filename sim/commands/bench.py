"""``headrace bench``: figures of one part or of the whole, each under the keys of ``headrace run`` where they apply."""

from firmware.errors import UserError
from firmware.gguf_model import read_model
from sim.commands import matrix_bench, speed
from sim.commands.decode import Request
from sim.commands.decode import run as run_decode
from sim.commands.progress import working
from sim.commands.shape_run import run as run_shape
from sim.fidelity import fidelity
from sim.model_fetch import smollm2
from sim.report import CAUSES, figures_table, losses_table, shape_table
from sim.tb.stream_bench import run_pattern

__all__ = ["BENCHES", "DECODE_TOKENS", "PROMPT", "decode_shape", "run"]

PROMPT = "What is gravity?"
DECODE_TOKENS = 33
"""The first comes from the prompt: 32 decode steps."""

PATTERN_CLOCKS = 1_000_000
"""Two million CK; 32 MB at full rate."""

MATRIX_CLOCKS = 500_000
"""A million CK."""

STREAM_MINIMUM = 0.97
MATRIX_MINIMUM = 0.98
MBU_MINIMUM = 0.90
SPEED_MINIMUM = 0.5
TOKEN_SECONDS = 8


def pattern(name):
    """A bench of one DRAM channel."""
    def measure(config, console):
        with working(console, f"{name}: compiling (once) and running"):
            figures = run_pattern(name, config=config, clocks=PATTERN_CLOCKS)
        figures["causes"] = dict(zip(CAUSES, figures["causes"].values(), strict=True))
        good = not figures["violations"] and not figures["errors"]
        return figures, good and (name != "stream" or figures["bus_busy"] >= STREAM_MINIMUM)
    return measure


def matrix(config, console):
    """One matrix again and again, in all channels."""
    figures = matrix_bench.run(config, console, MATRIX_CLOCKS)
    return figures, figures["bus_busy"] >= MATRIX_MINIMUM


def decode(config, console, html=None):
    """SmolLM2's answer; at least 32 decode steps."""
    report = run_decode(Request(config, None, PROMPT, tokens=DECODE_TOKENS, html=html), console)
    return vars(report), report.good and report.decode_steps >= 32 and report.model_mbu >= MBU_MINIMUM


def decode_shape(request, console):
    """Figures of a :class:`sim.commands.shape_run.Request`, printed on *console*."""
    figures = run_shape(request, console)
    console.print(shape_table(figures))
    console.print(losses_table(figures))
    return figures


def measure_fidelity(config, console):
    """The golden model against binary32 on two texts."""
    model = read_model(smollm2(console.print))
    with working(console, "fidelity: golden model and reference over two texts (minutes)"):
        figures = fidelity(model, config.mantissa_bits)
    return figures, figures["ok"]


def measure_speed(config, console):
    """Simulation in cocotb against a bare loop of the same model."""
    figures = speed.run(config, console)
    ratio = figures["clocks_per_host_second"] / figures["bare_clocks_per_host_second"]
    return figures, ratio >= SPEED_MINIMUM and figures["host_seconds_per_token"] <= TOKEN_SECONDS


BENCHES = {"stream": pattern("stream"), "mix": pattern("mix"), "random2k": pattern("random2k"), "matrix": matrix,
           "decode": decode, "fidelity": measure_fidelity, "speed": measure_speed}


def run(name, config, console, html=None):
    """(figures, whether they reach what is asked of them) of bench *name*, printed on *console*; *html*: of decode, the
    report to write."""
    if name not in BENCHES:
        raise UserError(f"unknown bench {name!r}; known: {', '.join(BENCHES)}")
    figures, good = BENCHES[name](config, console, **({"html": html} if html else {}))
    if name != "decode":
        console.print(figures_table(name, figures))
    if not good:
        console.print(f"{name}: does not reach what is asked of it", style="red")
    return figures, good
