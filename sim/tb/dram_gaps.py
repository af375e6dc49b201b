"""Smallest distance seen on the command bus for each rule: shows that a controller is not over-cautious."""

import cocotb
from cocotb.triggers import RisingEdge

from sim.lpddr.bus import BusDecoder

__all__ = ["Gaps"]

COLUMN, ROW = 1, 0
"""Command phases that the controller uses for column and row commands."""


class Gaps:
    """Watches ``dfi`` of *dut* (ports ``seen__p0__cs`` and so on); ``least``: rule -> CK."""

    def __init__(self, dut, timing):
        self.dut, self.timing = dut, timing
        self.least = {}
        self._last = {}  # event -> CK
        self._bus = BusDecoder()
        cocotb.start_soon(self._run())

    def tightest(self):
        """What two command phases allow: the least distance of the rule that fits the phases of its two commands."""
        t = self.timing

        def fit(limit, first, second):
            return limit + (limit + first - second) % 2

        rows = {"tRP": t.rp_pb, "tRAS": t.ras, "tRRD": t.rrd, "tRFCpb": t.rfc_pb, "tpbR2act": t.r2act,
                "tpbR2pbR": t.r2pbr}
        columns = {"tCCD_S": t.ccd_s, "tCCD_L": t.ccd_l, "tWTR_S": t.wtr_s, "tWTR_L": t.wtr_l, "tRTW_S": t.rtw_s,
                   "tRTW_L": t.rtw_l}
        return {
            **{name: fit(limit, ROW, ROW) for name, limit in rows.items()},
            **{name: fit(limit, COLUMN, COLUMN) for name, limit in columns.items()},
            "tRCD": fit(t.rcd, ROW, COLUMN), "tRTP": fit(t.rtp, COLUMN, ROW), "tWR": fit(t.wr, COLUMN, ROW),
        }

    async def _run(self):
        dut = self.dut
        clock = 0
        while True:
            await RisingEdge(dut.clk)
            clock += 1
            for phase in range(2):
                if getattr(dut, f"seen__p{phase}__cs").value:
                    self._command(2 * clock + phase, int(getattr(dut, f"seen__p{phase}__address").value))

    def _gap(self, rule, time, *event):
        if event in self._last:
            gap = time - self._last[event]
            self.least[rule] = min(gap, self.least.get(rule, gap))

    def _command(self, time, word):
        command = self._bus.command(time, word)
        bank = command.bank
        match command.name:
            case "ACT1":
                self._gap("tRRD", time, "act")
                self._gap("tRP", time, "pre", bank)
                self._gap("tRFCpb", time, "ref", bank % 8)
                self._gap("tpbR2act", time, "ref")
                self._last["act",] = time
            case "ACT2":
                self._last["act2", bank] = time
            case "RD16" | "WR16":
                self._column(time, "wr" if command.name == "WR16" else "rd", bank)
            case "PRE":
                self._gap("tRAS", time, "act2", bank)
                self._gap("tRTP", time, "rd", bank)
                self._gap("tWR", time, "wr", bank)
                self._last["pre", bank] = time
            case "REF":
                self._gap("tpbR2pbR", time, "ref")
                self._last["ref", bank] = self._last["ref",] = time

    def _column(self, time, kind, bank):
        group, other = bank >> 2, "rd" if kind == "wr" else "wr"
        turn = "tRTW" if kind == "wr" else "tWTR"
        self._gap("tRCD", time, "act2", bank)
        self._gap("tCCD_S", time, kind)
        self._gap("tCCD_L", time, kind, "group", group)
        self._gap(f"{turn}_S", time, other)
        self._gap(f"{turn}_L", time, other, "group", group)
        for event in ((kind,), (kind, bank), (kind, "group", group)):
            self._last[event] = time
