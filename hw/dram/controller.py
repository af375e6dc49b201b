"""Controller of one LPDDR5X x16 channel."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out, connect

from hw.config import Config
from hw.dram import command
from hw.dram.causes import Cause
from hw.dram.columns import ColumnEngine
from hw.dram.interface import WckToggle, dfi_signature
from hw.dram.lookahead import Lookahead
from hw.dram.pairs import PAIRS, PairTable
from hw.dram.policy import Policy
from hw.dram.refresh import Refresher
from hw.dram.rows import RowEngine
from hw.dram.startup import Startup
from hw.dram.timing import Timing, timing_for
from hw.dram.writes import WriteQueue
from hw.interfaces import chunk_read_signature, write_signature

__all__ = ["ChannelController"]


class ChannelController(Component):
    """In-order controller with look-ahead, per-bank refresh and grouped writes.

    A beat address has the bank group bit BG1 in bit 0, the column C[5:0] in bits 6..1, the bank pair (BG0, BA1, BA0)
    in bits 9..7 and the row above: a run of beats alternates two bank groups, and one pair's row is 128 beats.

    Reads are answered in order, one beat a clock when rows are open; RD issue to ``read.valid`` is RL and the PHY's
    delay plus one clock. Writes are drained in groups between chunks; a read does not look into the write queue: wait
    for ``write.idle`` before reading what was written. No command is accepted before ``ready``.

    Members: ``read``, ``write``: native ports; ``dfi``; ``ready``: initialised; ``cause``: why this clock had a data
    beat or not (:class:`hw.dram.causes.Cause`; NO_REQUEST before ``ready``); ``read_beat``, ``write_beat``,
    ``refreshed``: pulses for counters, in the same clock as the ``cause``, which is the clock that the command is on
    the DFI bus.
    """

    def __init__(self, config: Config, timing: Timing | None = None, policy: Policy | None = None):
        self._config = config
        self._timing = timing or timing_for(config.density_gbit)
        self._policy = policy or Policy()
        self._policy.check(self._timing)
        super().__init__({
            "read": In(chunk_read_signature()),
            "write": In(write_signature()),
            "dfi": Out(dfi_signature()),
            "ready": Out(1),
            "cause": Out(Cause, init=Cause.NO_REQUEST),
            "read_beat": Out(1),
            "write_beat": Out(1),
            "refreshed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        t, policy, bits = self._timing, self._policy, self._config.beat_address_bits
        m.submodules.startup = startup = Startup(t)
        m.submodules.pairs = pairs = PairTable(t, bits - 10)
        m.submodules.rows = rows = RowEngine(t, bits - 10)
        m.submodules.refresher = refresher = Refresher(t, policy)
        m.submodules.lookahead = ahead = Lookahead(bits, policy, policy.refresh_beats(t))
        m.submodules.columns = columns = ColumnEngine(bits, self._config.fifo_beats, t)
        m.submodules.writes = writes = WriteQueue(self._config.write_queue, bits, t, policy)

        quiet = self._elaborate_intake(m, startup, ahead, columns, writes)
        connect(m, ahead=ahead.head, columns=columns.head)
        m.d.comb += [
            # beats of the running chunk
            pairs.column.pair.eq(columns.pair), pairs.column.bg.eq(columns.bg), columns.ready.eq(pairs.column.ready),
            columns.held.eq(refresher.held & (refresher.held_pair == columns.pair)),
            columns.write_low.eq(writes.low), columns.credit.eq(self.read.credit),
            writes.issued.eq(columns.issue & columns.write),
            pairs.accessed.valid.eq(columns.issue), pairs.accessed.pair.eq(columns.pair),
            pairs.accessed.bg.eq(columns.bg), pairs.accessed.write.eq(columns.write),
            # rows of the coming chunks
            ahead.issued.eq(columns.issue), ahead.finished.eq(columns.finished), ahead.finished_pair.eq(columns.pair),
            ahead.open.eq(pairs.open), ahead.held.eq(refresher.held), ahead.held_pair.eq(refresher.held_pair),
            pairs.claimed.valid.eq(ahead.claim), pairs.claimed.pair.eq(ahead.claim_pair),
            pairs.claimed.row.eq(ahead.claim_new_row),
            pairs.prepare.pair.eq(ahead.claim_pair), ahead.claim_row.eq(pairs.prepare.row),
            ahead.can_precharge.eq(pairs.prepare.can_precharge),
            pairs.activate.pair.eq(ahead.activate.pair), ahead.can_activate.eq(pairs.activate.ready),
            ahead.reopen.eq(columns.active & ~pairs.open.bit_select(columns.pair, 1)),
            ahead.reopen_pair.eq(columns.pair), ahead.reopen_row.eq(columns.row),
            # refresh
            refresher.enable.eq(self.ready), refresher.quiet.eq(quiet),
            ahead.scan_pair.eq(refresher.scan_pair), refresher.scan_claimed.eq(ahead.scan_claimed),
            refresher.scan_far.eq(ahead.scan_far), refresher.open.eq(pairs.open),
            pairs.refresh.pair.eq(refresher.held_pair), refresher.can_precharge.eq(pairs.refresh.can_precharge),
            refresher.can_refresh.eq(pairs.refresh.ready), refresher.taken.eq(rows.refresh.taken),
            # row commands
            rows.hold.eq(columns.cas),
            rows.refresh.valid.eq(refresher.refresh), rows.refresh.pair.eq(refresher.held_pair),
            rows.activate.valid.eq(ahead.activate.valid), rows.activate.pair.eq(ahead.activate.pair),
            rows.activate.row.eq(ahead.activate.row), ahead.activate.taken.eq(rows.activate.taken),
            rows.precharge.valid.eq(refresher.precharge | ahead.precharge),
            rows.precharge.pair.eq(Mux(refresher.precharge, refresher.held_pair, ahead.claim_pair)),
            pairs.opened.valid.eq(rows.opened), pairs.opened.pair.eq(rows.done_pair),
            pairs.closed.valid.eq(rows.closed), pairs.closed.pair.eq(rows.done_pair),
            pairs.refreshed.valid.eq(rows.refresh.taken), pairs.refreshed.pair.eq(refresher.held_pair),
        ]
        self._elaborate_dfi(m, startup, rows, columns, writes)
        self._elaborate_cause(m, pairs, refresher, rows, ahead, columns)
        return m

    def _elaborate_intake(self, m, startup, ahead, columns, writes):
        """Chunks of reads, or of writes while the write queue drains. Returns "nothing asked for in a while"."""
        read = self.read.command
        reads_allowed = Signal()
        quiet_for = Signal(range(self._policy.quiet_clocks + 1))
        quiet = Signal()
        m.d.comb += [
            self.ready.eq(startup.done),
            reads_allowed.eq(self.ready & ~writes.draining),
            ahead.chunks.valid.eq(Mux(writes.draining, writes.chunks.valid, read.valid & self.ready)),
            read.ready.eq(reads_allowed & ahead.chunks.ready),
            writes.chunks.ready.eq(writes.draining & ahead.chunks.ready),
            ahead.chunks.payload.eq(writes.chunks.payload),
            writes.flush.eq(self.read.flush), writes.quiet.eq(quiet),
            writes.read_waiting.eq(read.valid), writes.read_taken.eq(read.valid & read.ready),
            quiet.eq(quiet_for == self._policy.quiet_clocks),
        ]
        with m.If(~writes.draining):
            m.d.comb += [
                ahead.chunks.payload.write.eq(0), ahead.chunks.payload.beat.eq(read.payload.beat),
                ahead.chunks.payload.last.eq(read.payload.last),
            ]
        with m.If(read.valid | writes.draining | ahead.waiting | columns.active):
            m.d.sync += quiet_for.eq(0)
        with m.Elif(~quiet):
            m.d.sync += quiet_for.eq(quiet_for + 1)
        # Writes wait for the start-up like reads.
        m.d.comb += [
            writes.port.beats.valid.eq(self.write.beats.valid & self.ready),
            writes.port.beats.payload.eq(self.write.beats.payload),
            self.write.beats.ready.eq(writes.port.beats.ready & self.ready),
            self.write.idle.eq(writes.port.idle),
        ]
        return quiet

    def _elaborate_dfi(self, m, startup, rows, columns, writes):
        dfi = self.dfi
        m.d.comb += [
            dfi.init_start.eq(startup.init_start), startup.init_complete.eq(dfi.init_complete),
            dfi.rddata_en.eq(columns.rddata_en), dfi.wrdata_en.eq(writes.wrdata_en), dfi.wrdata.eq(writes.wrdata),
            dfi.wck_en.eq(columns.wck_en), dfi.wck_toggle.eq(Mux(columns.wck_en, WckToggle.FAST_TOGGLE,
                                                                 WckToggle.STATIC_LOW)),
            self.read.valid.eq(dfi.rddata_valid), self.read.data.eq(dfi.rddata),
        ]
        m.d.sync += [
            dfi.p1.cs.eq(columns.issue), dfi.p1.address.eq(columns.command),
            dfi.p0.cs.eq(rows.cs | columns.cas | startup.cs), dfi.p0.address.eq(rows.command),
        ]
        with m.If(~self.ready):
            m.d.sync += dfi.p0.address.eq(startup.command)
        with m.If(columns.cas):
            m.d.sync += dfi.p0.address.eq(command.cas(columns.write))

    def _elaborate_cause(self, m, pairs, refresher, rows, ahead, columns):
        refreshing = Signal(PAIRS)  # from being held until the next activation starts
        with m.If(refresher.held):
            m.d.sync += refreshing.bit_select(refresher.held_pair, 1).eq(1)
        with m.If(rows.activate.taken):
            m.d.sync += refreshing.bit_select(ahead.activate.pair, 1).eq(0)

        pair = Signal(3)
        no_row = Signal()
        cause = Signal(Cause)
        m.d.comb += [
            pair.eq(Mux(columns.active, columns.pair, ahead.first_pair)),
            no_row.eq(Mux(columns.active, columns.no_row, ahead.waiting)),
        ]
        with m.If(columns.issue):
            m.d.comb += cause.eq(Cause.DATA)
        with m.Elif(no_row & refreshing.bit_select(pair, 1)):
            m.d.comb += cause.eq(Cause.REFRESH)
        with m.Elif(no_row | columns.active & columns.same_group):
            m.d.comb += cause.eq(Cause.ACTIVATE)
        with m.Elif(columns.active & columns.turning):
            m.d.comb += cause.eq(Cause.TURNAROUND)
        with m.Elif(~columns.active):
            m.d.comb += cause.eq(Cause.NO_REQUEST)
        with m.Else():
            m.d.comb += cause.eq(Cause.BACK_PRESSURE)
        m.d.sync += [
            self.cause.eq(cause), self.read_beat.eq(columns.issue & ~columns.write),
            self.write_beat.eq(columns.issue & columns.write), self.refreshed.eq(rows.refresh.taken),
        ]
