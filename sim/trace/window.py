"""What a trace of a run holds: commands on the command buses, states of channels and vector unit, and FIFO levels.

The words are packed by :func:`sim.system.wrapper.wrapper_text` and written by ``sim/system/trace.cpp``.
"""

from dataclasses import dataclass

import numpy as np

from hw.dram.command import COMMAND_BITS
from hw.interfaces import NewestKind
from hw.vector.unit import VectorStatus
from sim.losses.attribute import AT_WORK, IDLE, waits
from sim.lpddr.bus import BusDecoder
from sim.roofline.devices import CLOCK_HZ
from sim.system.wrapper import STATUS

__all__ = ["CLOCK_NS", "Level", "State", "Taken", "VectorState", "Window", "read_window"]

RECORD = np.dtype([("clock", "<u8"), ("channel", "<u2"), ("kind", "<u2"), ("value", "<u4")])

COMMAND, STATE, TAKEN, LEVEL, VECTOR = range(5)

OPERANDS = {NewestKind.QUERY: "queries", NewestKind.KEY: "newest K", NewestKind.VALUE: "newest V"}
REGIONS = {"HIDDEN": "hidden state", "ATTENTION": "attention output", "FFN": "SiLU(gate) * up", "QUERY": "queries"}

CLOCK_NS = 1e9 / CLOCK_HZ
"""A controller clock."""


@dataclass(frozen=True)
class State:
    """What a channel does from ``clock`` on."""

    clock: int
    cause: str
    starved: str
    slice: str  # "idle", "busy" or what a record waits for
    writing: bool  # newest K and V are on their way to memory


@dataclass(frozen=True)
class Level:
    """Beats in a channel's prefetch FIFO; taken every 16 clocks."""

    clock: int
    data: int
    scales: int


@dataclass(frozen=True)
class Taken:
    """A slice takes its ``count``-th record, from 1 on, at ``clock``, and has it in hand from the clock after.

    The first in a window is the newest taken before it.
    """

    clock: int
    count: int


@dataclass(frozen=True)
class VectorState:
    """What the vector unit does from ``clock`` on."""

    clock: int
    feeding: str  # kind of the record that is being fed, or ""
    busy: bool  # records are in its pipelines
    fence: str  # what is complete in this clock, or ""


@dataclass(frozen=True)
class Window:
    """Clocks ``start`` to ``stop`` - 1, counted from the start of the first step."""

    start: int
    stop: int
    commands: tuple  # a tuple of Commands a channel
    states: tuple  # a tuple of States a channel
    taken: tuple  # a tuple of Takens a channel
    levels: tuple  # a tuple of Levels a channel
    vector: tuple  # VectorStates


def read_window(path, channels, start, clocks):
    """The :class:`Window` in the file *path*; it ends earlier if the run did."""
    records = np.fromfile(path, RECORD)
    stop = min(start + clocks, int(records["clock"][-1]) + 1) if len(records) else start

    def each(kind, channel, make):
        own = records[(records["channel"] == channel) & (records["kind"] == kind)]
        return tuple(make(clock, value) for clock, _, _, value in own.tolist())

    commands = tuple(tuple(decoded(records[(records["channel"] == n) & (records["kind"] == COMMAND)]))
                     for n in range(channels))
    states, taken, levels = (tuple(each(kind, n, make) for n in range(channels))
                             for kind, make in ((STATE, state), (TAKEN, Taken), (LEVEL, level)))
    return Window(start, stop, commands, states, taken, levels, each(VECTOR, 0, vector_state))


def decoded(records):
    """Yields each :class:`sim.lpddr.bus.Command` of one channel but NOPs."""
    bus = BusDecoder()
    for clock, _, _, value in records.tolist():
        for phase in range(2):
            word = value >> (COMMAND_BITS + 1) * phase
            if word >> COMMAND_BITS & 1:
                command = bus.command(2 * clock + phase, word)
                if command.name != "NOP":
                    yield command


def level(clock, value):
    """The :class:`Level` packed in *value*."""
    return Level(clock, value & 0xFFFF, value >> 16)


def vector_state(clock, value):
    """The :class:`VectorState` packed in *value* (:data:`hw.vector.unit.VectorStatus`)."""
    status = VectorStatus.from_bits(value)
    done = OPERANDS.get(status.operand, REGIONS[status.region.name]) if status.fence else ""
    return VectorState(clock, status.kind.name.lower().replace("_", " ") if status.feeding else "", bool(status.busy),
                       done)


def state(clock, value):
    """The :class:`State` packed in *value*."""
    status = STATUS.from_bits(value)
    waiting = waits(status.slice.as_bits())
    doing = {AT_WORK: "busy", IDLE: "idle"}.get(waiting, f"waits for {waiting}")
    return State(clock, status.cause.name.lower().replace("_", " "), status.starved.name.lower(), doing,
                 not status.writer_idle)
