"""Bandwidth over time: what the channels' clocks went to, window by window, and where operators begin."""

from dataclasses import dataclass

import numpy as np

from sim.report import CAUSES

__all__ = ["WINDOWS", "Strip", "operator_spans", "step_strip", "strip"]

WINDOWS = 400
"""Windows of a strip: about one for each pixel or two."""


@dataclass(frozen=True)
class Strip:
    """Clocks of one run in windows: ``edges`` (windows + 1), and ``counts`` (causes, windows) in channel clocks."""

    edges: np.ndarray
    counts: np.ndarray
    spans: tuple = ()  # (Operator, layer or -1, first clock, clock after) in order, of the first channel's slice


def strip(log, start=0, stop=None, windows=WINDOWS, spans=()):
    """The :class:`Strip` of clocks *start* to *stop* - 1 of a :class:`sim.losses.log.RunLog`."""
    stop = log.clocks if stop is None else stop
    edges = np.unique(np.linspace(start, stop, min(windows, max(1, stop - start)) + 1).round().astype(np.int64))
    counts = np.zeros((len(CAUSES), len(edges) - 1), np.int64)
    for channel in log.channels:
        cause = channel.field("cause")
        for number in range(1, len(CAUSES)):
            own = cause == number
            if own.any():
                counts[number] += np.diff(before(channel.clock[own], channel.clocks[own], edges))
    counts[0] = len(log.channels) * np.diff(edges) - counts.sum(0)
    return Strip(edges, counts, tuple(spans))


def before(clock, clocks, edges):
    """Clocks of runs that begin at *clock* and have *clocks* each, that come before each of *edges*."""
    sums = np.concatenate(([0], np.cumsum(clocks)))
    place = np.searchsorted(clock, edges)
    last = np.maximum(place - 1, 0)
    beyond = np.where(place > 0, np.maximum(clock[last] + clocks[last] - edges, 0), 0)
    return sums[place] - beyond


def step_strip(log, records, step, windows=WINDOWS):
    """The :class:`Strip` of one step: from its first record to the next step's first, in whichever slice is first."""
    count = len(records.slices)
    taken = [channel.taken for channel in log.channels]
    start = 0 if step == 0 else min(int(t[step * count]) for t in taken)
    later = [int(t[(step + 1) * count]) for t in taken if len(t) > (step + 1) * count]
    stop = min(later, default=log.clocks)
    return strip(log, start, stop, windows, operator_spans(taken[0], records, step, stop))


def operator_spans(taken, records, step, stop):
    """Yields (Operator, layer or -1, first clock, clock after) of each slice record of a step."""
    count = len(records.slices)
    begins = [*taken[step * count:(step + 1) * count].tolist(), stop]
    for n, operator in enumerate(records.slices[:len(begins) - 1]):
        yield operator, records.layers[n], begins[n], min(begins[n + 1], stop)
