"""``headrace synth``: what each block takes of an ECP5, and how fast it is there."""

from dataclasses import asdict, dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from firmware.errors import UserError
from sim.commands.progress import working
from sim.synth.blocks import blocks_of, check_names
from sim.synth.flow import CELLS, GOAL_MHZ, place, smallest, synthesise, tool_versions

__all__ = ["SPEEDS", "Request", "run", "table"]

SPEEDS = (6, 7, 8)
"""ECP5 speed grades, the slowest first."""


@dataclass(frozen=True)
class Request:
    """``blocks``: names, all if empty. ``speed``: the device's speed grade. ``route``: place and route too."""

    config: object
    blocks: tuple = ()
    speed: int = 8
    route: bool = True


def run(request, console):
    """Figures of the blocks for JSON, printed on *console*. Keys:

    ``preset``, ``parameters``, ``tools`` (packages and versions), ``speed``, ``blocks``: a list with ``name``,
    ``module``, ``depth`` (blocks around it), ``copies`` in the design, ``cells`` of one copy without the blocks in it
    (``lut``, ``carry``, ``ff``, ``lut_ram``, ``block_ram``, ``multiplier``; names in :data:`sim.synth.flow.CELLS`),
    ``device`` or None, ``lacking`` (what no device has enough of, or None), ``mhz`` and ``critical``
    (:func:`sim.synth.path.critical_path`), None if not routed. ``total``: cells times copies of all blocks, None for
    some of them.
    """
    if request.speed not in SPEEDS:
        raise UserError(f"--speed {request.speed}: speed grades are {', '.join(map(str, SPEEDS))}")
    check_names(request.blocks)
    with working(console, "generating the design"):
        everything = blocks_of(request.config)
    blocks = [block for block in everything if not request.blocks or block.name in request.blocks]
    rows = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(blocks))
        for block in blocks:
            rows.append(_measure(block, request, lambda text: _say(progress, task, text)))
            progress.advance(task)
    total = None
    if len(blocks) == len(everything):
        total = {kind: sum(row["copies"] * row["cells"][kind] for row in rows) for kind in CELLS}
    figures = {"preset": request.config.name, "parameters": asdict(request.config), "tools": tool_versions(),
               "speed": request.speed, "blocks": rows, "total": total}
    console.print(table(figures))
    for row in rows:
        if row["critical"]:
            console.print(f"{row['name']}: {sentence(row)}", highlight=False, soft_wrap=True)
    return figures


def _say(progress, task, text):
    progress.update(task, description=text)
    if not progress.console.is_terminal:
        progress.console.print(text, highlight=False)


def _measure(block, request, say):
    say(f"{block.name}: cells")
    cells, netlist = synthesise(block, request.route)
    row = {"name": block.name, "module": block.module, "depth": block.depth, "copies": block.copies, "cells": cells,
           "device": None, "lacking": None, "mhz": None, "critical": None}
    if netlist:
        device, row["lacking"] = smallest(block, cells)
        if device:
            say(f"{block.name}: place and route in {device.name}")
            row |= {"device": device.name, **place(block, netlist, device, request.speed)}
    return row


def table(figures):
    """A line a block; those in a block are indented below it."""
    result = Table(title=f"{figures['preset']} on ECP5, speed grade {figures['speed']}")
    result.add_column("block", no_wrap=True)
    for heading in ("copies", "LUT", "carry", "FF", "LUT\nRAM", "block\nRAM", "mult", "MHz"):
        result.add_column(heading, justify="right", no_wrap=True)
    for row in figures["blocks"]:
        speed = "" if row["mhz"] is None else f"{row['mhz']:.1f}"
        style = "red" if row["mhz"] is not None and row["mhz"] < GOAL_MHZ else None
        result.add_row("  " * row["depth"] + row["name"], str(row["copies"]),
                       *(f"{number:,}" for number in row["cells"].values()), row["lacking"] or speed, style=style)
    if figures["total"]:
        result.add_section()
        result.add_row("all", "", *(f"{number:,}" for number in figures["total"].values()), "")
    result.caption = "Cells of one copy, without the blocks in it; all: times copies. MHz: placed and routed alone."
    return result


def sentence(row):
    """The critical path of a figures' *row* in words."""
    path = row["critical"]
    through = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in path["through"].items())
    past = f", past {', '.join(path['past'])}" if path["past"] else ""
    return (f"{row['mhz']:.1f} MHz in {row['device']}; from {path['from']} to {path['to']}{past}, through "
            f"{through or 'no cell'}: {path['logic_ns']} ns in cells, {path['wire_ns']} ns in wires")
