"""Bank state and rules of the device model: what each command may follow, and how soon."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from sim.lpddr.decode import Decoder
from sim.lpddr.rules import Rule
from sim.lpddr.stamps import TIME_BITS, Stamp, StampTable
from sim.lpddr.table import DeviceTiming

__all__ = ["MASK_BITS", "Checker"]

MASK_BITS = max(Rule) + 1
_START = 1 << 30
"""Time at reset: everything before is long ago."""


class Checker(Component):
    """Takes both command phases of a clock, in order, and says which rules they break.

    Members: ``p0``, ``p1``: command words; ``wck_en``: the WCK pin; ``mode_ready``, ``mode_good``: mode registers
    written, and as needed; ``mode_write`` with ``mode_register``, ``mode_value``: an MRW. ``broken``: a bit a
    :class:`Rule`, in the clock of the command; ``bank``: the bank of the last command that broke one. ``access``: for
    each phase, a RD or WR to carry out at ``beat`` (row, bank pair, column, BG1 as the controller maps addresses).
    ``activated``, ``refreshed_pairs``: for counters.
    """

    def __init__(self, timing: DeviceTiming, beat_bits):
        self._timing = timing
        self._row_bits = beat_bits - 10
        phase = Signature({"address": In(14), "cs": In(1)})
        access = Signature({"rd": Out(1), "wr": Out(1), "beat": Out(beat_bits)})
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
            "access": Out(access).array(2),
            "activated": Out(2),
            "refreshed_pairs": Out(5),
        })

    def elaborate(self, platform):
        m = Module()
        # Time goes on in reset, so that what the tables hold from before it stays in the past.
        clock = Signal(TIME_BITS - 1, init=_START // 2, reset_less=True)
        m.d.sync += clock.eq(clock + 1)
        times = []
        for phase in range(2):
            time = Signal(TIME_BITS, name=f"time{phase}")
            m.d.comb += time.eq(Cat(C(phase, 1), clock))
            times.append(time)
        self._times = times

        self._decoders = []
        for phase, pins in enumerate((self.p0, self.p1)):
            decoder = Decoder()
            m.submodules[f"decode{phase}"] = decoder
            m.d.comb += [decoder.word.eq(pins.address), decoder.cs.eq(pins.cs)]
            self._decoders.append(decoder)

        self._hits = {}  # (rule, phase or "watch") -> Signal
        self._state(m)
        for phase in range(2):
            self._phase(m, phase)
        self._watch(m)
        for rule in Rule:
            hits = Cat(hit for (which, _), hit in self._hits.items() if which is rule)
            if len(hits):
                m.d.comb += self.broken[rule].eq(hits.any())
        return m

    def _state(self, m):
        def stamp(name):
            return Stamp(m, name, self._times)

        def table(name, depth):
            return StampTable(m, name, self._times, depth)

        # Rank
        self._act1_last = [stamp(f"act1_last{back}") for back in range(4)]  # ring of the last four
        self._act_any, self._rd_any, self._wr_any = stamp("act_any"), stamp("rd_any"), stamp("wr_any")
        self._pre_any, self._pre_all = stamp("pre_any"), stamp("pre_all")
        self._ref_pb, self._ref_ab = stamp("ref_pb"), stamp("ref_ab")
        self._mrw = stamp("mrw")
        self._fresh = stamp("fresh")  # mode registers set, or all banks refreshed
        # Banks, bank groups, pairs
        self._act, self._pre = table("act", 16), table("pre", 16)
        self._rd, self._wr = table("rd", 16), table("wr", 16)
        self._rd_group, self._wr_group = table("rd_group", 4), table("wr_group", 4)
        self._ref = table("ref", 8)
        self._open = [Signal(16, name="open"), Signal(16, name="open_seen"), Signal(16, name="open_next")]
        self._round = [Signal(8, name="round"), Signal(8, name="round_seen"), Signal(8, name="round_next")]
        # Pairs of commands
        self._act1 = [Signal(name="act1_open"), Signal(name="act1_open_seen"), Signal(name="act1_open_next")]
        self._act1_bank, self._act1_high = Signal(4), Signal(7)
        self._mrw1 = [Signal(name="mrw1_open"), Signal(name="mrw1_open_seen"), Signal(name="mrw1_open_next")]
        self._mrw1_register = Signal(7)
        self._cas = [Signal(2, name="cas_last"), Signal(2, name="cas_seen"), Signal(2, name="cas_next")]
        self._wck = [Signal(7, name="wck_left"), Signal(7, name="wck_seen"), Signal(7, name="wck_next")]
        self._faw_index = [Signal(2, name="faw_index"), Signal(2, name="faw_seen"), Signal(2, name="faw_next")]
        for chain in (self._open, self._round, self._act1, self._mrw1, self._cas, self._wck, self._faw_index):
            m.d.sync += chain[0].eq(chain[2])

    def _phase(self, m, phase):
        d = self._decoders[phase]
        self._allowed = Signal(name=f"allowed{phase}")
        m.d.comb += self._allowed.eq(self.mode_ready & self.mode_good)
        for chain in (self._open, self._round, self._act1, self._mrw1, self._faw_index):
            m.d.comb += chain[phase + 1].eq(chain[phase])
        with m.If(d.cs & ~d.nop):
            m.d.comb += self.bank.eq(d.bank)
            self._general(m, phase, d)
        self._wck_and_cas(m, phase, d)
        self._activate(m, phase, d)
        self._column(m, phase, d)
        self._precharge(m, phase, d)
        self._refresh(m, phase, d)
        self._mode(m, phase, d)

    def _break(self, m, phase, rule, condition):
        hit = self._hits.setdefault((rule, phase), Signal(name=f"{rule.name.lower()}_{phase}"))
        m.d.comb += hit.eq(condition)

    def _soon(self, phase, seen, limit):
        """The event at *seen* is less than *limit* CK before this phase."""
        return (self._times[phase] - seen)[:TIME_BITS] < limit

    def _general(self, m, phase, d):
        t = self._timing
        traffic = d.act1 | d.act2 | d.rd | d.wr | d.cas | d.ref
        mrw = self._mrw.seen(phase)
        self._break(m, phase, Rule.ILLEGAL, d.illegal)
        self._break(m, phase, Rule.INIT, traffic & ~self.mode_ready)
        self._break(m, phase, Rule.MODE, traffic & self.mode_ready & ~self.mode_good)
        self._break(m, phase, Rule.MRW_PAIR, self._mrw1[phase] ^ d.mrw2)
        self._break(m, phase, Rule.TMRW, d.mrw1 & self._soon(phase, mrw, t.mrw))
        self._break(m, phase, Rule.TMRD, ~d.mrw1 & ~d.mrw2 & self._soon(phase, mrw, t.mrd))
        self._break(m, phase, Rule.TRFCAB, self._soon(phase, self._ref_ab.seen(phase), t.rfc_ab))

    def _wck_and_cas(self, m, phase, d):
        """``cas``: bit 0 a CAS in the CK before, bit 1 for a write. ``wck``: CK to the end of sync."""
        t = self._timing
        last, left = self._cas[phase], self._wck[phase]
        column = d.rd | d.wr
        after = Signal(7, name=f"wck_after{phase}")
        m.d.comb += [
            self._cas[phase + 1].eq(Cat(d.cas, d.ws_write)),
            after.eq(Mux(d.wr, t.wck_wr, t.wck_rd) - 1),
            self._wck[phase + 1].eq(Mux(left != 0, left - 1, 0)),
        ]
        with m.If(column & (after >= left)):
            m.d.comb += self._wck[phase + 1].eq(after)
        fits = column & (d.wr == last[1])
        self._break(m, phase, Rule.CAS_ALONE, last[0] & ~fits)
        self._break(m, phase, Rule.WCK_RESYNC, d.cas & (left != 0))
        self._break(m, phase, Rule.WCK_SYNC, column & ((left == 0) & ~(last[0] & fits) | ~self.wck_en))

    def _activate(self, m, phase, d):
        t = self._timing
        pair = d.bank[:3]
        act1, act2 = Signal(name=f"act1_{phase}"), Signal(name=f"act2_{phase}")
        m.d.comb += [act1.eq(d.act1 & self._allowed), act2.eq(d.act2 & self._allowed)]
        pending = self._act1[phase]
        other_pre = d.pre & ~d.all & (d.bank != self._act1_bank)
        index = self._faw_index[phase]
        seen = [stamp.seen(phase) for stamp in self._act1_last]
        oldest, newest = Signal(TIME_BITS, name=f"faw_oldest{phase}"), Signal(TIME_BITS, name=f"act1_newest{phase}")
        with m.Switch(index):
            for n in range(4):
                with m.Case(n):
                    m.d.comb += [oldest.eq(seen[n]), newest.eq(seen[(n - 1) % 4])]
        self._newest_act1 = newest
        with m.If(d.cs & ~d.nop):
            allowed_between = d.act2 | d.cas | d.rd | d.wr | other_pre
            self._break(m, phase, Rule.ACT_PAIR, pending & ~allowed_between | d.act2 & ~pending)
        with m.If(act1):
            soon = self._soon
            self._break(m, phase, Rule.BANK_OPEN, self._open[phase].bit_select(d.bank, 1))
            self._break(m, phase, Rule.TRPPB, soon(phase, self._pre.seen(phase, d.bank, "_act"), t.rp_pb))
            self._break(m, phase, Rule.TRPAB, soon(phase, self._pre_all.seen(phase), t.rp_ab))
            self._break(m, phase, Rule.TRC, soon(phase, self._act.seen(phase, d.bank, "_act"), t.rc))
            self._break(m, phase, Rule.TRRD, soon(phase, newest, t.rrd))
            self._break(m, phase, Rule.TFAW, soon(phase, oldest, t.faw))
            self._break(m, phase, Rule.TRFCPB, soon(phase, self._ref.seen(phase, pair, "_act"), t.rfc_pb))
            self._break(m, phase, Rule.TPBR2ACT, soon(phase, self._ref_pb.seen(phase), t.r2act))
            m.d.sync += [self._act1_bank.eq(d.bank), self._act1_high.eq(d.row_high)]
            m.d.comb += [self._act1[phase + 1].eq(1), self._faw_index[phase + 1].eq(index + 1)]
        bank, high = self._act1_bank, self._act1_high
        if phase == 1:
            first = self._decoders[0]
            bank, high = Mux(first.act1, first.bank, bank), Mux(first.act1, first.row_high, high)
        where, row = Signal(4, name=f"act_bank{phase}"), Signal(18, name=f"act_row{phase}")
        m.d.comb += [where.eq(bank), row.eq(Cat(d.row_low, high))]
        happens = Signal(name=f"opens{phase}")
        m.d.comb += happens.eq(act2 & pending)
        with m.If(happens):
            self._break(m, phase, Rule.TAAD, ~self._recent(phase, newest, t.aad))
            self._break(m, phase, Rule.ROW_RANGE, row >= t.rows)
            m.d.comb += [
                self._act1[phase + 1].eq(0), self._open[phase + 1].bit_select(where, 1).eq(1), self.bank.eq(where),
            ]
        for n in range(4):
            self._act1_last[n].event(phase, act1 & (index == n))
        self._act.event(phase, happens, where)
        self._act_any.event(phase, happens)
        self._rows_event(m, phase, happens, where, row)
        if phase == 0:
            self._opens = happens
        else:
            m.d.comb += self.activated.eq(self._opens + happens)

    def _recent(self, phase, seen, limit):
        """The event at *seen* is at most *limit* CK before this phase."""
        return self._soon(phase, seen, limit + 1)

    def _rows_event(self, m, phase, happens, bank, row):
        if phase == 0:
            self._rows = Memory(shape=self._row_bits, depth=16, init=[])
            m.submodules.rows = self._rows
        port = self._rows.write_port()
        m.d.comb += [port.addr.eq(bank), port.data.eq(row), port.en.eq(happens)]
        self._row_written = (happens, bank, row)

    def _column(self, m, phase, d):
        t = self._timing
        soon = self._soon
        group = d.bank[2:4]
        rd, wr = Signal(name=f"rd{phase}"), Signal(name=f"wr{phase}")
        m.d.comb += [rd.eq(d.rd & self._allowed), wr.eq(d.wr & self._allowed)]
        rd_group = self._rd_group.seen(phase, group)
        wr_group = self._wr_group.seen(phase, group)
        rd_any, wr_any = self._rd_any.seen(phase), self._wr_any.seen(phase)
        with m.If(rd | wr):
            self._break(m, phase, Rule.BANK_CLOSED, ~self._open[phase].bit_select(d.bank, 1))
            self._break(m, phase, Rule.TRCD, soon(phase, self._act.seen(phase, d.bank, "_col"), t.rcd))
            self._break(m, phase, Rule.TCCD_S, soon(phase, rd_any, t.ccd_s) | soon(phase, wr_any, t.ccd_s))
        with m.If(rd):
            self._break(m, phase, Rule.TCCD_L, soon(phase, rd_group, t.ccd_l))
            self._break(m, phase, Rule.TWTR_S, soon(phase, wr_any, t.wtr_s))
            self._break(m, phase, Rule.TWTR_L, soon(phase, wr_group, t.wtr_l))
        with m.If(wr):
            self._break(m, phase, Rule.TCCD_L, soon(phase, wr_group, t.ccd_l))
            self._break(m, phase, Rule.TRTW_S, soon(phase, rd_any, t.rtw_s))
            self._break(m, phase, Rule.TRTW_L, soon(phase, rd_group, t.rtw_l))
        port = self._rows.read_port(domain="comb")
        m.d.comb += port.addr.eq(d.bank)
        row = port.data
        if phase == 1:
            happened, where, value = self._first_row
            row = Mux(happened & (where == d.bank), value[:self._row_bits], row)
        else:
            self._first_row = self._row_written
        access = self.access[phase]
        m.d.comb += [access.rd.eq(rd), access.wr.eq(wr), access.beat.eq(Cat(d.bank[3], d.col, d.bank[:3], row))]
        self._rd_any.event(phase, rd)
        self._wr_any.event(phase, wr)
        self._rd_group.event(phase, rd, group)
        self._wr_group.event(phase, wr, group)
        self._rd.event(phase, rd, d.bank)
        self._wr.event(phase, wr, d.bank)

    def _precharge(self, m, phase, d):
        t = self._timing
        soon, now = self._soon, self._times[phase]
        act = self._act.seen(phase, d.bank, "_pre")
        is_open = self._open[phase].bit_select(d.bank, 1)
        with m.If(d.pre):
            self._break(m, phase, Rule.TPPD, soon(phase, self._pre_any.seen(phase), t.ppd))
            with m.If(d.all):
                anything = self._open[phase].any()
                self._break(m, phase, Rule.TRAS, anything & soon(phase, self._act_any.seen(phase), t.ras))
                self._break(m, phase, Rule.TRTP, soon(phase, self._rd_any.seen(phase), t.rtp))
                self._break(m, phase, Rule.TWR, soon(phase, self._wr_any.seen(phase), t.wr))
                self._break(m, phase, Rule.TRFCPB, soon(phase, self._ref_pb.seen(phase), t.rfc_pb))
                m.d.comb += self._open[phase + 1].eq(0)
            with m.Else():
                self._break(m, phase, Rule.TRAS, is_open & soon(phase, act, t.ras))
                self._break(m, phase, Rule.TRAS_MAX, is_open & ((now - act)[:TIME_BITS] > t.ras_max))
                self._break(m, phase, Rule.TRTP, is_open & soon(phase, self._rd.seen(phase, d.bank), t.rtp))
                self._break(m, phase, Rule.TWR, is_open & soon(phase, self._wr.seen(phase, d.bank), t.wr))
                self._break(m, phase, Rule.TRFCPB, soon(phase, self._ref.seen(phase, d.bank[:3], "_pre"), t.rfc_pb))
                m.d.comb += self._open[phase + 1].bit_select(d.bank, 1).eq(0)
        self._pre_any.event(phase, d.pre)
        self._pre_all.event(phase, d.pre & d.all & self._open[phase].any())
        self._pre.event(phase, d.pre & ~d.all & is_open, d.bank)

    def _refresh(self, m, phase, d):
        t = self._timing
        soon = self._soon
        pair = d.bank[:3]
        one, every = Signal(name=f"ref_one{phase}"), Signal(name=f"ref_every{phase}")
        m.d.comb += [one.eq(d.ref & ~d.all & self._allowed), every.eq(d.ref & d.all & self._allowed)]
        opened = self._open[phase]
        last, fresh = self._ref.seen(phase, pair, "_ref"), self._fresh.seen(phase)
        done = Signal(8, name=f"round_with{phase}")
        m.d.comb += done.eq(self._round[phase] | (1 << pair))
        with m.If(one):
            self._break(m, phase, Rule.REF_OPEN, opened.bit_select(pair, 1) | opened[8:].bit_select(pair, 1))
            self._break(m, phase, Rule.TRPPB, soon(phase, self._pre.seen(phase, Cat(pair, C(0, 1)), "_ref0"), t.rp_pb)
                        | soon(phase, self._pre.seen(phase, Cat(pair, C(1, 1)), "_ref1"), t.rp_pb))
            self._break(m, phase, Rule.TRPAB, soon(phase, self._pre_all.seen(phase), t.rp_ab))
            self._break(m, phase, Rule.TRFCPB, soon(phase, last, t.rfc_pb))
            self._break(m, phase, Rule.TPBR2PBR, soon(phase, self._ref_pb.seen(phase), t.r2pbr))
            self._break(m, phase, Rule.TRRD, soon(phase, self._newest_act1, t.rrd))
            self._break(m, phase, Rule.REF_ORDER, self._round[phase].bit_select(pair, 1))
            self._break(m, phase, Rule.REF_WINDOW, ~self._recent(phase, last, t.refresh_max)
                        & ~self._recent(phase, fresh, t.refresh_max))
            m.d.comb += self._round[phase + 1].eq(Mux(done.all(), 0, done))
        with m.If(every):
            self._break(m, phase, Rule.REF_OPEN, opened.any())
            self._break(m, phase, Rule.TRPAB, soon(phase, self._pre_any.seen(phase), t.rp_ab))
            self._break(m, phase, Rule.TRFCPB, soon(phase, self._ref_pb.seen(phase), t.rfc_pb))
            m.d.comb += self._round[phase + 1].eq(0)
        self._ref_pb.event(phase, one)
        self._ref_ab.event(phase, every)
        self._ref.event(phase, one, pair)
        if phase == 0:
            self._first_refreshes = one + (every << 3)
            self._fresh.event(0, every)
        else:
            m.d.comb += self.refreshed_pairs.eq(self._first_refreshes + one + (every << 3))
            ready_before = Signal()
            m.d.sync += ready_before.eq(self.mode_ready)
            self._fresh.event(1, every | self.mode_ready & ~ready_before)

    def _mode(self, m, phase, d):
        register = self._mrw1_register
        if phase == 1:
            register = Mux(self._decoders[0].mrw1, self._decoders[0].operand, register)
        with m.If(d.mrw1):
            m.d.comb += self._mrw1[phase + 1].eq(1)
            m.d.sync += self._mrw1_register.eq(d.operand)
        with m.If(d.mrw2):
            m.d.comb += [
                self._mrw1[phase + 1].eq(0), self.mode_write.eq(self._mrw1[phase]), self.mode_register.eq(register),
                self.mode_value.eq(d.value),
            ]
        self._mrw.event(phase, d.mrw2)

    def _watch(self, m):
        """What no command shows: rows left open, refreshes that never come, an ACT-1 without its ACT-2."""
        t = self._timing
        now = self._times[0]
        turn = Signal(4)
        open_for, unrefreshed, all_for = (Signal(TIME_BITS, name=n) for n in ("open_for", "unrefreshed", "all_for"))
        m.d.sync += turn.eq(turn + 1)

        def just_over(age, limit):
            """*age* passed *limit* since this entry's turn sixteen clocks ago."""
            return (age - (limit + 1))[:TIME_BITS] < 32

        owed = Signal(range(-80, 100))
        part = Signal(range(t.refi + 2))
        due = Signal()
        grown = Signal(range(-100, 120))
        m.d.comb += [
            open_for.eq(now - self._act.read(turn)),
            unrefreshed.eq(now - self._ref.read(turn[:3])),
            all_for.eq(now - self._fresh.seen(0)),
            due.eq(part + 2 >= t.refi),
            grown.eq(owed + (due << 3) - self.refreshed_pairs),
        ]
        late = Mux(all_for < unrefreshed, all_for, unrefreshed)
        with m.If(self.mode_ready):
            m.d.sync += part.eq(Mux(due, part + 2 - t.refi, part + 2))
            m.d.sync += owed.eq(Mux(grown < -64, -64, Mux(grown > 72, 72, grown)))
        self._break(m, "watch", Rule.TRAS_MAX,
                    self._open[0].bit_select(turn, 1) & just_over(open_for, t.ras_max))
        self._break(m, "watch", Rule.REF_WINDOW, self.mode_ready & just_over(late, t.refresh_max) & ~turn[3])
        self._break(m, "watch", Rule.REF_DEBT, self.mode_ready & due & (grown > 72))
        self._break(m, "watch", Rule.TAAD, self._act1[0] & ~self._decoders[0].act2
                    & ((now - self._newest_act1 - (t.aad + 1))[:TIME_BITS] < 2))
