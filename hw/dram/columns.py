"""Column commands of a channel: the running chunk, one beat a clock."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.dram import command
from hw.dram.lookahead import ChunkLayout
from hw.dram.timing import COLUMN_PHASE, Timing

__all__ = ["ColumnEngine"]


class ColumnEngine(Component):
    """Issues the RD or WR of the running chunk on command phase 1 whenever the rules allow, and CAS before it.

    Enforces tCCD_S, tCCD_L, RD->WR, tWTR_S, tWTR_L and WCK sync from a history of the last commands, and credits;
    whether the bank is ready (tRCD) is ``ready``. A read is issued only against a credit. CAS goes on phase 0 of the
    same clock.

    Members: ``head``: the next chunk, taken in the clock of the running chunk's last beat. ``pair``, ``bg``, ``row``:
    of the next beat, with ``active``; ``ready``: the pair table's answer; ``held``: refresh wants the pair.
    ``write_low``: address bits 6..0 of the next write beat. ``credit``: entries freed in the receiving FIFOs.
    ``issue``, ``write``, ``cas``, ``command``: what this clock issues; ``finished``: it is the chunk's last beat.
    ``no_row``, ``same_group``, ``turning``: why not, for the cause of a lost clock; no credit if none of them.
    ``rddata_en``: trddata_en after a RD; ``wck_en``: WCK in sync, both for commands that leave a register in the clock
    after ``issue``.
    """

    def __init__(self, beat_bits, fifo_beats, timing: Timing):
        if (timing.rl + COLUMN_PHASE) % 2:
            raise ValueError(f"RL {timing.rl} from phase {COLUMN_PHASE} does not start data on phase 0 (not built)")
        if timing.dfi_read_ahead % 2 or not 0 <= timing.dfi_read_ahead < timing.rl:
            raise ValueError(f"dfi_read_ahead is {timing.dfi_read_ahead} CK; it must be even, 0 to RL {timing.rl}")
        if timing.column_to_column(timing.tccd_s) != 1 or timing.column_to_column(timing.tccd_l) > 2:
            raise ValueError(f"tCCD_S {timing.tccd_s} and tCCD_L {timing.tccd_l} must be one and at most two clocks")
        self._layout = ChunkLayout(beat_bits)
        self._fifo_beats = fifo_beats
        self._timing = timing
        super().__init__({
            "head": In(stream.Signature(self._layout)),
            "active": Out(1),
            "pair": Out(3),
            "bg": Out(1),
            "row": Out(beat_bits - 10),
            "ready": In(1),
            "held": In(1),
            "write_low": In(7),
            "credit": In(2),
            "issue": Out(1),
            "write": Out(1),
            "cas": Out(1),
            "command": Out(command.COMMAND_BITS),
            "finished": Out(1),
            "no_row": Out(1),
            "same_group": Out(1),
            "turning": Out(1),
            "rddata_en": Out(1),
            "wck_en": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        upper = Signal(len(self.row) + 3)
        low, left = Signal(7), Signal(7)
        credits = Signal(range(self._fifo_beats + 1), init=self._fifo_beats)
        next_low = Signal(7)
        no_credit, wck_ready = Signal(), Signal()

        m.d.comb += [
            self.pair.eq(upper),
            self.row.eq(upper[3:]),
            next_low.eq(Mux(self.write, self.write_low, low)),
            self.bg.eq(next_low),
            no_credit.eq(~self.write & (credits == 0)),
            self.no_row.eq(~self.ready | self.held),
            self.issue.eq(self.active & ~self.no_row & ~no_credit & ~self.same_group & ~self.turning),
            self.finished.eq(self.issue & (left == 0)),
            self.command.eq(command.column(self.write, Cat(self.pair, self.bg), next_low[1:])),
            self.head.ready.eq(~self.active | self.finished),
        ]
        m.d.sync += credits.eq(credits + self.credit - (self.issue & ~self.write))
        with m.If(self.issue):
            m.d.sync += [low.eq(low + 1), left.eq(left - 1)]
        with m.If(self.head.ready):
            chunk = self.head.payload
            m.d.sync += [
                self.active.eq(self.head.valid), self.write.eq(chunk.write),
                upper.eq(chunk.beat[7:]), low.eq(chunk.beat), left.eq(chunk.last),
            ]
        turn = self._elaborate_history(m)
        self._elaborate_wck(m, wck_ready)
        m.d.comb += self.turning.eq(turn | ~wck_ready)

        due = Signal(self._timing.column_to_row(self._timing.trddata_en))
        m.d.sync += [due.eq((due << 1) | (self.issue & ~self.write)), self.rddata_en.eq(due[-1])]
        return m

    def _elaborate_history(self, m):
        """The last commands; *k* + 1 clocks ago is bit *k*. Returns "the other direction was too recent"."""
        t = self._timing
        write_read, write_read_same = t.column_to_column(t.wr_to_rd), t.column_to_column(t.wr_to_rd_same)
        read_write, read_write_same = t.column_to_column(t.rd_to_wr), t.column_to_column(t.rd_to_wr_same)
        depth = max(write_read_same, read_write_same, 2) - 1
        reads, writes = Signal(depth), Signal(depth)
        groups = Signal(2 * depth)
        group = Signal(2)
        m.d.comb += group.eq(Cat(self.pair[2], self.bg))
        m.d.sync += [
            reads.eq((reads << 1) | (self.issue & ~self.write)),
            writes.eq((writes << 1) | (self.issue & self.write)),
            groups.eq((groups << 2) | group),
        ]

        def same(history, first, end):
            """A command of *history*, *first* to *end* - 1 clocks ago, was for the same bank group."""
            hit = C(0, 1)
            for clocks in range(first, end):
                hit = hit | (history[clocks - 1] & (groups.word_select(clocks - 1, 2) == group))
            return hit

        together = t.column_to_column(t.tccd_l)
        after_write, after_read = Signal(), Signal()
        m.d.comb += [
            self.same_group.eq(same(reads | writes, 1, together)),
            after_write.eq(writes[:write_read - 1].any() | same(writes, write_read, write_read_same)),
            after_read.eq(reads[:read_write - 1].any() | same(reads, read_write, read_write_same)),
        ]
        return Mux(self.write, after_read, after_write)

    def _elaborate_wck(self, m, ready):
        """``left``: CK from this clock's phase 0 to the expiry of WCK sync, 0 when it is over."""
        t = self._timing
        left = Signal(range(max(t.rd_wck, t.wr_wck) + 2))
        after, passed = Signal.like(left), Signal.like(left)
        m.d.comb += [
            self.cas.eq(self.issue & (left == 0)),
            ready.eq((left == 0) | (left > COLUMN_PHASE)),
            passed.eq(Mux(left < 2, 0, left - 2)),
            after.eq(Mux(self.write, t.wr_wck, t.rd_wck) + COLUMN_PHASE - 2),
        ]
        with m.If(self.issue & (after > passed)):
            m.d.sync += left.eq(after)
        with m.Else():
            m.d.sync += left.eq(passed)
        m.d.sync += self.wck_en.eq(self.issue | (passed != 0))
