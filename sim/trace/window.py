"""What a trace of a run holds: commands on the channels' command buses, and the channels' states.

The words are packed by :func:`sim.system.wrapper.wrapper_text` and written by ``sim/system/trace.cpp``.
"""

from dataclasses import dataclass

import numpy as np

from hw.dram.command import COMMAND_BITS
from hw.slice.issue import Status
from sim.lpddr.bus import BusDecoder
from sim.roofline.devices import CLOCK_HZ
from sim.system.wrapper import STATUS

__all__ = ["CLOCK_NS", "State", "Window", "read_window"]

RECORD = np.dtype([("clock", "<u8"), ("channel", "<u2"), ("kind", "<u2"), ("value", "<u4")])

COMMAND, STATE = 0, 1

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
    """Yields each :class:`sim.lpddr.bus.Command` of one channel but NOPs."""
    bus = BusDecoder()
    for clock, _, _, value in records.tolist():
        for phase in range(2):
            word = value >> (COMMAND_BITS + 1) * phase
            if word >> COMMAND_BITS & 1:
                command = bus.command(2 * clock + phase, word)
                if command.name != "NOP":
                    yield command


def state(clock, value):
    """The :class:`State` packed in *value*."""
    status = STATUS.from_bits(value)
    waiting = [name.removeprefix("waiting_") for name, _ in Status if name != "busy" and status.slice[name]]
    doing = f"waits for {waiting[0]}" if waiting else "busy" if status.slice.busy else "idle"
    return State(clock, status.cause.name.lower().replace("_", " "), status.starved.name.lower(), doing,
                 not status.writer_idle)
