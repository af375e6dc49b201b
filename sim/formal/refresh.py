"""Refresh is never later than allowed, if a pair is refreshed in the time that Policy.busy_clocks gives it."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst
from amaranth.lib.wiring import Component, In

from hw.dram.pairs import PAIRS
from hw.dram.policy import Policy
from hw.dram.refresh import Refresher
from hw.dram.timing import Timing
from sim.formal.peek import Opened
from sim.formal.property import always, every
from sim.lpddr.table import DeviceTiming

__all__ = ["RefreshProof"]

_EARLIER = 32
"""CK by which the device's account may start before the controller's, at most: its mode registers are complete then."""


class RefreshProof(Component):
    """The refresher with any answers from its neighbours; a REF comes at most ``busy`` clocks after its pair is held.

    Proved for one pair, any: REF_WINDOW, that two of its refreshes (and the first and the start) are within the limit
    of *device*; REF_DEBT, the device's running account; that the debt stays between -``pull_in`` and ``hard``.
    """

    def __init__(self, timing: Timing, policy: Policy, device: DeviceTiming):
        self._timing, self._policy, self._device = timing, policy, device
        super().__init__({"quiet": In(1), "scan_claimed": In(1), "scan_far": In(1), "taken": In(1), "early": In(5)})

    def elaborate(self, platform):
        m = Module()
        policy, device = self._policy, self._device
        period = self._timing.trefi // 16
        busy = policy.busy_clocks(self._timing)
        m.submodules.refresher = part = Opened(Refresher(self._timing, policy))
        ports = part.ports
        debt, done, elapsed, held = part["debt"], part["done"], part["elapsed"], ports.held
        taken = Signal()
        m.d.comb += [
            ports.enable.eq(1), ports.quiet.eq(self.quiet), ports.scan_claimed.eq(self.scan_claimed),
            ports.scan_far.eq(self.scan_far), taken.eq(self.taken & held), ports.taken.eq(taken),
        ]
        held_for = Signal(range(busy + 2))
        m.d.sync += held_for.eq(Mux(held & ~taken, held_for + 1, 0))
        always(m, "assumed_taken_in_time", ~held | taken | (held_for < busy), assume=True)

        # Scans until a pair that is not done in this round.
        steps = Signal(range(PAIRS))
        turned = Signal(PAIRS)
        m.d.comb += turned.eq(Cat(done, done) >> ports.scan_pair)
        for n in reversed(range(PAIRS)):
            with m.If(~turned[n]):
                m.d.comb += steps.eq(n)
        count = sum(done[n] for n in range(PAIRS))
        always(m, "debt", (debt <= policy.hard) & (debt >= -policy.pull_in))
        always(m, "invariant_scan", every(
            [elapsed < period], [~done.all()], [~held, ~done.bit_select(ports.held_pair, 1)], [held, held_for == 0],
            [held_for <= busy], [~held, debt > -policy.pull_in],
            [debt < policy.hard, held, elapsed + steps <= PAIRS], [debt < policy.hard, ~held,
                                                                   elapsed <= PAIRS + 1 + held_for],
        ))

        # One pair: refreshes of others, dues and clocks since its last REF or the start.
        pair = Signal(3)
        others, dues = Signal(range(2 * PAIRS)), Signal(range(policy.hard + policy.pull_in + 2 * PAIRS + 1))
        limit = (device.refresh_max - _EARLIER) // 2
        clocks = Signal(range(limit + 2))
        mine = Signal()
        m.d.comb += [pair.eq(AnyConst(3)), mine.eq(taken & (ports.held_pair == pair))]
        m.d.sync += [
            others.eq(Mux(mine, 0, others + taken)), dues.eq(Mux(mine, 0, dues + part["due"])),
            clocks.eq(Mux(mine, 1, clocks + 1)),
        ]
        always(m, "rule_REF_WINDOW", clocks <= limit)
        always(m, "invariant_window", every(
            [~done.bit_select(pair, 1), others + 1 <= count], [done.bit_select(pair, 1), others <= PAIRS - 1 + count],
            [dues <= debt + policy.pull_in + others + 1], [clocks <= dues * period + elapsed + 1 + period],
        ))

        # The device's account: eight REFpb become due each tREFI.
        refi, most, saved = device.refi, 72, -64
        part_of = Signal(range(refi + 2))
        owed, grown = Signal(range(saved - 8, most + 9)), Signal(range(saved - 16, most + 17))
        due, begun = Signal(), Signal()
        m.d.comb += [due.eq(part_of + 2 >= refi), grown.eq(owed + Mux(due, 8, 0) - taken)]
        m.d.sync += [
            part_of.eq(Mux(begun, Mux(due, part_of + 2 - refi, part_of + 2), 2 + self.early)),
            owed.eq(Mux(begun, Mux(grown < saved, saved, grown), 0)), begun.eq(1),
        ]
        always(m, "rule_REF_DEBT", ~due | (grown <= most))
        always(m, "invariant_account", every(
            [part_of < refi], [owed >= saved], [~begun, 2 * period * (owed - debt) + part_of <= 2 * elapsed + _EARLIER],
            [begun, ~held & (owed == 0) & (debt == 0) & (elapsed == 0) & (part_of == 0)],
        ))
        return m
