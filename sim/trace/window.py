"""What a trace of a run holds: commands on the channels' command buses, and the channels' states.

The words are packed by :func:`sim.system.wrapper.wrapper_text` and written by ``sim/system/trace.cpp``.
"""

from dataclasses import dataclass

import numpy as np

from hw.dram.causes import Cause
from hw.dram.command import COMMAND_BITS, Opcode
from hw.fetch.reader import Starved
from hw.slice.issue import Status

__all__ = ["CLOCK_NS", "Command", "State", "Window", "read_window"]

RECORD = np.dtype([("clock", "<u8"), ("channel", "<u2"), ("kind", "<u2"), ("value", "<u4")])

COMMAND, STATE = 0, 1

CLOCK_NS = 16 / 8.533
"""A controller clock: 16 transfers of a data pin at 8533 MT/s."""


@dataclass(frozen=True)
class Command:
    """A command in phase ``ck`` (two a clock) of the window. Operands are those that the command has."""

    ck: int
    name: str  # of hw.dram.command.Opcode
    bank: int = 0
    row: int = 0  # ACT2: the whole row; RD16, WR16: the open one
    column: int = 0  # in bursts
    all_banks: bool = False


@dataclass(frozen=True)
class State:
    """What a channel does from ``clock`` on."""

    clock: int
    cause: str
    starved: str
    slice: str  # "idle", "busy" or what a record waits for
    writing: bool  # newest K and V are on their way to memory


@dataclass(frozen=True)
class Window:
    """Clocks ``start`` to ``stop`` - 1, counted from the start of the first step."""

    start: int
    stop: int
    commands: tuple  # a tuple of Commands a channel
    states: tuple  # a tuple of States a channel


def read_window(path, channels, start, clocks):
    """The :class:`Window` in the file *path*; it ends earlier if the run did."""
    records = np.fromfile(path, RECORD)
    stop = min(start + clocks, int(records["clock"][-1]) + 1) if len(records) else start
    commands, states = [], []
    for channel in range(channels):
        own = records[records["channel"] == channel]
        commands.append(tuple(decoded(own[own["kind"] == COMMAND])))
        states.append(tuple(state(int(clock), int(value))
                            for clock, _, _, value in own[own["kind"] == STATE].tolist()))
    return Window(start, stop, tuple(commands), tuple(states))


def decoded(records):
    """Yields each :class:`Command` of one channel. Rows opened before the window are not known: row -1."""
    rows, bank, row_high = {}, 0, 0
    for clock, _, _, value in records.tolist():
        for phase in range(2):
            word = value >> (COMMAND_BITS + 1) * phase
            if not word >> COMMAND_BITS & 1:
                continue
            rising, falling = word & 0x7F, word >> 7 & 0x7F
            name, ck = opcode(rising), 2 * clock + phase
            if name == "ACT1":
                bank, row_high = falling & 15, (rising >> 3) << 3 | falling >> 4
                yield Command(ck, name, bank)
            elif name == "ACT2":
                rows[bank] = row_high << 11 | (rising >> 3) << 7 | falling
                yield Command(ck, name, bank, rows[bank])
            elif name in ("RD16", "WR16"):
                column = rising >> 3 & 1 | (falling >> 4 & 3) << 1 | (rising >> 4) << 3
                yield Command(ck, name, falling & 15, rows.get(falling & 15, -1), column)
            elif name in ("PRE", "REF"):
                yield Command(ck, name, falling & 15 if name == "PRE" else falling & 7, all_banks=bool(falling >> 6))
            elif name != "NOP":
                yield Command(ck, name)


def opcode(rising):
    """Name of the command with these bits at the rising edge: the one with the most fixed bits that fits."""
    for bits, codes in ((7, ("PRE", "REF", "MRW1", "NOP")), (3, ("ACT1", "ACT2", "RD16", "WR16"))):
        for name in codes:
            if rising & (1 << bits) - 1 == Opcode[name].value:
                return name
    return "CAS" if rising & 0b1111 == Opcode.CAS.value else "MRW2"


def state(clock, value):
    """The :class:`State` packed in *value*."""
    cause, starved, slice_, writer_idle = value & 7, value >> 3 & 3, value >> 5 & 31, value >> 10 & 1
    fields = {name: slice_ >> n & 1 for n, (name, _) in enumerate(Status)}
    waiting = [name.removeprefix("waiting_") for name, bit in fields.items() if bit and name != "busy"]
    doing = f"waits for {waiting[0]}" if waiting else "busy" if fields["busy"] else "idle"
    return State(clock, Cause(cause).name.lower().replace("_", " "), Starved(starved).name.lower(), doing,
                 not writer_idle)
