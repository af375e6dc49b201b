"""LPDDR5X timing: one table with a source for each row, and the controller clocks derived from it.

Sources: R21 Ramulator 2.1 ``lpddr5.py``; LD LiteDRAM ``phy/lpddr5``; G5 gem5 ``lpddr5.py``; DP DRAMPower 6.2; LP6
LPDDR6 timing tables; L4 LPDDR4 practice. They cite JESD209-5B and JESD209-6.
"""

from dataclasses import dataclass, fields
from dataclasses import replace as dataclass_replace
from fractions import Fraction
from math import ceil, floor
from types import MappingProxyType

__all__ = ["COLUMN_PHASE", "DENSITIES", "PARAMETERS", "ROW_PHASE", "SPEED_MTS", "Density", "Parameter", "Timing",
           "small_timing", "tck_ns", "timing_for"]

SPEED_MTS = 8533
"""Data rate in MT/s; CK = data rate / 8 (WCK:CK = 4:1, two edges)."""

ROW_PHASE = 0
"""Phase (CK of the controller clock) of row commands, refreshes, mode register writes and CAS."""

COLUMN_PHASE = 1
"""Phase of RD and WR: RL and WL are both odd, so data starts on phase 0."""


@dataclass(frozen=True)
class Density:
    """What depends on the die density: rows of a bank and refresh times in ns."""

    rows: int
    trfcab_ns: int
    trfcpb_ns: int

    @property
    def row_bits(self):
        return (self.rows - 1).bit_length()


DENSITIES = MappingProxyType({
    8: Density(rows=32_768, trfcab_ns=210, trfcpb_ns=120),
    12: Density(rows=49_152, trfcab_ns=280, trfcpb_ns=140),
    16: Density(rows=65_536, trfcab_ns=280, trfcpb_ns=140),
    24: Density(rows=98_304, trfcab_ns=380, trfcpb_ns=190),
    32: Density(rows=131_072, trfcab_ns=380, trfcpb_ns=190),
})
"""Density in Gbit of an x16 die with 16 banks of 2 KB pages -> its :class:`Density` (R21)."""


@dataclass(frozen=True)
class Parameter:
    """A row of the table: ``max(ns / tCK + less, nck)``, rounded up (``down``: rounded down).

    ``ns`` names a field of :class:`Density` where it depends on the density.
    """

    field: str
    jedec: str
    ns: float | str = 0
    nck: int = 0
    less: int = 0
    down: bool = False
    source: str = ""

    def nanoseconds(self, density):
        return getattr(density, self.ns) if isinstance(self.ns, str) else self.ns

    def cycles(self, tck, density):
        """CK for a clock period *tck* in ns (a Fraction)."""
        exact = Fraction(str(self.nanoseconds(density))) / tck + self.less
        return max(floor(exact) if self.down else ceil(exact), self.nck)


PARAMETERS = (
    Parameter("bl", "BL/n_min", nck=2, source="R21 G5"),
    Parameter("rl", "RL", nck=23, source="LP6 MR2=1101 set 0"),
    Parameter("wl", "WL", nck=11, source="LP6 MR1=1101 set A"),
    Parameter("trcd", "tRCD", 18, 2, source="R21 G5"),
    Parameter("trppb", "tRPpb", 18, 2, source="R21 G5"),
    Parameter("trpab", "tRPab", 21, 2, source="R21 G5"),
    Parameter("tras", "tRAS", 42, 3, source="R21 G5"),
    Parameter("tras_max", "tRASmax", 70_200, down=True, source="L4"),
    Parameter("trrd", "tRRD", 5, 2, source="R21 G5"),
    Parameter("tfaw", "tFAW", 20, source="R21 G5"),
    Parameter("taad", "tAAD", nck=8, source="R21 LD"),
    Parameter("tccd_s", "tCCD_S", nck=2, source="R21 G5"),
    Parameter("tccd_l", "tCCD_L", nck=4, source="R21 G5"),
    Parameter("twtr_s", "tWTR_S", 6.25, 4, source="R21 G5"),
    Parameter("twtr_l", "tWTR_L", 12, 4, source="R21 G5"),
    Parameter("nrbtp", "nRBTP", 7.5, less=-2, source="R21 LD"),
    Parameter("nwr", "nWR", 34, source="R21 LD"),
    Parameter("tppd", "tPPD", nck=2, source="R21"),
    Parameter("twck2dqo", "tWCK2DQO", 1.6, source="R21"),
    Parameter("twckpst", "tWCKPST", nck=1, source="R21 2.5 tWCK"),
    Parameter("trfcab", "tRFCab", "trfcab_ns", source="R21"),
    Parameter("trfcpb", "tRFCpb", "trfcpb_ns", source="R21"),
    Parameter("tpbr2pbr", "tpbR2pbR", 90, source="R21 G5"),
    Parameter("tpbr2act", "tpbR2act", 7.5, source="R21 G5"),
    Parameter("trefi", "tREFI", 3906.25, down=True, source="R21 G5 32 ms / 8192, <= 85 C"),
    Parameter("tmrw", "tMRW", 10, 5, source="R21 LD"),
    Parameter("tmrd", "tMRD", 14, source="R21 LD"),
)
"""The table. Everything is rounded up but tREFI and tRASmax."""


def tck_ns(speed_mts=SPEED_MTS):
    """CK period in ns, exact."""
    return Fraction(8000, speed_mts)


@dataclass(frozen=True)
class Timing:
    """All parameters in CK. Fields are named as in :data:`PARAMETERS`; properties are the command-to-command rules."""

    bl: int
    rl: int
    wl: int
    trcd: int
    trppb: int
    trpab: int
    tras: int
    tras_max: int
    trrd: int
    tfaw: int
    taad: int
    tccd_s: int
    tccd_l: int
    twtr_s: int
    twtr_l: int
    nrbtp: int
    nwr: int
    tppd: int
    twck2dqo: int
    twckpst: int
    trfcab: int
    trfcpb: int
    tpbr2pbr: int
    tpbr2act: int
    trefi: int
    tmrw: int
    tmrd: int
    postpone_max: int = 8
    """Refreshes of all banks (rounds of eight pairs) that may be postponed or pulled in."""
    dfi_write_ahead: int = 0
    """CK by which write data is on the DFI bus before its place on DQ: for a PHY whose data path to the pins is that
    much longer than its command path. Even."""
    dfi_read_ahead: int = 0
    """CK by which ``rddata_en`` is before the place of the data on DQ. Even."""

    def replace(self, **changes):
        """A copy with some parameters (CK) changed; an unknown name raises TypeError."""
        return dataclass_replace(self, **changes)

    @staticmethod
    def clocks(ck, a, b):
        """Controller clocks from a command on phase *a* to one on phase *b* that must be *ck* CK later."""
        return -(-(ck + a - b) // 2)

    def row_to_row(self, ck):
        return self.clocks(ck, ROW_PHASE, ROW_PHASE)

    def row_to_column(self, ck):
        return self.clocks(ck, ROW_PHASE, COLUMN_PHASE)

    def column_to_row(self, ck):
        return self.clocks(ck, COLUMN_PHASE, ROW_PHASE)

    def column_to_column(self, ck):
        return self.clocks(ck, COLUMN_PHASE, COLUMN_PHASE)

    @property
    def trc(self):
        return self.tras + self.trppb

    @property
    def open_max(self):
        """Longest time that a row may stay open: min(9 tREFI, tRASmax)."""
        return min((self.postpone_max + 1) * self.trefi, self.tras_max)

    @property
    def rd_to_pre(self):
        return self.bl + self.nrbtp

    @property
    def wr_to_pre(self):
        return self.wl + self.bl + 1 + self.nwr

    @property
    def rd_to_wr(self):
        """Other bank group, DQ ODT off."""
        return self.rl + self.bl + self.twck2dqo - self.wl

    @property
    def rd_to_wr_same(self):
        """Same bank group: RL + BL/n_max + 2 - WL."""
        return self.rl + self.tccd_l + 2 - self.wl

    @property
    def wr_to_rd(self):
        return self.wl + self.bl + self.twtr_s

    @property
    def wr_to_rd_same(self):
        return self.wl + self.tccd_l + self.twtr_l

    @property
    def rd_wck(self):
        """WCK stays in sync for this long after a RD."""
        return self.rl + self.bl + self.twckpst

    @property
    def wr_wck(self):
        return self.wl + self.bl + self.twckpst

    @property
    def tphy_wrlat(self):
        """DFI: CK from the WR to ``wrdata_en``, which comes with its data (tphy_wrdata is 0)."""
        return self.wl - self.dfi_write_ahead

    @property
    def trddata_en(self):
        """DFI: CK from the RD to ``rddata_en``."""
        return self.rl - self.dfi_read_ahead

    def table(self):
        """Rows (JEDEC name, CK, source) in the order of :data:`PARAMETERS`."""
        return [(p.jedec, getattr(self, p.field), p.source) for p in PARAMETERS]


def timing_for(density_gbit=16, speed_mts=SPEED_MTS):
    """Timing of a die of *density_gbit*; KeyError for a density not in :data:`DENSITIES`."""
    density, tck = DENSITIES[density_gbit], tck_ns(speed_mts)
    return Timing(**{p.field: p.cycles(tck, density) for p in PARAMETERS})


def small_timing():
    """A legal set of short times for bounded proofs; latencies keep their parity."""
    return Timing(bl=2, rl=5, wl=3, trcd=4, trppb=4, trpab=6, tras=8, tras_max=9_000, trrd=2, tfaw=8, taad=8, tccd_s=2,
                  tccd_l=4, twtr_s=2, twtr_l=4, nrbtp=2, nwr=3, tppd=2, twck2dqo=2, twckpst=1, trfcab=20, trfcpb=12,
                  tpbr2pbr=8, tpbr2act=4, trefi=480, tmrw=5, tmrd=5)


assert {p.field for p in PARAMETERS} == {f.name for f in fields(Timing)} - {
    "postpone_max", "dfi_write_ahead", "dfi_read_ahead"}
