"""What is synthesised apart: a tree of modules, each counted without the blocks in it."""

import re
from collections import Counter
from dataclasses import dataclass

from firmware.errors import UserError
from hw.top import Headrace
from hw.verilog import module_files
from sim.readback import without_zeros

__all__ = ["BLOCKS", "TOP", "Block", "blocks_of", "check_names"]

TOP = "headrace"

BLOCKS = (
    "channel", "channel_controller", "reader", "prefetch_fifo", "kv_writer",
    "slice", "issue", "operand_store", "newest_store", "exponent_loader", "numerators", "pool", "placement", "scores",
    "lane_sums", "dequantiser", "row_accumulator",
    "vector_unit", "dispatch", "residual", "vector_unit_norm", "rope", "vector_unit_gated", "vector_unit_quantiser",
    "merge", "sequencer", "registers", "memory_port", "logit_writer",
)
"""Modules that are blocks, without ``headrace_``: parts of the data path, of the control, and the host's ports."""


@dataclass(frozen=True)
class Block:
    """A module, what it is made of, and where it stands.

    ``files``: name -> Verilog of it and of what is in it, blocks in it (``inner``) as black boxes. ``copies``: how
    often it is in the whole design. ``depth``: how many blocks it is inside of.
    """

    name: str
    module: str
    summary: str
    ports: tuple
    files: dict
    inner: tuple
    copies: int
    depth: int


def blocks_of(config):
    """:class:`Block` of everything in the design of *config*, the top first, each before the blocks in it."""
    modules = {file.name: file for file in module_files(Headrace(config), TOP)}
    named = {f"{TOP}_{name}": name for name in BLOCKS} | {TOP: TOP}
    children = {name: _instances(file.text, modules) for name, file in modules.items()}

    found, order = Counter(), []

    def walk(module, copies, depth):
        found[module] += copies
        if all(module != known for known, _ in order):
            order.append((module, depth))
        for child, count in _blocks_in(module, children, named).items():
            walk(child, copies * count, depth + 1)

    walk(TOP, 1, 0)
    return [_block(module, modules, children, named, found[module], depth) for module, depth in order]


def check_names(names):
    """:class:`UserError` for one of *names* that no block has."""
    for name in names:
        if name not in (TOP, *BLOCKS):
            raise UserError(f"--block {name}: no such block; blocks: {', '.join((TOP, *BLOCKS))}")


def _block(module, modules, children, named, copies, depth):
    inner = tuple(_blocks_in(module, children, named))
    files, left = {}, [module]
    while left:
        name = left.pop()
        if f"{name}.sv" not in files:
            boxed = name in inner
            files[f"{name}.sv"] = black_box(modules[name]) if boxed else without_zeros(modules[name].text)
            left += [] if boxed else children[name]
    file = modules[module]
    return Block(named[module], module, file.summary, file.ports, dict(sorted(files.items())), inner, copies, depth)


def _blocks_in(module, children, named):
    """Blocks inside *module* but in none of its blocks -> how many."""
    found = Counter()
    for child, count in children[module].items():
        if child in named:
            found[child] += count
        else:
            for name, inside in _blocks_in(child, children, named).items():
                found[name] += count * inside
    return found


def _instances(text, modules):
    """Modules that *text* instances -> how often."""
    words = re.findall(r"^ +(\w+) \w+ \($", text, re.MULTILINE)
    return Counter(word for word in words if word in modules)


def black_box(file):
    """The module of *file* with ports and nothing else."""
    ports = [f"    {port.direction} [{port.width - 1}:0] \\{port.name} " for port in file.ports]
    return f"(* blackbox *) module {file.name} (\n" + ",\n".join(ports) + "\n);\nendmodule\n"
