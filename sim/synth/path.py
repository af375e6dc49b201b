"""nextpnr's critical path in words."""

import re
from collections import Counter

__all__ = ["critical_path", "longest"]

KINDS = {
    "DPRAM_COMB": "LUT RAM cell", "TRELLIS_DPR16X4": "LUT RAM cell", "CCU2": "carry cell", "PFUMX": "multiplexer",
    "L6MUX21": "multiplexer", "LUT4": "LUT", "MULT18X18D": "multiplier", "DP16KD": "block RAM",
}
"""What Yosys and nextpnr put into the names of cells -> what the cell is."""

MADE = re.compile(r"(?:_(?:TRELLIS_\w+|LUT4|CCU2C|PFUMX|L6MUX21|MULT18X18D|DP16KD)_|\$).*$|\.\d+\.\d+(?:_\w+)?$")
"""What they put behind a name of the Verilog."""


def longest(paths):
    """Steps of the longest path from register to register of nextpnr's *paths*; empty if there is none."""
    inner = [path["path"] for path in paths if path["from"] == path["to"] != "<async>"]
    return max(inner, key=lambda path: sum(step["delay"] for step in path), default=[])


def critical_path(path):
    """What the steps *path* are, None if there are none.

    ``from``, ``to``: registers (or memories) by their names in the block; ``through``: cells of each kind between
    them; ``past``: signals with a name in the Verilog on the way, in order; ``logic_ns``, ``wire_ns``: time in cells,
    set-up time included, and between them.
    """
    if not path:
        return None
    cells = [step["from"]["cell"] for step in path if step["type"] == "logic"]
    kinds = Counter(_kind(cell) for cell in cells)
    ends = [_name(path[0]["from"]["cell"])[0], _name(path[-1]["to"]["cell"])[0]]
    nets = [_name(step["net"]) for step in path if step["type"] == "routing"]
    past = dict.fromkeys(name for name, made in nets if not made and name not in ends)
    wires = sum(step["delay"] for step in path if step["type"] == "routing")
    return {
        "from": ends[0], "to": ends[1], "through": dict(kinds), "past": list(past),
        "logic_ns": round(sum(step["delay"] for step in path) - wires, 2), "wire_ns": round(wires, 2),
    }


def _kind(cell):
    """Kind of *cell*: by the last of the marks in its name, since cells are called after others."""
    found = [(cell.rfind(mark), kind) for mark, kind in KINDS.items() if mark in cell]
    return max(found)[1] if found else "other"


def _name(text):
    """(What *text* is called inside the block, whether the tools made it: then after what is near)."""
    whole = re.sub(r"(\[\d+\])+$", "", text)
    name = MADE.sub("", whole)
    return name.removeprefix("block.").replace("__", "."), name != whole
