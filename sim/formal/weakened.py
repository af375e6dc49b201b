"""Controllers with one timing constant too short, which proofs must refuse."""

from dataclasses import dataclass, field

from hw.dram.timing import Timing, timing_for
from sim.lpddr.table import DeviceTiming, device_timing

__all__ = ["NOT_WEAKENED", "REFRESH", "WEAKENED", "Weakened"]

REFRESH = "refresh"
"""Stands for :class:`sim.formal.refresh.RefreshProof` where a lemma of :data:`sim.formal.timing.LEMMAS` does else."""


@dataclass(frozen=True)
class Weakened:
    """``constant`` changed by the least CK that the controller, with its two CK a clock, can tell.

    ``proof``: the one that refuses it, a lemma of :data:`sim.formal.timing.LEMMAS` or :data:`REFRESH`.
    ``timing``, ``device``: other values of both tables under which the constant decides (another one covers it at
    full size).
    """

    constant: str
    change: int
    proof: str
    timing: dict = field(default_factory=dict)
    device: dict = field(default_factory=dict)

    def right(self) -> Timing:
        return timing_for(16).replace(**self.timing)

    def wrong(self) -> Timing:
        right = self.right()
        return right.replace(**{self.constant: getattr(right, self.constant) + self.change})

    def limits(self) -> DeviceTiming:
        return device_timing(16).replace(**self.device)


WEAKENED = (
    Weakened("bl", -1, "columns"),
    Weakened("rl", -2, "columns"),
    Weakened("wl", -2, "columns"),
    Weakened("tccd_l", -2, "columns"),
    Weakened("twtr_s", -2, "columns"),
    Weakened("twtr_l", -2, "columns"),
    Weakened("twck2dqo", -2, "columns"),
    Weakened("twckpst", +1, "columns"),
    Weakened("trrd", -2, "rows"),
    Weakened("tfaw", -4, "rows", {"trrd": 4}, {"rrd": 4}),
    Weakened("tpbr2pbr", -2, "rows"),
    Weakened("tpbr2act", -2, "rows"),
    Weakened("trcd", -1, "tRCD"),
    Weakened("tras", -1, "tRAS"),
    Weakened("trppb", -2, "tRP"),
    Weakened("nrbtp", -1, "RD to PRE"),
    Weakened("nwr", -2, "WR to PRE"),
    Weakened("trfcpb", -2, "tRFC"),
    Weakened("tmrd", -5, "start-up", {"tmrw": 5}, {"mrw": 5}),  # no command comes earlier than two clocks after ready
    Weakened("tmrw", -1, "start-up", {"tmrd": 5}, {"mrd": 5}),
    Weakened("trefi", +10, REFRESH),
)

NOT_WEAKENED = {
    "tccd_s": "one clock: what is shorter cannot be built",
    "tppd": "one clock: what is shorter cannot be built",
    "taad": "the controller does not use it: ACT-2 comes two clocks after ACT-1 at the latest",
    "trpab": "no PREab is sent",
    "trfcab": "no REFab is sent",
    "tras_max": "nine tREFI, which REF_WINDOW proves, are shorter",
}
"""Constant -> why no weaker one exists."""
