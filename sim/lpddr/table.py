"""The device's own timing: nanoseconds of the data sheet, and CK, independent of the controller's table.

Values: LPDDR5X, BG mode, x16, DVFSC off, link ECC off, DQ ODT off. Where public sources differ the stricter reading is
taken: tRCD, tRAS and tRC count from ACT-2, tRRD and tFAW from ACT-1 to ACT-1.
"""

from dataclasses import dataclass, replace

__all__ = ["DeviceTiming", "device_timing"]

_RFC_NS = {8: (210, 120), 12: (280, 140), 16: (280, 140), 24: (380, 190), 32: (380, 190)}
_ROWS = {8: 32_768, 12: 49_152, 16: 65_536, 24: 98_304, 32: 131_072}


@dataclass(frozen=True)
class DeviceTiming:
    """Rules in CK, each from command to command."""

    rows: int
    rl: int
    wl: int
    rcd: int
    rp_pb: int
    rp_ab: int
    ras: int
    rrd: int
    faw: int
    aad: int
    ccd_s: int
    ccd_l: int
    wtr_s: int  # WR -> RD, other bank group
    wtr_l: int  # WR -> RD, same bank group
    rtw_s: int  # RD -> WR, other bank group
    rtw_l: int  # RD -> WR, same bank group
    rtp: int  # RD -> PRE
    wr: int  # WR -> PRE
    ppd: int
    rfc_ab: int
    rfc_pb: int
    r2pbr: int
    r2act: int
    refi: int
    mrw: int
    mrd: int
    wck_rd: int  # RD -> end of WCK sync
    wck_wr: int

    @property
    def rc(self):
        return self.ras + self.rp_pb

    @property
    def refresh_max(self):
        """Longest time between two refreshes of a bank: eight postponed."""
        return 9 * self.refi

    @property
    def ras_max(self):
        """min(9 tREFI, 70.2 us)."""
        return min(9 * self.refi, 70_200 * 8533 // 8000)

    def replace(self, **changes):
        return replace(self, **changes)


def device_timing(density_gbit=16, rate=8533):
    """Rules of a die of *density_gbit* at *rate* MT/s (WCK:CK 4:1, so CK = rate / 8)."""

    def up(ns, least=0):
        picoseconds = round(ns * 1000)
        return max(-(-picoseconds * rate // 8_000_000), least)

    rl, wl, burst, dqo, postamble = 23, 11, 2, up(1.6), 1
    rfc_ab, rfc_pb = _RFC_NS[density_gbit]
    return DeviceTiming(
        rows=_ROWS[density_gbit], rl=rl, wl=wl,
        rcd=up(18, 2), rp_pb=up(18, 2), rp_ab=up(21, 2), ras=up(42, 3),
        rrd=up(5, 2), faw=up(20), aad=8, ccd_s=2, ccd_l=4,
        wtr_s=wl + burst + up(6.25, 4), wtr_l=wl + 2 * burst + up(12, 4),
        rtw_s=rl + burst + dqo - wl, rtw_l=rl + 2 * burst + 2 - wl,
        rtp=burst + up(7.5 - burst * 8000 / rate), wr=wl + burst + 1 + up(34),
        ppd=2, rfc_ab=up(rfc_ab), rfc_pb=up(rfc_pb), r2pbr=up(90), r2act=up(7.5),
        refi=32_000_000 // 8192 * rate // 8000, mrw=up(10, 5), mrd=up(14),
        wck_rd=rl + burst + postamble, wck_wr=wl + burst + postamble,
    )
