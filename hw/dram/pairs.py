"""Bank state of a channel: a table of timestamps, one entry a bank pair."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.dram.timing import Timing

__all__ = ["PAIRS", "PairTable", "time_bits"]

PAIRS = 8


def time_bits(timing: Timing):
    """Width of the running clock: half its range exceeds the longest time between two refreshes of a pair, which
    rewrite the pair's timestamps, so that differences never wrap."""
    return (timing.open_max // 2 + 4 * timing.trfcpb).bit_length() + 1


class PairTable(Component):
    """Open row of each pair, and which commands its own timing allows now.

    Enforces tRCD, tRAS, tRP, tRC, RD->PRE, WR->PRE, tRFCpb. The other rules are enforced by
    :class:`hw.dram.rows.RowEngine` (tRRD, tFAW, tpbR2pbR, tpbR2act, tPPD) and :class:`hw.dram.columns.ColumnEngine`
    (tCCD, tWTR, RD->WR, WCK). A pair is precharged bank 0 then bank 1 in the next clock, activated bank 0 first.

    Lookups answer in the same clock; updates are seen in the next.

    Members: ``open``, one bit a pair. ``column.ready``: the pair is open and its bank in the group BG1 = ``bg`` can
    take a column command. ``prepare``, ``refresh``: ``can_precharge``; ``activate.ready``; ``refresh.ready``: the
    closed pair can be refreshed. ``prepare.row``: row that the pair was last claimed for. Updates, each a valid with
    a pair: ``opened`` (second ACT-2), ``closed`` (second PRE), ``refreshed`` (REF), ``accessed`` (RD or WR),
    ``claimed`` (with row); none may come in the first eight clocks after reset.
    """

    def __init__(self, timing: Timing, row_bits):
        self._timing = timing
        self._row_bits = row_bits
        if timing.row_to_row(timing.tppd) > 1:
            raise ValueError(f"tPPD is {timing.tppd} CK; two PRE a controller clock apart are built in")
        if not 2 <= timing.row_to_column(timing.trcd) < timing.row_to_row(timing.tras) - 1:
            raise ValueError(f"tRCD is {timing.trcd} CK; it must be 4 CK or more and end before tRAS {timing.tras}")

        def update(**extra):
            return Out(Signature({"valid": In(1), "pair": In(3), **extra}))

        super().__init__({
            "open": Out(PAIRS),
            "column": Out(Signature({"pair": In(3), "bg": In(1), "ready": Out(1)})),
            "prepare": Out(Signature({"pair": In(3), "row": Out(row_bits), "can_precharge": Out(1)})),
            "refresh": Out(Signature({"pair": In(3), "can_precharge": Out(1), "ready": Out(1)})),
            "activate": Out(Signature({"pair": In(3), "ready": Out(1)})),
            "opened": update(),
            "closed": update(),
            "refreshed": update(),
            "accessed": update(bg=In(1), write=In(1)),
            "claimed": update(row=In(row_bits)),
        })

    def elaborate(self, platform):
        m = Module()
        t = self._timing
        bits = time_bits(t)
        now = Signal(bits)
        m.d.sync += now.eq(now + 1)

        def table(name, width=bits):
            memory = Memory(shape=width, depth=PAIRS, init=[])
            m.submodules[name] = memory
            return memory

        def look(memory, pair):
            port = memory.read_port(domain="comb")
            m.d.comb += port.addr.eq(pair)
            return port.data

        def reached(time, name):
            """Signal that is 1 once *now* is at or after *time*."""
            elapsed = Signal(bits, name=f"{name}_elapsed")
            m.d.comb += elapsed.eq(now - time)
            return ~elapsed[-1]

        opened_done = table("opened_done")
        read_done = table("read_done")
        write_done = table("write_done")
        closed_done = table("closed_done")
        rows = table("rows", self._row_bits)

        # After reset the times in the memories mean nothing: every entry becomes "now".
        sweep = Signal(range(PAIRS + 1))
        sweeping = Signal()
        m.d.comb += sweeping.eq(~sweep[-1])
        m.d.sync += sweep.eq(sweep + sweeping)

        def write(memory, valid, pair, value):
            port = memory.write_port()
            m.d.comb += [port.addr.eq(pair), port.data.eq(value), port.en.eq(valid)]
            with m.If(sweeping):  # wins over no event: none comes that early
                m.d.comb += [port.addr.eq(sweep), port.data.eq(now), port.en.eq(1)]

        write(opened_done, self.opened.valid, self.opened.pair, now + t.row_to_row(t.tras) - 1)
        write(rows, self.claimed.valid, self.claimed.pair, self.claimed.row)
        write(read_done, self.accessed.valid & ~self.accessed.write, self.accessed.pair,
              now + t.column_to_row(t.rd_to_pre) - self.accessed.bg)
        write(write_done, self.accessed.valid & self.accessed.write, self.accessed.pair,
              now + t.column_to_row(t.wr_to_pre) - self.accessed.bg)
        # Keeps them from growing older than half the clock's range.
        write(read_done, self.refreshed.valid, self.refreshed.pair, now)
        write(write_done, self.refreshed.valid, self.refreshed.pair, now)
        done_pair = Signal(3)
        done = Signal(bits)
        m.d.comb += [done_pair.eq(self.closed.pair), done.eq(now + t.row_to_row(t.trppb) - 1)]
        with m.If(self.refreshed.valid):
            m.d.comb += [done_pair.eq(self.refreshed.pair), done.eq(now + t.row_to_row(t.trfcpb))]
        write(closed_done, self.closed.valid | self.refreshed.valid, done_pair, done)

        with m.If(self.opened.valid):
            m.d.sync += self.open.bit_select(self.opened.pair, 1).eq(1)
        with m.If(self.closed.valid):
            m.d.sync += self.open.bit_select(self.closed.pair, 1).eq(0)

        for name, port in (("prepare", self.prepare), ("refresh", self.refresh)):
            m.d.comb += port.can_precharge.eq(reached(look(opened_done, port.pair), f"{name}_opened")
                                              & reached(look(read_done, port.pair), f"{name}_read")
                                              & reached(look(write_done, port.pair), f"{name}_write"))
        m.d.comb += [
            self.prepare.row.eq(look(rows, self.prepare.pair)),
            self.activate.ready.eq(reached(look(closed_done, self.activate.pair), "activate")),
            self.refresh.ready.eq(reached(look(closed_done, self.refresh.pair) + 1, "refresh_closed")),
        ]
        self._elaborate_usable(m)
        return m

    def _elaborate_usable(self, m):
        """tRCD: a bit for each bank, so that a column's answer takes no subtraction.

        The pair is opened by the second bank's ACT-2; the first bank's is at least a clock earlier.
        """
        wait = self._timing.row_to_column(self._timing.trcd)
        usable = [Signal(PAIRS, name=f"usable_{group}") for group in range(2)]
        event, pair = self.opened.valid, self.opened.pair
        for clocks in range(wait):
            if clocks >= wait - 2:
                with m.If(event):
                    m.d.sync += usable[clocks - wait + 2].bit_select(pair, 1).eq(1)
            if clocks < wait - 1:
                later = Signal(name=f"opened_{clocks + 1}"), Signal(3, name=f"opened_pair_{clocks + 1}")
                m.d.sync += [later[0].eq(event), later[1].eq(pair)]
                event, pair = later
        with m.If(self.closed.valid):
            m.d.sync += [bits.bit_select(self.closed.pair, 1).eq(0) for bits in usable]
        m.d.comb += self.column.ready.eq(Mux(self.column.bg, *(bits.bit_select(self.column.pair, 1)
                                                               for bits in reversed(usable))))
