"""Fluid model of one channel: the memory fills the prefetch FIFO, the slice drains it, each at its own pace.

Rates are constant between events (an item ends, the FIFO is full or empty, a gate opens, what was issued arrives), so
the course takes a few steps an item, however long it is.
"""

from collections import deque
from dataclasses import dataclass

__all__ = ["GATE", "Fetch", "Stream"]

EPSILON = 1e-6

GATE = "token boundary"
"""Cause of what is lost at a gate."""


@dataclass(frozen=True)
class Fetch:
    """An item of the memory's order: *beats* for the FIFO, or none; the bus needs *clocks* if nothing holds it up."""

    beats: float
    clocks: float
    gate: bool = False  # waits for Stream.open

    @property
    def rate(self):
        """Beats a clock."""
        return self.beats / self.clocks


class Stream:
    """``depth`` credits, taken at issue and given back when the slice takes the beat, ``latency`` clocks later or more.

    The owner is the slice: it calls :meth:`wait` and :meth:`take`, and the memory runs beside. ``now``: clocks since
    the start. ``lost``: bus clocks in which the memory had something to issue but no credit (by the cause that the
    slice gave), or stood at a gate.
    ``present``: beats in the FIFO at the start.
    """

    def __init__(self, fetches, depth, latency, present=0):
        self.now = 0.0
        self.lost = {}
        self._fetches = iter(fetches)
        self._depth, self._latency = depth, latency
        self._used = self._arrived = float(present)
        self._flow = 0.0  # beats a clock that arrive
        self._changes = deque()  # (time, flow from then on)
        self._issuing = 0.0
        self._gate = float("inf")
        self._next()

    def open(self, time):
        """The next gate opens at *time*."""
        self._gate = time

    def wait(self, until, cause):
        """The slice takes nothing before *until*."""
        while self.now < until - EPSILON:
            self._step(0.0, until - self.now, cause)

    def take(self, beats, clocks, cause):
        """The slice takes *beats*, in at least *clocks* clocks; returns the clock of the last."""
        if beats <= 0:
            self.wait(self.now + clocks, cause)
            return self.now
        pace = beats / clocks
        while beats > EPSILON:
            beats -= self._step(pace, beats / pace, cause)
        return self.now

    def _next(self):
        self._fetch = next(self._fetches, None)
        self._left = self._fetch.clocks if self._fetch else 0.0  # bus clocks

    def _progress(self, taking):
        """Bus clocks a clock of the memory's item, 0 to 1, while the slice takes *taking* beats a clock."""
        if self._fetch is None or (self._fetch.gate and self.now < self._gate - EPSILON):
            return 0.0
        if self._fetch.beats == 0 or self._used < self._depth - EPSILON:
            return 1.0
        return min(1.0, taking / self._fetch.rate)

    def _step(self, pace, most, cause):
        """Go on to the next event, *most* clocks at most; returns the beats taken."""
        while self._changes and self._changes[0][0] <= self.now + EPSILON:
            self._flow = self._changes.popleft()[1]
        taking = pace if self._arrived > EPSILON else min(pace, self._flow)
        progress = self._progress(taking)
        issuing = progress * self._fetch.rate if self._fetch else 0.0
        if abs(issuing - self._issuing) > EPSILON:
            self._issuing = issuing
            self._changes.append((self.now + self._latency, issuing))

        ends = [most * pace / taking if taking > EPSILON else most] if taking > EPSILON or pace == 0 else []
        if self._changes:
            ends.append(self._changes[0][0] - self.now)
        if progress > 0:
            ends.append(self._left / progress)
        elif self._fetch is not None and self._fetch.gate and self._gate > self.now:
            ends.append(self._gate - self.now)
        if taking > self._flow + EPSILON and self._arrived > EPSILON:
            ends.append(self._arrived / (taking - self._flow))
        if issuing > taking + EPSILON and self._used < self._depth:
            ends.append((self._depth - self._used) / (issuing - taking))
        span = min(ends, default=float("inf"))
        if span == float("inf"):
            raise ValueError(f"the slice waits for beats that never come ({cause})")
        span = max(span, 0.0)

        self.now += span
        self._arrived = max(0.0, self._arrived + (self._flow - taking) * span)
        self._used = min(self._depth, max(0.0, self._used + (issuing - taking) * span))
        if self._fetch is not None:
            gated = self._fetch.gate and progress == 0
            self._lose(GATE if gated else cause, (1 - progress) * span)
            self._left -= progress * span
            if self._left <= EPSILON:
                self._next()
        return taking * span

    def _lose(self, cause, clocks):
        if clocks > EPSILON:
            self.lost[cause] = self.lost.get(cause, 0.0) + clocks
