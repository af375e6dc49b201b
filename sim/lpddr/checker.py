"""Bank state and rules of the device model: what each command may follow, and how soon."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from sim.lpddr.decode import Decoder
from sim.lpddr.rules import Rule
from sim.lpddr.stamps import TIME_BITS, Clock, Kind, Stamp, StampTable
from sim.lpddr.table import DeviceTiming

__all__ = ["MASK_BITS", "Checker"]

MASK_BITS = max(Rule) + 1

_OWED_MAX = 9 * 8
"""REFpb that may be due: eight tREFI postponed and the current one."""

_SAVED_MAX = 8 * 8
"""REFpb that count when issued ahead."""


class Checker(Component):
    """Takes both command phases of a clock, in order, and says which rules they break.

    A rule is compared only with the last event that it counts from, by its time in CK. Commands of different kinds in
    one clock are one CK apart; a second command of the same kind in a clock breaks a rule and is otherwise ignored.

    Members: ``p0``, ``p1``: command words; ``wck_en``: the WCK pin; ``mode_ready``, ``mode_good``: mode registers
    written, and as needed; ``mode_write`` with ``mode_register``, ``mode_value``: an MRW. ``broken``: a bit a
    :class:`Rule`, in the clock of the command; ``bank``: the bank of the last command. ``rd``, ``wr``: a column to
    carry out at ``beat`` (row, bank pair, column, BG1 as the controller maps addresses), ``late`` if in phase 1.
    ``activated``, ``refreshed_pairs``: for counters.
    """

    def __init__(self, timing: DeviceTiming, beat_bits):
        self._timing = timing
        self._row_bits = beat_bits - 10
        phase = Signature({"address": In(14), "cs": In(1)})
        super().__init__({
            "p0": Out(phase),
            "p1": Out(phase),
            "wck_en": In(1),
            "mode_ready": In(1),
            "mode_good": In(1),
            "mode_write": Out(1),
            "mode_register": Out(7),
            "mode_value": Out(8),
            "broken": Out(MASK_BITS),
            "bank": Out(4),
            "rd": Out(1),
            "wr": Out(1),
            "late": Out(1),
            "beat": Out(beat_bits),
            "activated": Out(1),
            "refreshed_pairs": Out(4),
        })

    def elaborate(self, platform):
        m = Module()
        self._m = m
        self._clock = Clock(m)
        self._decoders = first, second = Decoder(), Decoder()
        m.submodules.decode0, m.submodules.decode1 = first, second
        for decoder, pins in ((first, self.p0), (second, self.p1)):
            m.d.comb += [decoder.word.eq(pins.address), decoder.cs.eq(pins.cs)]
        self._some = [decoder.cs & ~decoder.nop for decoder in self._decoders]
        self._groups = []  # (rules, mask)
        m.d.comb += self.bank.eq(Mux(self._some[1], second.bank, first.bank))

        self._kinds()
        self._stamps()
        self._mode_registers()
        self._wck_and_cas()
        self._activate()
        self._column()
        self._precharge()
        self._refresh()
        self._account()
        hits = {rule: Cat(mask[n] for rules, mask in self._groups for n, r in enumerate(rules) if r is rule).any()
                for rule in Rule}
        anything = Signal()
        m.d.comb += anything.eq(Cat(mask.any() for _, mask in self._groups).any())
        with m.If(anything):
            m.d.comb += self.broken.eq(Cat(hits[rule] for rule in Rule))
        return m

    def _check(self, condition, rules):
        """While *condition*, *rules* (rule -> is broken) hold. Simulators evaluate a group only then: it is one
        assignment of several bits, and its terms are used nowhere else."""
        mask = Signal(len(rules), name=f"broken{len(self._groups)}")
        with self._m.If(condition):
            self._m.d.comb += mask.eq(Cat(rules.values()))
        self._groups.append((tuple(rules), mask))

    def _kinds(self):
        """Commands by kind; those that the device refuses before its mode registers are good do nothing."""
        m = self._m
        first, second = self._decoders
        allowed = Signal()
        m.d.comb += allowed.eq(self.mode_ready & self.mode_good)

        def kind(name, gated=True):
            gate = allowed if gated else C(1, 1)
            return Kind(m, name, self._clock, getattr(first, name) & gate, getattr(second, name) & gate)

        self._act1, self._act2, self._ref = kind("act1"), kind("act2"), kind("ref")
        self._pre, self._mrw1, self._mrw2 = kind("pre", False), kind("mrw1", False), kind("mrw2", False)
        columns = [(decoder.rd | decoder.wr) & allowed for decoder in self._decoders]
        self._col = Kind(m, "col", self._clock, *columns)
        self._is_write = self._col.pick("write", first.wr, second.wr)
        self._banks = {kind: kind.pick("bank", first.bank, second.bank)
                       for kind in (self._act1, self._col, self._pre, self._ref)}
        self._pre_all = self._pre.pick("all", first.all, second.all)
        self._ref_all = self._ref.pick("all", first.all, second.all)

    def _stamps(self):
        m = self._m
        act1, act2, col, pre, ref, mrw2 = self._act1, self._act2, self._col, self._pre, self._ref, self._mrw2
        self._opens, self._closes = Signal(), Signal()
        self._open_bank = Signal(4)
        rd, wr = Signal(), Signal()
        m.d.comb += [rd.eq(col.present & ~self._is_write), wr.eq(col.present & self._is_write)]
        m.d.comb += [self.rd.eq(rd), self.wr.eq(wr), self.late.eq(col.late)]
        self._one, self._every = Signal(), Signal()
        m.d.comb += [self._one.eq(ref.present & ~self._ref_all), self._every.eq(ref.present & self._ref_all)]
        # The last four ACT-1, in a ring.
        self._ring = Signal(2)
        with m.If(act1.present):
            m.d.sync += self._ring.eq(self._ring + 1)
        self._act1_ring = StampTable(m, "act1_ring", 4, act1.present, self._ring, act1.time)
        self._act1_last = Stamp(m, "act1_last", act1.present, act1.time)
        self._act_any = Stamp(m, "act_any", self._opens, act2.time)
        self._rd_any, self._wr_any = Stamp(m, "rd_any", rd, col.time), Stamp(m, "wr_any", wr, col.time)
        self._pre_any = Stamp(m, "pre_any", pre.present, pre.time)
        self._pre_every = Stamp(m, "pre_every", pre.present & self._pre_all & self._closes, pre.time)
        self._ref_pb, self._ref_ab = Stamp(m, "ref_pb", self._one, ref.time), Stamp(m, "ref_ab", self._every, ref.time)
        self._mrw_last = Stamp(m, "mrw", mrw2.present, mrw2.time)
        bank, group = self._banks[col], self._banks[col][2:4]
        self._act = StampTable(m, "act", 16, self._opens, self._open_bank, act2.time)
        self._pre_bank = StampTable(m, "pre", 16, self._closes & ~self._pre_all, self._banks[pre], pre.time)
        self._rd_bank = StampTable(m, "rd_bank", 16, rd, bank, col.time)
        self._wr_bank = StampTable(m, "wr_bank", 16, wr, bank, col.time)
        self._rd_group = StampTable(m, "rd_group", 4, rd, group, col.time)
        self._wr_group = StampTable(m, "wr_group", 4, wr, group, col.time)
        self._ref_pair = StampTable(m, "ref_pair", 8, self._one, self._banks[ref][:3], ref.time)
        # Open banks before the clock, between its phases and after it.
        self._open = [Signal(16, name=f"open{n}") for n in range(3)]
        m.d.sync += self._open[0].eq(self._open[2])

    def _mode_registers(self):
        m, t = self._m, self._timing
        first, second = self._decoders
        some0, some1 = self._some
        pending = [Signal(name=f"mrw1_pending{n}") for n in range(3)]
        m.d.comb += [pending[n + 1].eq(pending[n] & ~d.mrw2 | d.mrw1) for n, d in enumerate(self._decoders)]
        m.d.sync += pending[0].eq(pending[2])
        register = Signal(7)
        with m.If(self._mrw1.present):
            m.d.sync += register.eq(self._mrw1.pick("register", first.operand, second.operand))
        m.d.comb += [
            self.mode_write.eq(self._mrw2.present & (pending[0] | self._mrw2.after(self._mrw1))),
            self.mode_register.eq(Mux(first.mrw1, first.operand, register)),
            self.mode_value.eq(self._mrw2.pick("value", first.value, second.value)),
        ]
        traffic = Signal()
        other = [some & ~d.mrw1 & ~d.mrw2 for some, d in zip(self._some, self._decoders, strict=True)]
        m.d.comb += traffic.eq(Cat(d.act1 | d.act2 | d.rd | d.wr | d.cas | d.ref for d in self._decoders).any())
        some = Signal()
        m.d.comb += some.eq(some0 | some1)
        self._check(some, {
            Rule.ILLEGAL: first.illegal | second.illegal,
            Rule.INIT: traffic & ~self.mode_ready,
            Rule.MODE: traffic & self.mode_ready & ~self.mode_good,
            Rule.MRW_PAIR: some0 & (pending[0] ^ first.mrw2) | some1 & (pending[1] ^ second.mrw2),
            Rule.TMRW: self._mrw1.present & (self._mrw_last.soon(self._mrw1.time, t.mrw)
                                             | self._mrw1.after(self._mrw2)),
            Rule.TMRD: (other[0] | other[1]) & self._mrw_last.soon(self._clock.time(~other[0]), t.mrd)
            | self._mrw2.first & other[1],
            Rule.TRFCAB: self._ref_ab.soon(self._clock.time(~some0), t.rfc_ab)
            | self._ref.first & first.all & some1,
        })

    def _wck_and_cas(self):
        """``cas``: bit 0 a CAS in the CK before, bit 1 for a write. ``left``: CK to the end of WCK sync."""
        m, t = self._m, self._timing
        cas = [Signal(2, name=f"cas{n}") for n in range(3)]
        left = [Signal(7, name=f"wck_left{n}") for n in range(3)]
        m.d.sync += [cas[0].eq(cas[2]), left[0].eq(left[2])]
        for n, d in enumerate(self._decoders):
            column, fits = Signal(name=f"wck_column{n}"), Signal(name=f"wck_fits{n}")
            after = Signal(7, name=f"wck_after{n}")
            m.d.comb += [
                column.eq(d.rd | d.wr), fits.eq(column & (d.wr == cas[n][1])), cas[n + 1].eq(Cat(d.cas, d.ws_write)),
                after.eq(Mux(d.wr, t.wck_wr, t.wck_rd) - 1), left[n + 1].eq(Mux(left[n] != 0, left[n] - 1, 0)),
            ]
            with m.If(column & (after >= left[n])):
                m.d.comb += left[n + 1].eq(after)
            self._check(column | d.cas | cas[n][0], {
                Rule.CAS_ALONE: cas[n][0] & ~fits,
                Rule.WCK_RESYNC: d.cas & (left[n] != 0),
                Rule.WCK_SYNC: column & ((left[n] == 0) & ~(cas[n][0] & fits) | ~self.wck_en),
            })

    def _activate(self):
        m, t = self._m, self._timing
        first, second = self._decoders
        act1, act2, pre, ref = self._act1, self._act2, self._pre, self._ref
        bank, pair, when = self._banks[act1], self._banks[act1][:3], act1.time
        same_pre = act1.after(pre) & (self._pre_all | (self._banks[pre] == bank))
        self._check(act1.present, {
            Rule.BANK_OPEN: self._opened(act1).bit_select(bank, 1),
            Rule.TRPPB: self._pre_bank.soon(when, bank, t.rp_pb) | same_pre & ~self._pre_all,
            Rule.TRPAB: self._pre_every.soon(when, t.rp_ab) | same_pre & self._pre_all,
            Rule.TRC: self._act.soon(when, bank, t.rc),
            Rule.TRRD: self._act1_last.soon(when, t.rrd) | act1.twice,
            Rule.TFAW: self._act1_ring.soon(when, self._ring, t.faw),
            Rule.TRFCPB: self._ref_pair.soon(when, pair, t.rfc_pb) | act1.after(ref) & (self._banks[ref][:3] == pair),
            Rule.TPBR2ACT: self._ref_pb.soon(when, t.r2act) | act1.after(ref),
        })

        # ACT-1 waits for its ACT-2: before the clock, between its phases, after it.
        waiting = [Signal(name=f"act1_waiting{n}") for n in range(3)]
        held_bank, held_high = Signal(4), Signal(7)
        m.d.comb += [waiting[n + 1].eq(waiting[n] & ~here2 | here1) for n, (here1, here2) in enumerate((
            (act1.first, act2.first), (act1.present & act1.late, act2.present & act2.late)))]
        m.d.sync += waiting[0].eq(waiting[2])
        with m.If(act1.present):
            m.d.sync += [held_bank.eq(bank), held_high.eq(act1.pick("high", first.row_high, second.row_high))]
        at_once = act2.after(act1)
        low = act2.pick("low", first.row_low, second.row_low)
        row = Signal(18)
        m.d.comb += [
            self._opens.eq(act2.present & (waiting[0] | at_once)),
            self._open_bank.eq(Mux(at_once, bank, held_bank)), self.activated.eq(self._opens),
            row.eq(Cat(low, Mux(at_once, first.row_high, held_high))),
        ]
        for n, d in enumerate(self._decoders):
            waiting_bank = Mux(act1.first, first.bank, held_bank) if n else held_bank
            between = d.act2 | d.cas | d.rd | d.wr | d.pre & ~d.all & (d.bank != waiting_bank)
            self._check(self._some[n], {Rule.ACT_PAIR: waiting[n] & ~between | d.act2 & ~waiting[n]})
        over = (self._clock.time(C(0, 1)) - self._act1_last.value - (t.aad + 1))[:TIME_BITS]
        self._check(waiting[0] & ~first.act2, {Rule.TAAD: over < 2})
        self._check(self._opens, {
            Rule.TAAD: ~at_once & ~self._act1_last.soon(act2.time, t.aad + 1),
            Rule.ROW_RANGE: row >= t.rows,
        })

        self._rows = Memory(shape=self._row_bits, depth=16, init=[])
        m.submodules.rows = self._rows
        port = self._rows.write_port()
        m.d.comb += [port.addr.eq(self._open_bank), port.data.eq(row), port.en.eq(self._opens)]
        self._row = row

        opens, closes = Signal(16), Signal(16)
        m.d.comb += [opens.eq(self._opens << self._open_bank), closes.eq(self._pre.present << self._banks[pre])]
        with m.If(pre.present & self._pre_all):
            m.d.comb += closes.eq(0xFFFF)
        before, middle, after = self._open
        m.d.comb += [middle.eq(before), after.eq(middle)]
        for late in range(2):
            target, source = (after, middle) if late else (middle, before)
            m.d.comb += target.eq((source & ~Mux(pre.late == late, closes, 0)) | Mux(act2.late == late, opens, 0))

    def _opened(self, kind):
        """Open banks as a command of *kind* meets them."""
        return Mux(kind.late, self._open[1], self._open[0])

    def _column(self):
        m, t = self._m, self._timing
        first, second = self._decoders
        col, when = self._col, self._col.time
        bank, group = self._banks[col], self._banks[col][2:4]
        opened_now = col.after(self._act2) & self._opens & (self._open_bank == bank)
        rd, wr = ~self._is_write, self._is_write
        self._check(col.present, {
            Rule.BANK_CLOSED: ~self._opened(col).bit_select(bank, 1),
            Rule.TRCD: self._act.soon(when, bank, t.rcd) | opened_now,
            Rule.TCCD_S: self._rd_any.soon(when, t.ccd_s) | self._wr_any.soon(when, t.ccd_s) | col.twice,
            Rule.TCCD_L: rd & self._rd_group.soon(when, group, t.ccd_l)
            | wr & self._wr_group.soon(when, group, t.ccd_l),
            Rule.TWTR_S: rd & self._wr_any.soon(when, t.wtr_s),
            Rule.TWTR_L: rd & self._wr_group.soon(when, group, t.wtr_l),
            Rule.TRTW_S: wr & self._rd_any.soon(when, t.rtw_s),
            Rule.TRTW_L: wr & self._rd_group.soon(when, group, t.rtw_l),
        })
        port = self._rows.read_port(domain="comb")
        m.d.comb += [
            port.addr.eq(bank),
            self.beat.eq(Cat(bank[3], col.pick("col", first.col, second.col), bank[:3],
                             Mux(opened_now, self._row[:self._row_bits], port.data))),
        ]

    def _precharge(self):
        m, t = self._m, self._timing
        pre, col, when, bank = self._pre, self._col, self._pre.time, self._banks[self._pre]
        is_open = Signal()
        opened = Signal(16)
        m.d.comb += [
            opened.eq(self._opened(pre)),
            is_open.eq(Mux(self._pre_all, opened.any(), opened.bit_select(bank, 1))),
            self._closes.eq(pre.present & is_open),
        ]
        just_col = pre.after(col) & (self._pre_all | (self._banks[col] == bank))
        just_act = pre.after(self._act2) & self._opens & (self._pre_all | (self._open_bank == bank))
        just_ref = pre.after(self._ref)
        every, one = self._pre_all, ~self._pre_all

        def either(one_soon, every_soon):
            return self._closes & (one & one_soon | every & every_soon)

        self._check(pre.present, {
            Rule.TPPD: self._pre_any.soon(when, t.ppd) | pre.twice,
            Rule.TRAS: either(self._act.soon(when, bank, t.ras), self._act_any.soon(when, t.ras)) | just_act,
            Rule.TRAS_MAX: self._closes & one & ~just_act & (self._act.age(when, bank) > t.ras_max),
            Rule.TRTP: either(self._rd_bank.soon(when, bank, t.rtp), self._rd_any.soon(when, t.rtp))
            | just_col & self.rd,
            Rule.TWR: either(self._wr_bank.soon(when, bank, t.wr), self._wr_any.soon(when, t.wr)) | just_col & self.wr,
            Rule.TRFCPB: every & self._ref_pb.soon(when, t.rfc_pb) | one & self._ref_pair.soon(when, bank[:3], t.rfc_pb)
            | just_ref & (every | (self._banks[self._ref][:3] == bank[:3])),
        })

    def _refresh(self):
        m, t = self._m, self._timing
        ref, pre, when, pair = self._ref, self._pre, self._ref.time, self._banks[self._ref][:3]
        opened, done, turns = Signal(16), Signal(8), Signal(8)
        m.d.comb += [opened.eq(self._opened(ref)), done.eq(turns | (1 << pair))]
        fresh_now, ready_before = Signal(), Signal()
        m.d.comb += fresh_now.eq(self._every | self.mode_ready & ~ready_before)
        m.d.sync += ready_before.eq(self.mode_ready)
        self._fresh = Stamp(m, "fresh", fresh_now, Mux(self._every, when, self._clock.time(1)))
        just_pre = ref.after(pre) & (self._pre_all | (self._banks[pre][:3] == pair))
        first, second = Cat(pair, C(0, 1)), Cat(pair, C(1, 1))
        self._check(self._one, {
            Rule.REF_OPEN: (opened | opened[8:]).bit_select(pair, 1),
            Rule.TRPPB: self._pre_bank.soon(when, first, t.rp_pb) | self._pre_bank.soon(when, second, t.rp_pb)
            | just_pre & ~self._pre_all,
            Rule.TRPAB: self._pre_every.soon(when, t.rp_ab) | just_pre & self._pre_all,
            Rule.TRFCPB: self._ref_pair.soon(when, pair, t.rfc_pb),
            Rule.TPBR2PBR: self._ref_pb.soon(when, t.r2pbr) | ref.twice,
            Rule.TRRD: self._act1_last.soon(when, t.rrd) | ref.after(self._act1),
            Rule.REF_ORDER: turns.bit_select(pair, 1),
            Rule.REF_WINDOW: (self._ref_pair.age(when, pair) > t.refresh_max)
            & ~self._fresh.soon(when, t.refresh_max + 1),
        })
        self._check(self._every, {
            Rule.REF_OPEN: opened.any(),
            Rule.TRPAB: self._pre_any.soon(when, t.rp_ab) | ref.after(pre),
            Rule.TRFCPB: self._ref_pb.soon(when, t.rfc_pb),
        })
        with m.If(self._one):
            m.d.sync += turns.eq(Mux(done.all(), 0, done))
        with m.If(self._every):
            m.d.sync += turns.eq(0)
        m.d.comb += self.refreshed_pairs.eq(Cat(self._one, C(0, 2), self._every))

    def _account(self):
        """What no command shows: rows left open, refreshes that never come, refreshes behind in number."""
        m, t = self._m, self._timing
        now = self._clock.time(C(0, 1))
        turn = Signal(6)  # every fourth clock a bank
        m.d.sync += turn.eq(turn + 1)
        bank = turn[2:]

        def just_over(age, limit):
            """*age* passed *limit* since this bank's last turn."""
            return (age - (limit + 1))[:TIME_BITS] < 2 << len(turn)

        since_all = (now - self._fresh.value)[:TIME_BITS]
        since_one = self._ref_pair.age(now, bank[:3])
        self._check((turn[:2] == 0) & self.mode_ready, {
            Rule.TRAS_MAX: self._open[0].bit_select(bank, 1) & just_over(self._act.age(now, bank), t.ras_max),
            Rule.REF_WINDOW: ~bank[3] & just_over(Mux(since_all < since_one, since_all, since_one), t.refresh_max),
        })

        owed, grown = Signal(range(-_SAVED_MAX - 8, _OWED_MAX + 9)), Signal(range(-_SAVED_MAX - 16, _OWED_MAX + 17))
        part = Signal(range(t.refi + 2))
        due = Signal()
        m.d.comb += [due.eq(self.mode_ready & (part + 2 >= t.refi)), grown.eq(owed + (due << 3) - self.refreshed_pairs)]
        with m.If(self.mode_ready):
            m.d.sync += part.eq(Mux(due, part + 2 - t.refi, part + 2))
        with m.If(due | self._ref.present):
            m.d.sync += owed.eq(Mux(grown < -_SAVED_MAX, -_SAVED_MAX, Mux(grown > _OWED_MAX, _OWED_MAX, grown)))
        self._check(due, {Rule.REF_DEBT: grown > _OWED_MAX})
