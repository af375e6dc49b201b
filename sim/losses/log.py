"""What the simulator noted of lost clocks (``sim/system/losses.cpp``), run by run.

The monitor is on in every build: it is called only in clocks in which a channel read no beat, and when a slice goes on
to the next record. Clocks in which it is not called carried a read beat, so that the log accounts for every clock.
"""

from dataclasses import dataclass

import numpy as np

from sim.report import CAUSES
from sim.system.wrapper import LOST

__all__ = ["ChannelLog", "RunLog", "joined", "read_log"]

RECORD = np.dtype([("clock", "<u8"), ("clocks", "<u4"), ("channel", "<u2"), ("word", "<u2")])

CLOCKS, TAKEN, START, STOP = range(4)
"""Kinds of record, in the upper two bits of ``word``; in the lower ones :data:`sim.system.wrapper.LOST`."""


@dataclass(frozen=True)
class ChannelLog:
    """Runs of clocks of one channel in which it read no beat, in order; arrays of equal length but ``taken``.

    Clocks count from the start of the run.
    """

    clock: np.ndarray  # first clock of each
    clocks: np.ndarray  # how many
    word: np.ndarray  # LOST, as an integer
    taken: np.ndarray  # clocks in which the slice took a record; it has it in hand in the clock after

    def field(self, name):
        """A field of :data:`sim.system.wrapper.LOST` as integers."""
        field = LOST[name]
        return (self.word >> field.offset) & ((1 << field.width) - 1)

    @property
    def stop(self):
        """The clock after each run of clocks."""
        return self.clock + self.clocks

    @property
    def reads(self):
        """Beats that the channel had read before each run of clocks."""
        return self.clock - (np.cumsum(self.clocks) - self.clocks)

    @property
    def in_hand(self):
        """Slice records that had been taken before each run of clocks."""
        return np.searchsorted(self.taken, self.clock)


@dataclass(frozen=True)
class RunLog:
    """One run of the accelerator: the clocks that its performance counters counted."""

    clocks: int
    channels: tuple  # a ChannelLog each
    taken_before: tuple  # slice records that each channel took before the run

    @property
    def causes(self):
        """Channel clocks by cause, as the performance counters must have them."""
        counts = np.zeros(len(CAUSES), np.int64)
        for channel in self.channels:
            lost = channel.field("cause")
            counts += np.bincount(lost, channel.clocks * (lost != 0), len(CAUSES)).astype(np.int64)
        counts[0] = self.clocks * len(self.channels) - counts.sum()
        return dict(zip(CAUSES, counts.tolist(), strict=True))


def joined(runs):
    """The :class:`RunLog` of *runs* (one or more) that follow each other, without the clocks between."""
    offsets = np.concatenate(([0], np.cumsum([run.clocks for run in runs]))).tolist()
    channels = []
    for logs in zip(*(run.channels for run in runs), strict=True):
        moved = list(zip(logs, offsets, strict=False))
        channels.append(ChannelLog(
            np.concatenate([log.clock + offset for log, offset in moved]),
            np.concatenate([log.clocks for log in logs]), np.concatenate([log.word for log in logs]),
            np.concatenate([log.taken + offset for log, offset in moved])))
    return RunLog(offsets[-1], tuple(channels), runs[0].taken_before)


def read_log(path, channels):
    """The :class:`RunLog` of each run in the file *path*, in order."""
    records = np.fromfile(path, RECORD)
    kind = records["word"] >> 14
    starts, stops = (records["clock"][kind == which].astype(np.int64) for which in (START, STOP))
    if len(starts) != len(stops):
        raise ValueError(f"{path}: {len(starts)} runs started, {len(stops)} ended")
    parts = []
    for n in range(channels):
        own = records["channel"] == n
        lost, taken = records[own & (kind == CLOCKS)], records[own & (kind == TAKEN)]
        parts.append((lost, lost["clock"].astype(np.int64), taken["clock"].astype(np.int64)))
    runs = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        logs, before = [], []
        for lost, clock, taken in parts:
            first, last = np.searchsorted(clock, (start, stop))
            here = lost[first:last]
            sooner, later = np.searchsorted(taken, (start, stop))
            logs.append(ChannelLog(clock[first:last] - start, here["clocks"].astype(np.int64),
                                   here["word"].astype(np.int64), taken[sooner:later] - start))
            before.append(int(sooner))
        runs.append(RunLog(stop - start, tuple(logs), tuple(before)))
    return runs
