"""Command sequences that test one rule of the device model each, by one number: a distance in CK or an address."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming
from sim.tb.dram_words import act1, act2, cas, mrw1, mrw2, pre, pre_all, rd, rd32, ref, ref_all, wr

__all__ = ["Scenario", "scenarios"]


@dataclass(frozen=True)
class Scenario:
    """``commands(bad)`` breaks ``rule`` (and perhaps those in ``also``); ``commands(good)`` breaks nothing."""

    name: str
    rule: Rule
    bad: int
    good: int
    commands: Callable
    also: tuple = ()
    options: Callable = field(default=lambda number: {})

    def __str__(self):
        return f"{self.name} ({self.rule.jedec})"


def opened(*banks, row=5, at=0):
    """ACT of *banks*, 8 CK apart, ACT-2 one CK after ACT-1."""
    return [item for n, bank in enumerate(banks)
            for item in ((at + 8 * n, act1(bank, row)), (at + 8 * n + 1, act2(row)))]


def column(time, write, bank):
    """CAS and RD or WR at *time*."""
    return [(time - 1, cas(write)), (time, wr(bank) if write else rd(bank))]


def scenarios(timing: DeviceTiming, which):
    """Scenarios of a set: ``commands``, ``refresh`` (for a short tREFI)."""
    return {"commands": _commands, "refresh": _refresh}[which](timing)


def _commands(t):
    return [*_rows(t), *_columns(t), *_precharges(t), *_refreshes(t), *_protocol(t)]


def _least(name, rule, limit, commands, also=()):
    return Scenario(name, rule, limit - 1, limit, commands, also)


def _rows(t):
    late = 1 + t.ras + 10
    return [
        _least("ACT-2 to RD", Rule.TRCD, t.rcd, lambda g: opened(0) + column(1 + g, False, 0)),
        _least("ACT-2 to WR", Rule.TRCD, t.rcd, lambda g: opened(0) + column(1 + g, True, 0)),
        _least("PRE to ACT", Rule.TRPPB, t.rp_pb, lambda g: [*opened(0), (late, pre(0)), *opened(0, at=late + g)]),
        _least("PREab to ACT", Rule.TRPAB, t.rp_ab, lambda g: [*opened(0), (late, pre_all()), *opened(0, at=late + g)]),
        _least("ACT to ACT, same bank", Rule.TRC, t.rc,
               lambda g: [*opened(0), (1 + g - t.rp_pb, pre(0)), *opened(0, at=1 + g)], also=(Rule.TRAS,)),
        _least("ACT to ACT", Rule.TRRD, t.rrd, lambda g: [*opened(0), *opened(1, at=g)]),
        _least("five ACT", Rule.TFAW, t.faw, lambda g: [
            item for n in range(4) for item in opened(n, at=t.rrd * n)] + opened(4, at=g)),
        Scenario("ACT-1 to ACT-2", Rule.TAAD, t.aad + 1, t.aad, lambda g: [(0, act1(0, 5)), (g, act2(5))]),
        Scenario("ACT-1 to ACT-2, other phase", Rule.TAAD, t.aad + 1, t.aad,
                 lambda g: [(1, act1(0, 5)), (1 + g, act2(5))]),
        Scenario("ACT-1 alone", Rule.TAAD, 0, 1, lambda g: [(0, act1(0, 5)), *([(1, act2(5))] * g), (20, pre(1))]),
        Scenario("ACT of an open bank", Rule.BANK_OPEN, 0, 1,
                 lambda bank: [*opened(0), *opened(bank, at=100)], also=(Rule.TRPPB,)),
        Scenario("row", Rule.ROW_RANGE, t.rows, t.rows - 1, lambda row: opened(0, row=row)),
        Scenario("REF between ACT-1 and ACT-2", Rule.ACT_PAIR, 1, 0,
                 lambda n: [(0, act1(0, 5)), *([(7, ref(5))] * n), (8, act2(5))]),
        Scenario("ACT-2 alone", Rule.ACT_PAIR, 1, 0, lambda n: [(0, act2(5))] * n),
        Scenario("PRE of the bank between ACT-1 and ACT-2", Rule.ACT_PAIR, 0, 1,
                 lambda bank: [(0, act1(0, 5)), (2, pre(bank)), (4, act2(5))]),
        Scenario("tRAS(max)", Rule.TRAS_MAX, t.ras_max + 1, t.ras_max,
                 lambda g: [*opened(0), (1 + g, pre(0))]),
    ]


def _columns(t):
    def pair(first, second, bank, at=60):
        """Two columns *g* apart, the second to *bank*, with a CAS before the second if WCK has stopped."""
        sync = t.wck_wr if first else t.wck_rd

        def commands(g):
            again = [(at + g - 1, cas(second))] if g > sync else []
            return [*opened(0, bank), *column(at, first, 0), *again, (at + g, wr(bank) if second else rd(bank))]
        return commands

    return [
        _least("RD to RD", Rule.TCCD_S, t.ccd_s, pair(False, False, 4, at=61)),
        _least("WR to WR", Rule.TCCD_S, t.ccd_s, pair(True, True, 8, at=61)),
        # Two in one clock: the second is ignored, so its data is missing.
        _least("RD to RD in a clock", Rule.TCCD_S, t.ccd_s, pair(False, False, 4), also=(Rule.RL,)),
        _least("WR to WR in a clock", Rule.TCCD_S, t.ccd_s, pair(True, True, 8), also=(Rule.WL,)),
        _least("RD to RD, same group", Rule.TCCD_L, t.ccd_l, pair(False, False, 1)),
        _least("WR to WR, same group", Rule.TCCD_L, t.ccd_l, pair(True, True, 3)),
        _least("RD to WR", Rule.TRTW_S, t.rtw_s, pair(False, True, 4)),
        _least("RD to WR, same group", Rule.TRTW_L, t.rtw_l, pair(False, True, 2)),
        _least("WR to RD", Rule.TWTR_S, t.wtr_s, pair(True, False, 8)),
        _least("WR to RD, same group", Rule.TWTR_L, t.wtr_l, pair(True, False, 1)),
        Scenario("RD of a closed bank", Rule.BANK_CLOSED, 8, 0, lambda bank: [*opened(0), *column(60, False, bank)]),
        Scenario("WCK still in sync", Rule.WCK_SYNC, t.wck_rd, t.wck_rd - 1,
                 lambda g: [*opened(0), *column(60, False, 0), (60 + g, rd(0))]),
        Scenario("WCK still in sync after WR", Rule.WCK_SYNC, t.wck_wr, t.wck_wr - 1,
                 lambda g: [*opened(0), *column(60, True, 0), (60 + g, wr(0))]),
        Scenario("RD without CAS", Rule.WCK_SYNC, 1, 0, lambda n: [*opened(0), *column(60, False, 0)[n:]]),
        Scenario("CAS in sync", Rule.WCK_RESYNC, t.wck_rd - 1, t.wck_rd,
                 lambda g: [*opened(0), *column(60, False, 0), *column(61 + g, False, 0)]),
        Scenario("CAS to RD", Rule.CAS_ALONE, 2, 1, lambda g: [*opened(0), (60, cas(False)), (60 + g, rd(0))],
                 also=(Rule.WCK_SYNC,)),
        Scenario("CAS for the other direction", Rule.CAS_ALONE, 1, 0,
                 lambda write: [*opened(0), (60, cas(bool(write))), (61, rd(0))], also=(Rule.WCK_SYNC,)),
        Scenario("read enable", Rule.RL, 1, 0, lambda n: [*opened(0), *column(61, False, 0)],
                 options=lambda n: {"shift_enables": n}),
        Scenario("write enable", Rule.WL, -1, 0, lambda n: [*opened(0), *column(61, True, 0)],
                 options=lambda n: {"shift_enables": n}),
    ]


def _precharges(t):
    late = 1 + t.ras
    return [
        _least("ACT to PRE", Rule.TRAS, t.ras, lambda g: [*opened(0), (1 + g, pre(0))]),
        _least("ACT to PREab", Rule.TRAS, t.ras, lambda g: [*opened(3), (1 + g, pre_all())]),
        _least("RD to PRE", Rule.TRTP, t.rtp, lambda g: [*opened(0), *column(late, False, 0), (late + g, pre(0))]),
        _least("RD to PREab", Rule.TRTP, t.rtp, lambda g: [*opened(0), *column(late, False, 0), (late + g, pre_all())]),
        _least("WR to PRE", Rule.TWR, t.wr, lambda g: [*opened(0), *column(late, True, 0), (late + g, pre(0))]),
        _least("WR to PREab", Rule.TWR, t.wr, lambda g: [*opened(0), *column(late, True, 0), (late + g, pre_all())]),
        _least("PRE to PRE", Rule.TPPD, t.ppd, lambda g: [*opened(0, 9), (90, pre(0)), (90 + g, pre(9))]),
        _least("REFpb to PRE", Rule.TRFCPB, t.rfc_pb, lambda g: [(0, ref(1)), (g, pre(9))]),
    ]


def _refreshes(t):
    late = 1 + t.ras + 10
    apart = t.r2pbr
    return [
        _least("REFpb to ACT", Rule.TRFCPB, t.rfc_pb, lambda g: [(0, ref(2)), *opened(10, at=g)]),
        _least("REFpb to ACT, other pair", Rule.TPBR2ACT, t.r2act, lambda g: [(0, ref(2)), *opened(3, at=g)]),
        _least("REFpb to REFpb", Rule.TPBR2PBR, t.r2pbr, lambda g: [(0, ref(2)), (g, ref(3))]),
        _least("ACT to REFpb", Rule.TRRD, t.rrd, lambda g: [*opened(1), (g, ref(2))]),
        _least("PRE to REFpb", Rule.TRPPB, t.rp_pb, lambda g: [*opened(10), (late, pre(10)), (late + g, ref(2))]),
        _least("PREab to REFpb", Rule.TRPAB, t.rp_ab, lambda g: [*opened(10), (late, pre_all()), (late + g, ref(2))]),
        _least("PREab to REFab", Rule.TRPAB, t.rp_ab,
               lambda g: [*opened(10), (late, pre_all()), (late + g, ref_all())]),
        _least("REFpb to REFab", Rule.TRFCPB, t.rfc_pb, lambda g: [(0, ref(2)), (g, ref_all())]),
        _least("REFab to REFab", Rule.TRFCAB, t.rfc_ab, lambda g: [(0, ref_all()), (g, ref_all())]),
        _least("REFab to ACT", Rule.TRFCAB, t.rfc_ab, lambda g: [(0, ref_all()), *opened(5, at=g)]),
        Scenario("REFpb with a bank open", Rule.REF_OPEN, 13, 12, lambda bank: [*opened(bank), (40, ref(5))]),
        Scenario("REFab with a bank open", Rule.REF_OPEN, 1, 0, lambda n: [*opened(13) * n, (40, ref_all())]),
        Scenario("pair repeated", Rule.REF_ORDER, 7, 8,
                 lambda count: [*((apart * n, ref(n)) for n in range(count)), (apart * 8, ref(2))]),
        Scenario("REFab starts a round", Rule.REF_ORDER, 0, 1,
                 lambda n: [(0, ref(2)), *([(200, ref_all())] * n), (600, ref(2))]),
    ]


def _protocol(t):
    def modes(changed, value):
        good = {1: 0xD0, 2: 0xDD, 3: 0x06, 18: 0x00}
        return lambda n: {"modes": tuple({**good, **({changed: value} if n else {})}.items())}

    def without(register):
        good = ((1, 0xD0), (2, 0xDD), (3, 0x06), (18, 0x00))
        return lambda n: {"modes": tuple(item for item in good if not n or item[0] != register)}

    return [
        *(Scenario(f"MR{register} not written", Rule.INIT, 1, 0, lambda n: [(0, ref(0))], options=without(register))
          for register in (1, 2, 3, 18)),
        *(Scenario(f"MR{register} = {value:#04x}", Rule.MODE, 1, 0, lambda n: [(0, ref(0))],
                   options=modes(register, value))
          for register, value in ((1, 0xC0), (2, 0xDC), (2, 0xCD), (3, 0x16), (3, 0x26), (18, 0x80), (18, 0x10))),
        _least("MRW to MRW", Rule.TMRW, t.mrw,
               lambda g: [(0, mrw1(3)), (1, mrw2(6)), (1 + g, mrw1(3)), (2 + g, mrw2(6))]),
        _least("MRW to ACT", Rule.TMRD, t.mrd, lambda g: [(0, mrw1(3)), (1, mrw2(6)), *opened(0, at=1 + g)]),
        Scenario("MRW-1 alone", Rule.MRW_PAIR, 0, 1, lambda n: [(0, mrw1(3)), *([(1, mrw2(6))] * n), (40, pre(0))]),
        Scenario("MRW-2 alone", Rule.MRW_PAIR, 1, 0, lambda n: [(0, mrw2(6))] * n),
        Scenario("BL32", Rule.ILLEGAL, 1, 0, lambda n: [*opened(0), (60, rd32(0))][:2 + n]),
    ]


def _refresh(t):
    """With tREFI so short that nine of them are soon over."""
    def one_late(g):
        others = [(5 * t.refi + t.r2pbr * n, ref(n + 1)) for n in range(7)]
        return [(0, ref_all()), *others, (g, ref(0))]

    return [
        Scenario("nine tREFI", Rule.REF_WINDOW, t.refresh_max + 1, t.refresh_max, one_late),
        Scenario("REFab every eight tREFI", Rule.REF_DEBT, 8, 1,
                 lambda every: [(every * t.refi * n + 1, ref_all()) for n in range(24 // every)]),
    ]
