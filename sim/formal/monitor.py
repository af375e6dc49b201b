"""The device's rules over a stream of commands, as properties: counters that saturate instead of timestamps.

Limits are those of :class:`sim.lpddr.table.DeviceTiming`, words are read by the device model's decoder, and each
property has the name of its :class:`sim.lpddr.rules.Rule`. Counters that saturate have no "before" that could be wrong
in the first step of an induction, which timestamps of 32 bits have.
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal

from sim.lpddr.decode import Decoder
from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming

__all__ = ["Age", "RuleMonitor"]

ROW, COLUMN = 0, 1
"""Phases of row and column commands; another phase breaks ILLEGAL here."""


class Age:
    """Clocks since an event, 1 in the clock after it, up to ``most``, which also stands for "longer ago" and "never".

    With *newer*, the age of a kind's last event, this is the age of the one before that.
    """

    def __init__(self, m: Module, name, happens, most, newer=None):
        self.most = most
        self.value = Signal(range(most + 1), init=most, name=f"{name}_age")
        with m.If(happens):
            m.d.sync += self.value.eq(1 if newer is None else Mux(newer.known, newer.value + 1, most))
        with m.Elif(self.known):
            m.d.sync += self.value.eq(self.value + 1)

    @property
    def known(self):
        """The value is the time itself."""
        return self.value < self.most

    def soon(self, ck, first=ROW, second=ROW):
        """A command on phase *second* in this clock comes less than *ck* CK after the event on phase *first*."""
        clocks = max(-(-(ck + first - second) // 2), 0)  # least that is allowed
        if clocks > self.most:
            raise ValueError(f"an age of at most {self.most} clocks cannot tell {ck} CK")
        return self.value < clocks


class RuleMonitor:
    """Adds to *m* the rules for a clock's two commands *p0*, *p1* (words with ``address`` and ``cs``).

    Rules of a bank are followed for the two banks of one *pair*, which a proof leaves open; all others for the rank.
    ``row``, ``column``: the decoders. ``broken``: rule -> condition, over this clock's commands. ``act2``, ``pre``,
    ``rd_bank``, ``wr_bank``: ages by BG1 of the pair's banks; ``ref``: of its refresh; ``act1_any`` (the last four),
    ``ref_any``, ``pre_any``: of the rank's; ``ages``: all of them. ``open``: the pair's banks; ``waiting``: an ACT-1
    waits for its ACT-2; ``turns``: pairs refreshed in this round. ``reads``, ``writes``, ``groups``: histories of
    column commands, newest in the lowest bits; ``left``: CK of WCK sync; ``rd``, ``wr``: a column of this clock.
    """

    def __init__(self, m: Module, timing: DeviceTiming, p0, p1, pair):
        self._m, self._t = m, timing
        self.broken, self.ages = {}, []
        m.submodules.monitor_p0, m.submodules.monitor_p1 = row, column = Decoder(), Decoder()
        for decoder, word in ((row, p0), (column, p1)):
            m.d.comb += [decoder.word.eq(word.address), decoder.cs.eq(word.cs)]
        self.row, self.column, self._pair = row, column, pair
        self.rd, self.wr = column.rd, column.wr
        self._break(Rule.ILLEGAL, row.illegal | row.rd | row.wr | ((row.pre | row.ref) & row.all)
                    | column.cs & ~column.nop & ~(column.rd | column.wr))
        self.mrw2 = self._age("mrw2", row.mrw2, timing.mrw, timing.mrd)
        self._break(Rule.TMRW, row.mrw1 & self.mrw2.soon(timing.mrw))
        self._break(Rule.TMRD, (row.cs & ~row.nop & ~row.mrw1 & ~row.mrw2 | self.rd | self.wr)
                    & self.mrw2.soon(timing.mrd))
        self._elaborate_rank()
        self._elaborate_bank()
        self._elaborate_columns()

    def _break(self, rule, condition):
        self.broken[rule] = self.broken[rule] | condition if rule in self.broken else condition

    def _age(self, name, happens, *limits, newer=None):
        self.ages.append(Age(self._m, name, happens, max(limits) // 2 + 2, newer))
        return self.ages[-1]

    def _elaborate_rank(self):
        m, t, row = self._m, self._t, self.row
        self.act1_any = []
        for n in range(4):
            newer = self.act1_any[-1] if n else None
            self.act1_any.append(self._age(f"act1_any{n}", row.act1, t.faw, t.rrd, t.aad, newer=newer))
        last = self.act1_any[0]
        self.ref_any = self._age("ref_any", row.ref, t.r2act, t.r2pbr)
        self.pre_any = self._age("pre_any", row.pre, t.ppd)
        self._break(Rule.TRRD, (row.act1 | row.ref) & last.soon(t.rrd))
        self._break(Rule.TFAW, row.act1 & self.act1_any[3].soon(t.faw))
        self._break(Rule.TPBR2ACT, row.act1 & self.ref_any.soon(t.r2act))
        self._break(Rule.TPBR2PBR, row.ref & self.ref_any.soon(t.r2pbr))
        self._break(Rule.TPPD, row.pre & self.pre_any.soon(t.ppd))

        self.waiting = Signal()
        self.waiting_bank = Signal(4)
        with m.If(row.act1):
            m.d.sync += [self.waiting.eq(1), self.waiting_bank.eq(row.bank)]
        with m.Elif(row.act2):
            m.d.sync += self.waiting.eq(0)
        self._break(Rule.ACT_PAIR, row.act2 & ~self.waiting
                    | self.waiting & (row.act1 | row.ref | row.pre & (row.bank == self.waiting_bank)))
        self._break(Rule.TAAD, self.waiting & ~row.act2 & (last.value >= t.aad // 2))

        self.turns = Signal(8)
        pair = row.bank[:3]
        done = Signal(8)
        m.d.comb += done.eq(self.turns | (1 << pair))
        with m.If(row.ref):
            m.d.sync += self.turns.eq(Mux(done.all(), 0, done))
        self._break(Rule.REF_ORDER, row.ref & self.turns.bit_select(pair, 1))

    def _elaborate_bank(self):
        m, t, row, column = self._m, self._t, self.row, self.column
        self.ref = self._age("ref", row.ref & (row.bank[:3] == self._pair), t.rfc_pb)
        self._break(Rule.TRFCPB, row.ref & (row.bank[:3] == self._pair) & self.ref.soon(t.rfc_pb))
        self.act2, self.pre, self.rd_bank, self.wr_bank, self.open = [], [], [], [], []
        for group in range(2):
            bank = Signal(4, name=f"bank{group}")
            is_open = Signal(name=f"monitor_open{group}")
            m.d.comb += bank.eq(Cat(self._pair, C(group, 1)))
            here, there = row.bank == bank, column.bank == bank
            opens = row.act2 & self.waiting & (self.waiting_bank == bank)
            act2 = self._age(f"act2_{group}", opens, t.rcd, t.ras, t.rc)
            pre = self._age(f"pre_{group}", row.pre & here & is_open, t.rp_pb)
            rd = self._age(f"rd_{group}", column.rd & there, t.rtp)
            wr = self._age(f"wr_{group}", column.wr & there, t.wr)
            with m.If(opens):
                m.d.sync += is_open.eq(1)
            with m.If(row.pre & here):
                m.d.sync += is_open.eq(0)
            refresh = row.ref & (row.bank[:3] == self._pair)
            any_column = (column.rd | column.wr) & there
            self._break(Rule.BANK_OPEN, row.act1 & here & is_open)
            self._break(Rule.BANK_CLOSED, any_column & (~is_open | row.pre & here))
            self._break(Rule.REF_OPEN, refresh & is_open)
            self._break(Rule.TRPPB, (row.act1 & here | refresh) & pre.soon(t.rp_pb))
            self._break(Rule.TRC, row.act1 & here & act2.soon(t.rc))
            self._break(Rule.TRCD, any_column & (act2.soon(t.rcd, ROW, COLUMN) | opens))
            self._break(Rule.TRAS, row.pre & here & act2.soon(t.ras))
            self._break(Rule.TRTP, row.pre & here & rd.soon(t.rtp, COLUMN, ROW))
            self._break(Rule.TWR, row.pre & here & wr.soon(t.wr, COLUMN, ROW))
            self._break(Rule.TRFCPB, (row.act1 | row.pre) & here & self.ref.soon(t.rfc_pb))
            for ages, age in ((self.act2, act2), (self.pre, pre), (self.rd_bank, rd), (self.wr_bank, wr)):
                ages.append(age)
            self.open.append(is_open)

    def _elaborate_columns(self):
        m, t, row, column = self._m, self._t, self.row, self.column

        def least(ck):
            return -(-ck // 2)

        depth = max(map(least, (t.ccd_l, t.wtr_s, t.wtr_l, t.rtw_s, t.rtw_l))) - 1
        self.reads, self.writes, self.groups = Signal(depth), Signal(depth), Signal(2 * depth)
        group = column.bank[2:4]
        m.d.sync += [
            self.reads.eq((self.reads << 1) | column.rd), self.writes.eq((self.writes << 1) | column.wr),
            self.groups.eq((self.groups << 2) | group),
        ]

        def recent(history, ck, same=False):
            """A command of *history* less than *ck* CK ago, of the same bank group if *same*."""
            hits = [history[n] & ((self.groups.word_select(n, 2) == group) if same else 1)
                    for n in range(least(ck) - 1)]
            return Cat(hits).any() if hits else C(0, 1)

        some = column.rd | column.wr
        both = self.reads | self.writes
        self._break(Rule.TCCD_S, some & recent(both, t.ccd_s))
        self._break(Rule.TCCD_L, column.rd & recent(self.reads, t.ccd_l, True)
                    | column.wr & recent(self.writes, t.ccd_l, True))
        self._break(Rule.TWTR_S, column.rd & recent(self.writes, t.wtr_s))
        self._break(Rule.TWTR_L, column.rd & recent(self.writes, t.wtr_l, True))
        self._break(Rule.TRTW_S, column.wr & recent(self.reads, t.rtw_s))
        self._break(Rule.TRTW_L, column.wr & recent(self.reads, t.rtw_l, True))

        # CK to the end of WCK sync: at this clock's phase 0, at its phase 1, and at the next clock's phase 0.
        self.left = Signal(range(max(t.wck_rd, t.wck_wr) + 1))
        later, passed, after = (Signal.like(self.left, name=f"wck_{n}") for n in ("later", "passed", "after"))
        m.d.comb += [
            later.eq(Mux(self.left != 0, self.left - 1, 0)), passed.eq(Mux(later != 0, later - 1, 0)),
            after.eq(Mux(column.wr, t.wck_wr, t.wck_rd) - 1),
        ]
        self.synced = Signal()
        m.d.comb += self.synced.eq(some | (passed != 0))
        m.d.sync += self.left.eq(Mux(some & (after >= passed), after, passed))
        fits = some & (column.wr == row.ws_write)
        self._break(Rule.CAS_ALONE, row.cas & ~fits)
        self._break(Rule.WCK_RESYNC, row.cas & (self.left != 0))
        self._break(Rule.WCK_SYNC, some & (later == 0) & ~(row.cas & fits))
