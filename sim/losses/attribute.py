"""To which operator each lost channel clock belongs, and to what.

* **Back pressure**: to the record that the slice has in hand, and what it waits for. Credits take some clocks from the
  slice to the controller, so clocks of a run of back pressure in which the slice is at work again belong to what it
  last waited for in that run.
* **Everything else**: to the access record whose beat is late. Reads are issued in order, so that is the record of
  which the next beat is; the beats of a channel are counted. If the next beat is a written one, to the writes, but for
  clocks in which nothing was asked for: writes wait for nobody.
* When a step's last beat has been read and no step follows, to the argmax.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hw.dram.causes import Cause
from hw.fetch.reader import Starved
from hw.slice.issue import Status
from sim.losses.operators import Operator
from sim.report import CAUSES

__all__ = ["AT_WORK", "IDLE", "Key", "Steps", "attribute", "waits"]

WRITES = Operator("writes", -1, "none")
ARGMAX = Operator("argmax", -1, "none")

WAITS = ("operand", "maximum", "results", "data")
"""Waits of a slice, in the order of :data:`hw.slice.issue.Status` from bit 1 on."""

AT_WORK, IDLE = "work", "program"
"""The slice takes beats; it has no record."""


@dataclass(frozen=True, order=True)
class Key:
    """What a channel clock was lost to."""

    operator: Operator
    cause: str  # of sim.report.CAUSES
    reason: str  # back pressure: what the slice waits for; no request: what the reader does; else empty


@dataclass(frozen=True)
class Steps:
    """What a run executed: *count* steps from *position* on, each with *records*."""

    records: object  # sim.losses.operators.StepRecords
    position: int
    count: int


def attribute(log, steps, layout):
    """Counter of :class:`Key` to channel clocks for a run; beats that were written count as data of nobody.

    *log*: its :class:`sim.losses.log.RunLog`; *steps*: the :class:`Steps`. The counts of a cause sum to the
    performance counter's. ``ValueError`` if the beats or the slices' records are not those of *steps*.
    """
    total = Counter()
    for number, channel in enumerate(log.channels):
        ends = read_ends(steps, layout, number)
        written = int(channel.clocks[channel.field("write_beat") == 1].sum())
        read = log.clocks - int(channel.clocks.sum())
        if read != ends[-1]:
            raise ValueError(f"channel {number} read {read} beats in the clocks of its run, not {ends[-1]} "
                             f"(and wrote {written})")
        taken = steps.count * len(steps.records.slices)
        if len(channel.taken) != taken:
            raise ValueError(f"the slice of channel {number} took {len(channel.taken)} records, not {taken}")
        total += of_channel(channel, ends, steps.records)
    return total


def read_ends(steps, layout, channel):
    """Beats that *channel* has read when each read of the run is over."""
    base, parts = 0, []
    for n in range(steps.count):
        parts.append(base + steps.records.read_ends(layout, steps.position + n, channel))
        base = parts[-1][-1]
    return np.concatenate(parts)


def of_channel(log, ends, records):
    """Counter of the lost clocks of one channel."""
    if not len(log.clock):
        return Counter()
    cause, writes = log.field("cause"), log.field("write_beat") == 1
    held = cause == Cause.BACK_PRESSURE.value
    reads = np.searchsorted(ends, log.reads, side="right")
    late = np.where(before_write(log, writes) & (cause != Cause.NO_REQUEST.value), -1, reads)
    in_hand, status = carried(log, held)
    starved = log.field("starved")
    # One integer a distinct combination, so that Python sees only those.
    which = np.where(held, in_hand, late) + 1
    detail = np.where(held, status, starved)
    lost = (cause != 0) & ~writes
    combined = ((which << 16) | (detail << 8) | cause)[lost]
    distinct, place = np.unique(combined, return_inverse=True)
    clocks = np.bincount(place, log.clocks[lost], len(distinct)).astype(np.int64)
    counts = Counter()
    for value, count in zip(distinct.tolist(), clocks.tolist(), strict=True):
        counts[key(value, records, len(ends))] += count
    return counts


def key(value, records, reads):
    """The :class:`Key` of a combination."""
    which, detail, cause = (value >> 16) - 1, value >> 8 & 0xFF, value & 0xFF
    name = CAUSES[cause]
    if cause == Cause.BACK_PRESSURE.value:
        return Key(records.slices[which % len(records.slices)], name, waits(detail))
    if which < 0:
        return Key(WRITES, name, "")
    operator = ARGMAX if which == reads else records.reads[which % len(records.reads)]
    return Key(operator, name, Starved(detail).name.lower() if cause == Cause.NO_REQUEST.value else "")


def waits(status):
    """What a slice of :data:`hw.slice.issue.Status` *status* waits for."""
    for name in WAITS:
        if status >> Status[f"waiting_{name}"].offset & 1:
            return name
    return AT_WORK if status >> Status["busy"].offset & 1 else IDLE


def before_write(log, writes):
    """Whether the first beat after each run of clocks is a written one."""
    follows = np.append(log.clock[1:] == log.stop[:-1], False)
    ends = writes | ~follows  # a written beat, or a read one comes after
    place = np.where(ends, np.arange(len(ends)), len(ends))
    return writes[np.minimum.accumulate(place[::-1])[::-1]]


def carried(log, held):
    """(slice record, status) of each run of back pressure: those of the last in which the slice waited, if any has in
    the same unbroken back pressure; else its own."""
    status = log.field("slice")
    busy = status >> Status["busy"].offset & 1
    in_hand = log.in_hand - busy
    waiting = status >> 1 & ((1 << len(WAITS)) - 1) != 0
    joined = np.zeros(len(held), bool)
    joined[1:] = held[1:] & held[:-1] & (log.clock[1:] == log.stop[:-1])
    index = np.arange(len(held))
    start = np.maximum.accumulate(np.where(joined, 0, index))
    last_wait = np.maximum.accumulate(np.where(waiting & held, index, -1))
    source = np.where(last_wait >= start, last_wait, index)
    return in_hand[source], status[source]
