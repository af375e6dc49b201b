"""Watchdog: ends a run in which nothing moves any more."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.sequencer.control import Fault, Wait
from hw.slice.issue import Status

__all__ = ["Watchdog"]

SETTLE = 64
"""Clocks without a step or a producer after which a fence is given up; more than an operand is on its way."""


class Watchdog(Component):
    """Counts clocks of a run in which no slice takes a beat or goes on to a record.

    FENCE or WATCHDOG after ``limit`` such clocks (0: never), at once if more have gone by when it is lowered. FENCE
    after 64 of them that are also ``hopeless``: the step has no further vector record and none is at work, so that
    nothing can bring what a slice waits for.

    Members: ``enable``, low in clocks that don't count, and that begin the count anew; ``status`` of the slices;
    ``fault``, not NONE until ``enable`` falls; ``channel``: the first whose slice waits for an operand, else the first
    whose slice waits, else 0; ``wait`` of its slice.
    """

    def __init__(self, config: Config):
        self._channels = config.channels
        super().__init__({
            "enable": In(1),
            "limit": In(32),
            "hopeless": In(1),
            "status": In(Status).array(config.channels),
            "fault": Out(Fault),
            "channel": Out(5),
            "wait": Out(Wait),
        })

    def elaborate(self, platform):
        m = Module()
        count, settling = Signal(32), Signal(range(SETTLE + 1))
        idle = Signal()
        waiting, fenced, named = (Signal(self._channels, name=name) for name in ("waiting", "fenced", "named"))
        moving, expired = Signal(self._channels), Signal()
        m.d.comb += expired.eq(((count >= self.limit) & (self.limit != 0))
                               | ((settling == SETTLE) & self.hopeless & fenced.any()))
        m.d.comb += idle.eq(self.enable & ~moving.any())
        m.d.sync += [
            count.eq(Mux(idle, count + 1, 0)),
            settling.eq(Mux(idle & self.hopeless, settling + (settling != SETTLE), 0)),
        ]
        for n, status in enumerate(self.status):
            m.d.comb += [
                waiting[n].eq(status.waiting_operand | status.waiting_maximum | status.waiting_results
                              | status.waiting_data),
                moving[n].eq(status.busy & ~waiting[n]),
                fenced[n].eq(status.waiting_operand),
            ]
        stuck = Signal(Status)
        m.d.comb += [stuck.eq(self.status[0]), named.eq(Mux(fenced.any(), fenced, waiting))]
        for n in reversed(range(self._channels)):
            with m.If(named[n]):
                m.d.comb += [self.channel.eq(n), stuck.eq(self.status[n])]
        for wait, is_stuck in ((Wait.OPERAND, stuck.waiting_operand), (Wait.MAXIMUM, stuck.waiting_maximum),
                              (Wait.RESULTS, stuck.waiting_results), (Wait.DATA, stuck.waiting_data)):
            with m.If(is_stuck):
                m.d.comb += self.wait.eq(wait)
        with m.If(expired):
            m.d.comb += self.fault.eq(Mux(fenced.any(), Fault.FENCE, Fault.WATCHDOG))
        return m
