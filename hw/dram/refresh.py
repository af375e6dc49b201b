"""Per-bank refresh of a channel: which pair, and when."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from hw.dram.pairs import PAIRS
from hw.dram.policy import Policy
from hw.dram.timing import Timing

__all__ = ["Refresher"]


class Refresher(Component):
    """Keeps the debt of refreshes inside the JEDEC window and picks pairs that cost least.

    Every tREFI / 8 the debt grows by one REFpb. While it is positive (or while nothing is asked for, down to
    ``-Policy.pull_in``), one pair a clock is looked at; a pair is taken if it has not been refreshed in this round of
    eight and no chunk needs it soon (debt below ``urgent``), no chunk has claimed it (below ``hard``), or in any case
    (from ``hard`` on). The taken pair is held: no claim, no activation, no column command; it is precharged and
    refreshed. So the debt stays at most ``hard`` + 1, and a pair waits less than (pull_in + hard + 8) / 8 + 2 tREFI.

    Members: ``enable`` starts the accounts. ``quiet``: nothing is asked for. ``scan_pair`` with the answers
    ``scan_claimed``, ``scan_far``. ``held``, ``held_pair``: the taken pair. ``open``, ``can_precharge``,
    ``can_refresh``: answers of the pair table for it. ``precharge`` and ``refresh``: requests; ``taken``: the REF was
    issued.
    """

    def __init__(self, timing: Timing, policy: Policy):
        self._timing = timing
        self._policy = policy
        super().__init__({
            "enable": In(1),
            "quiet": In(1),
            "scan_pair": Out(3),
            "scan_claimed": In(1),
            "scan_far": In(1),
            "held": Out(1),
            "held_pair": Out(3),
            "open": In(PAIRS),
            "can_precharge": In(1),
            "can_refresh": In(1),
            "precharge": Out(1),
            "refresh": Out(1),
            "taken": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        policy = self._policy
        period = self._timing.trefi // 16
        elapsed = Signal(range(period))
        due = Signal()
        debt = Signal(signed((policy.hard + policy.pull_in + 2).bit_length() + 1))
        done = Signal(PAIRS)
        done_next = Signal(PAIRS)
        wanted, allowed, is_open = Signal(), Signal(), Signal()

        m.d.comb += due.eq(elapsed == period - 1)
        with m.If(self.enable):
            m.d.sync += elapsed.eq(elapsed + 1)
            with m.If(due):
                m.d.sync += elapsed.eq(0)
        with m.If(due & ~self.taken):
            m.d.sync += debt.eq(debt + 1)
        with m.If(self.taken & ~due):
            m.d.sync += debt.eq(debt - 1)

        m.d.comb += [
            wanted.eq((debt > 0) | self.quiet & (debt > -policy.pull_in)),
            allowed.eq(~done.bit_select(self.scan_pair, 1)
                       & (~self.scan_claimed & (self.scan_far | (debt >= policy.urgent)) | (debt >= policy.hard))),
            is_open.eq(self.open.bit_select(self.held_pair, 1)),
            self.precharge.eq(self.held & is_open & self.can_precharge),
            self.refresh.eq(self.held & ~is_open & self.can_refresh),
            done_next.eq(done | (1 << self.held_pair)),
        ]
        with m.If(self.enable & wanted & ~self.held):
            m.d.sync += self.scan_pair.eq(self.scan_pair + 1)
            with m.If(allowed):
                m.d.sync += [self.held.eq(1), self.held_pair.eq(self.scan_pair)]
        with m.If(self.taken):
            m.d.sync += [self.held.eq(0), done.eq(done_next)]
            with m.If(done_next.all()):
                m.d.sync += done.eq(0)
        return m
