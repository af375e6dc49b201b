"""Latencies and gaps, in clocks, that the structure adds to the memory roof: from the data sheets in the modules'
docstrings, the classes' own constants and the LPDDR5X timing table. None is taken from a run.
"""

from dataclasses import dataclass
from math import ceil, log2

from hw.dram.pairs import PAIRS
from hw.dram.policy import Policy
from hw.dram.timing import timing_for
from hw.isa import VectorKind

__all__ = ["DOCUMENTED", "Latencies", "latencies"]

DOCUMENTED = {
    "hw/slice/slice.py": {"row": (9, "row result 9 clocks"), "maximum": (13, "a maximum 13"),
                          "partial": (4, "a head's first P.V item 4"),
                          "fence": (1, "on the operand bus to the first beat 1")},
    "hw/slice/numerators.py": {"numerator": (12, "12 clocks from the last merged maximum to the first item")},
    "hw/vector/gather.py": {"gather": (1, "Latency 1 clock")},
    "hw/vector/unit.py": {"rotated": (12, "VALUE, QUERY, KEY 12 + q"), "attention": (5, "ATTENTION 5 + q"),
                          "residual": (9, "RESIDUAL 9 + q"), "embed": (6, "EMBED 6 + q"), "glu": (20, "GLU 20 + q"),
                          "token": (8, "HEAD after 8"), "add": (7, "ADD has left 7 clocks after"),
                          "router": (0, "ROUTER with it")},
    "hw/vector/quantiser.py": {"quantiser": (5, "to the block on the bus: :attr:`latency`")},
    "hw/fetch/reader.py": {"chunk": (7, "seven clocks from record")},
    "hw/dram/lookahead.py": {"head": (3, "latency three clocks when the row is open")},
    "hw/dram/controller.py": {"phy": (1, "RL and the PHY's delay plus one clock")},
    "hw/fetch/fifo.py": {"fifo": (1, "visible in the clock after it comes in")},
}
"""File: name, clocks, and the words of its docstring that say so (a test reads them there)."""

ACCESS_RECORD = 5
"""From the token's pulse to its record at the readers: known, decode, multiply, dispatch, queue (hw/sequencer)."""

RECORD_TURN = 2
"""The vector unit between records: finish, idle (hw/vector/dispatch.py)."""

SUM_CLOCKS = 2
"""The vector unit takes a softmax sum and lets it gain its reciprocal before the elements (hw/vector/dispatch.py)."""


@dataclass(frozen=True)
class Latencies:
    """In clocks; see docs/roofline.md for what each does."""

    read: int  # RD issued to its beat at the slice
    row: int  # last beat of a row to its result
    gather: int
    fence: int  # operand complete to the first beat that uses it
    maximum: int  # last K beat to the channel's maximum
    merge: int  # last channel's maximum, or sum, through the tree
    numerator: int  # merged maximum to the first V beat
    partial: int  # last V beat to the first sum
    vector: dict  # VectorKind: last group taken to the operand complete; HEAD: to the token; ADD, ROUTER: left
    embedding: int  # token known to the RD of its embedding row
    turnaround: int  # bus clocks lost by a group of writes
    row_miss: float  # expected bus clocks lost where a run does not go on from the run before


def latencies(config):
    """The :class:`Latencies` of *config*."""
    known = {name: clocks for names in DOCUMENTED.values() for name, (clocks, _) in names.items()}
    timing, policy = timing_for(config.density_gbit), Policy()
    other = {VectorKind.HEAD: known["token"], VectorKind.ADD: known["add"], VectorKind.ROUTER: known["router"]}
    operand = {
        VectorKind.QUERY: known["rotated"], VectorKind.KEY: known["rotated"], VectorKind.VALUE: known["rotated"],
        VectorKind.ATTENTION: known["attention"], VectorKind.RESIDUAL: known["residual"],
        VectorKind.EMBED: known["embed"], VectorKind.GLU: known["glu"],
    }
    conflict = timing.column_to_row(timing.rd_to_pre) + policy.open_clocks(timing)
    return Latencies(
        read=timing.column_to_row(timing.rl) + known["phy"] + known["fifo"],
        row=known["row"], gather=known["gather"], fence=known["fence"], maximum=known["maximum"],
        merge=max(1, ceil(ceil(log2(config.channels)) / 2)), numerator=known["numerator"], partial=known["partial"],
        vector=other | {kind: n + known["quantiser"] for kind, n in operand.items()},
        embedding=ACCESS_RECORD + known["chunk"] + known["head"] + policy.open_clocks(timing),
        turnaround=timing.column_to_column(timing.rd_to_wr) + timing.column_to_column(timing.wr_to_rd) - 2,
        row_miss=conflict / PAIRS)
