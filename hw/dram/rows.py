"""Row commands of a channel: puts ACT, PRE and REF of bank pairs on command phase 0."""

from amaranth.hdl import C, Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.dram import command
from hw.dram.timing import Timing

__all__ = ["RowEngine"]


class RowEngine(Component):
    """Turns requests for bank pairs into commands, one command a clock, and keeps the rank's row timing.

    Enforces tRRD, tFAW, tAAD, tpbR2pbR, tpbR2act, ACT->REFpb, tPPD; what depends on a pair's own state is the
    requester's part (:class:`hw.dram.pairs.PairTable`). Priority: refresh, activate, precharge. An activate is ACT-1,
    ACT-2 of bank 0, then of bank 1 (five clocks at tRRD 6); a precharge is two PRE (two clocks); a refresh one REF.

    Members: ``refresh``, ``activate``, ``precharge``: requests, taken in the clock in which ``taken`` is high, which
    is also the clock of the first command. ``opened``, ``closed``: high with ``done_pair`` in the clock of the last
    command of an activate or a precharge. ``hold``: the phase is needed for CAS, no command in this clock.
    ``command``, ``cs``: this clock's command.
    """

    def __init__(self, timing: Timing, row_bits):
        self._timing = timing
        request = Signature({"valid": In(1), "pair": In(3), "taken": Out(1)})
        super().__init__({
            "refresh": Out(request),
            "activate": Out(Signature({**request.members, "row": In(row_bits)})),
            "precharge": Out(request),
            "opened": Out(1),
            "closed": Out(1),
            "done_pair": Out(3),
            "hold": In(1),
            "command": Out(command.COMMAND_BITS),
            "cs": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        t = self._timing
        rrd = max(t.row_to_row(t.trrd), 2)
        # First ACT-1 of pairs, and a second one and the next pair's first: the fifth ACT is always two of them later.
        pair_spacing = max(2 * rrd, -(-t.row_to_row(t.tfaw) // 2))
        after_second = pair_spacing - rrd
        after_refresh = t.row_to_row(t.tpbr2act)

        def timer(name, longest):
            """Counts down to 0, where it allows."""
            left = Signal(range(longest + 1), name=name)
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
            return left

        activate_wait = timer("activate_wait", max(pair_spacing, after_refresh))
        second_wait = timer("second_wait", rrd)
        refresh_wait = timer("refresh_wait", max(t.row_to_row(t.tpbr2pbr), rrd))

        pair = Signal(3)
        row = Signal.like(self.activate.row)
        bank = Signal(4)
        m.d.comb += self.done_pair.eq(pair)

        def put(word):
            m.d.comb += [self.command.eq(word), self.cs.eq(1)]

        def wait(left, clocks):
            """Load a timer that is read from the next clock on, keeping a longer wait."""
            with m.If(left <= clocks):
                m.d.sync += left.eq(clocks - 1)

        with m.FSM():
            with m.State("IDLE"):
                with m.If(~self.hold):
                    with m.If(self.refresh.valid & (refresh_wait == 0)):
                        m.d.comb += self.refresh.taken.eq(1)
                        put(command.ref(self.refresh.pair))
                        m.d.sync += refresh_wait.eq(t.row_to_row(t.tpbr2pbr) - 1)
                        wait(activate_wait, after_refresh)
                    with m.Elif(self.activate.valid & (activate_wait == 0)):
                        m.d.comb += self.activate.taken.eq(1)
                        put(command.act1(Cat(self.activate.pair, C(0, 1)), self.activate.row))
                        m.d.sync += [
                            pair.eq(self.activate.pair), row.eq(self.activate.row),
                            activate_wait.eq(pair_spacing - 1), second_wait.eq(rrd - 1),
                        ]
                        m.next = "ACT2_FIRST"
                    with m.Elif(self.precharge.valid):
                        m.d.comb += self.precharge.taken.eq(1)
                        put(command.pre(Cat(self.precharge.pair, C(0, 1))))
                        m.d.sync += pair.eq(self.precharge.pair)
                        m.next = "PRE_SECOND"
            with m.State("ACT2_FIRST"):
                with m.If(~self.hold):
                    put(command.act2(row))
                    m.next = "ACT1_SECOND"
            with m.State("ACT1_SECOND"):
                with m.If(~self.hold & (second_wait == 0)):
                    put(command.act1(bank, row))
                    wait(activate_wait, after_second)
                    wait(refresh_wait, rrd)
                    m.next = "ACT2_SECOND"
            with m.State("ACT2_SECOND"):
                with m.If(~self.hold):
                    put(command.act2(row))
                    m.d.comb += self.opened.eq(1)
                    m.next = "IDLE"
            with m.State("PRE_SECOND"):
                with m.If(~self.hold):
                    put(command.pre(bank))
                    m.d.comb += self.closed.eq(1)
                    m.next = "IDLE"
        m.d.comb += bank.eq(Cat(pair, C(1, 1)))
        return m
