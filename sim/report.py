"""What a run or bench reports: the JSON keys, and the table a person reads. Every figure is computed here, once."""

import errno
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from firmware.errors import UserError

__all__ = ["CAUSES", "Report", "Traffic", "Utilisation", "check_output", "decode_table", "figures_table",
           "losses_table", "shape_table", "two_columns", "utilisation", "write_json", "written"]

CAUSES = ("data", "refresh", "activate_precharge", "turnaround", "no_request", "back_pressure")
"""What a channel clock was spent on: exactly one of these."""


@dataclass(frozen=True)
class Traffic:
    """Bytes of a run or of some of its steps, all channels together."""

    moved: int  # everything on the bus, read and written
    model: int  # weight blocks at their GGUF size once a step, KV of valid tokens read, KV written
    codes: int  # weight codes alone, without scales, minima and KV


@dataclass(frozen=True)
class Utilisation:
    """Fractions (0 to 1) of clocks x channels x 32 bytes; never quote one as another."""

    bus_busy: float
    model_mbu: float
    goodput: float


def utilisation(traffic, causes, clocks, channels):
    """:class:`Utilisation` of *clocks*; *causes* (name to channel clocks) must account for every channel clock."""
    total = clocks * channels
    if sum(causes.values()) != total:
        raise ValueError(f"causes sum to {sum(causes.values())}, not {clocks} clocks x {channels} channels = {total}")
    if not total:
        return Utilisation(0.0, 0.0, 0.0)
    return Utilisation(causes["data"] / total, traffic.model / (32 * total), traffic.codes / (32 * total))


@dataclass(frozen=True)
class Report:
    """The JSON of ``headrace run``. ``decode_clocks`` runs from the start of the step that consumes the first generated
    token to the last argmax; ``bytes``, the utilisations, ``predicted_clocks`` and ``causes`` cover those clocks."""

    preset: str
    overrides: dict  # fields changed with --set
    model: str
    channels: int
    load: str  # how the memory was filled: backdoor, or axi4
    prompt_tokens: int
    tokens: list
    text: str
    clocks: int  # whole run
    prompt_clocks: int
    decode_clocks: int
    decode_steps: int
    bytes: int
    bus_busy: float
    model_mbu: float
    goodput: float
    predicted_clocks: int
    causes: dict
    losses: list  # of dicts, ranked: sim.losses.ranking.ranked
    violations: int
    golden_match: bool
    golden_tokens: int  # tokens, from the first on, that equal the golden model's
    logits_sha256: str
    golden_logits_sha256: str
    host_seconds: float
    clocks_per_host_second: float
    notices: list

    @property
    def good(self):
        """Equal to the golden model, and no rule of the memory broken."""
        return self.golden_match and not self.violations


def write_json(path, report):
    """Write a :class:`Report`, or a dict of figures, to *path*; the file appears whole."""
    values = report if isinstance(report, dict) else asdict(report)
    with _partial(path) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n")
        partial.replace(path)


@contextmanager
def written(path, option="-o"):
    """A text file that appears whole at the end as *path*, which comes from *option*."""
    with _partial(path, option) as partial:
        with open(partial, "w") as file:
            yield file
        partial.replace(path)


def check_output(path, option="--json"):
    """Raise what writing to *path* (or None), which comes from *option*, would raise, before hours of work."""
    if path is not None:
        with _partial(path, option) as partial:
            partial.touch()


@contextmanager
def _partial(path, option="--json"):
    """Path of a file beside *path* that is gone at the end; errors are told of *path*."""
    path = Path(path)
    partial = path.parent / f".{path.name}.{os.getpid()}"
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another file with {option}") from None


def _percent(fraction):
    return f"{100 * fraction:.2f} %"


def two_columns(title, **options):
    """A table of names and values."""
    table = Table(title=title, show_header=False, **options)
    table.add_column(style="bold")
    table.add_column(justify="right")
    return table


def _add_steps(table, figures):
    """Rows of what decode steps took, of the roofline, and of the causes of all channel clocks."""
    clocks, steps, predicted = (figures[key] for key in ("decode_clocks", "decode_steps", "predicted_clocks"))
    table.add_row("clocks a token", f"{clocks / steps:,.0f}")
    table.add_row("bytes a token", f"{figures['bytes'] / steps:,.0f}")
    table.add_row("bus busy", _percent(figures["bus_busy"]))
    table.add_row("model MBU", _percent(figures["model_mbu"]))
    if figures["goodput"] is not None:
        table.add_row("goodput", _percent(figures["goodput"]))
    if "tokens_per_second" in figures:
        table.add_row("tokens a second", f"{figures['tokens_per_second']:,.2f}")
    table.add_row("clocks a token, roofline", f"{predicted / steps:,.0f} ({100 * (clocks / predicted - 1):+.2f} %)")
    table.add_section()
    for cause, count in figures["causes"].items():
        table.add_row(f"  {cause.replace('_', ' ')}", _percent(count / (clocks * figures["channels"])))


def decode_table(report):
    """The closing table of ``headrace run``."""
    title = f"{escape(report.model)} on {report.preset}, {report.channels} channels"
    table = two_columns(title, min_width=60)
    table.add_row("answer", escape(report.text.strip()))
    table.add_row("tokens", f"{report.prompt_tokens} prompt, {len(report.tokens)} generated")
    table.add_row("load", report.load)
    table.add_section()
    table.add_row("clocks, whole run", f"{report.clocks:,}")
    if report.decode_steps:
        _add_steps(table, vars(report))
        table.add_row("  sum", _percent(sum(report.causes.values()) / (report.decode_clocks * report.channels)))
    table.add_section()
    table.add_row("memory rules broken", str(report.violations), style="red" if report.violations else None)
    matched = f"{report.golden_tokens} of {len(report.tokens)} tokens"
    same = report.logits_sha256 == report.golden_logits_sha256
    logits = f"logits {report.logits_sha256[:16]} {'equal' if same else f'not {report.golden_logits_sha256[:16]}'}"
    table.add_row("golden model", f"{matched}, {logits}", style=None if report.golden_match else "red")
    table.add_row("simulation", f"{report.host_seconds:.0f} s, {report.clocks_per_host_second / 1000:.0f} kclocks/s")
    return table


MOST_LOSSES = 10
"""Rows of the table of losses."""


def losses_table(figures):
    """The largest losses of a run's *figures* by operator and place, in words."""
    losses = figures["losses"]
    composed = ", composed" if figures.get("composed_layers") else ""
    table = Table(title=f"Where channel clocks were lost{composed}", min_width=60)
    table.add_column("lost", justify="right", no_wrap=True)
    table.add_column("to")
    for loss in losses[:MOST_LOSSES]:
        table.add_row(f"{100 * loss['share']:.3f} %", escape(loss["words"]))
    rest = losses[MOST_LOSSES:]
    if rest:
        table.add_row(f"{100 * sum(loss['share'] for loss in rest):.3f} %", f"{len(rest)} smaller losses")
    table.add_section()
    table.add_row(f"{100 * sum(loss['share'] for loss in losses):.3f} %", "sum")
    return table


def shape_table(figures):
    """The closing table of a shape run (:mod:`sim.commands.shape_run`)."""
    title = (f"{escape(figures['model'])} on {figures['preset']}, {figures['channels']} channels, "
             f"context {figures['context']:,}" + (", attention alone" if figures["part"] == "attention" else ""))
    table = two_columns(title, min_width=60)
    if figures["overrides"]:
        table.add_row("overrides", ", ".join(f"{name}={value}" for name, value in figures["overrides"].items()))
    if figures["experts"]:
        table.add_row("experts", "{chosen} of {count} in each layer".format(**figures["experts"]))
    for number, text in enumerate(figures["left_out"]):
        table.add_row("" if number else "left out", escape(text))
    table.add_row("contents", f"generated, seed {figures['seed']}; golden model not run")
    table.add_row("layers simulated", " and ".join(map(str, figures["simulated_layers"])) + f" of {figures['layers']}")
    if figures["composed_layers"]:
        table.add_row("layers composed", f"{figures['composed_layers']}, each {figures['layer_clocks']:,.0f} clocks")
    table.add_section()
    _add_steps(table, figures)
    table.add_section()
    table.add_row("memory rules broken", str(figures["violations"]))
    speed = figures["clocks_per_host_second"] / 1000
    table.add_row("simulation", f"{figures['clocks']:,} clocks, {figures['host_seconds']:.0f} s, {speed:.0f} kclocks/s")
    return table


def figures_table(title, figures):
    """A bench's figures, name and value; causes are shown as shares."""
    table = two_columns(title)
    for name, value in figures.items():
        if name == "causes":
            total = sum(value.values()) or 1
            for cause, clocks in value.items():
                table.add_row(f"  {cause.replace('_', ' ')}", _percent(clocks / total))
        elif name == "overrides":
            table.add_row(name, ", ".join(f"{field}={number}" for field, number in value.items()) or "none")
        elif isinstance(value, float):
            table.add_row(name, f"{value:,.4f}" if abs(value) < 100 else f"{value:,.0f}")
        else:
            table.add_row(name, f"{value:,}" if isinstance(value, int) else escape(str(value)))
    return table
