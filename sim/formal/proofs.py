"""The list of all proofs."""

from collections.abc import Callable
from dataclasses import dataclass

from hw.config import preset
from hw.dram.policy import Policy
from hw.dram.timing import timing_for
from sim.formal.fifo import CreditProof, FifoProof
from sim.formal.refresh import RefreshProof
from sim.formal.sby import run_sby
from sim.formal.timing import LEMMAS, TimingProof
from sim.formal.weakened import REFRESH, WEAKENED
from sim.lpddr.table import device_timing

__all__ = ["Proof", "Result", "proofs"]

CONFIG = preset("tiny")
"""Sizes of the controller proved: queues of 8 chunks and 32 writes, rows of a 16 Gbit die, all sixteen banks."""


@dataclass(frozen=True)
class Result:
    """``good``: as it should be. ``text``: what was shown, or what went wrong. ``seconds`` of wall time."""

    good: bool
    text: str
    seconds: float


@dataclass(frozen=True)
class Proof:
    """``component()`` makes the top; ``must_fail``: a faulty controller, of which the proof must not go through."""

    name: str
    component: Callable
    must_fail: bool = False

    def run(self) -> Result:
        """Run it (some seconds); :class:`firmware.errors.UserError` if the tools fail."""
        outcome = run_sby(self.component(), self.name)
        failed = ", ".join(outcome.failed)
        if self.must_fail:
            text = f"refused: {failed}" if not outcome.passed else "went through, and should not"
            return Result(not outcome.passed and bool(failed), text, outcome.seconds)
        text = "proved by induction" if outcome.passed else f"NOT PROVED: {failed}, see {outcome.log}"
        return Result(outcome.passed, text, outcome.seconds)


def _timing(lemma, timing=None, device=None):
    return TimingProof(lemma, CONFIG, timing or timing_for(16), Policy(), device or device_timing(16))


def _refresh(timing=None, device=None):
    return RefreshProof(timing or timing_for(16), Policy(), device or device_timing(16))


def _weakened(item):
    make = _refresh if item.proof == REFRESH else lambda *tables: _timing(item.proof, *tables)
    return lambda: make(item.wrong(), item.limits())


def proofs():
    """Every :class:`Proof`, cheap ones first within a group."""
    return [
        *(Proof(f"FIFO of {depth}", lambda depth=depth: FifoProof(depth, 4)) for depth in (5, 64)),
        Proof("credits", lambda: CreditProof(CONFIG)),
        *(Proof(f"timing: {lemma}", lambda lemma=lemma: _timing(lemma)) for lemma in LEMMAS),
        Proof("timing: tFAW above four tRRD", lambda: _timing("rows", timing_for(16).replace(trrd=4),
                                                              device_timing(16).replace(rrd=4))),
        Proof("refresh", _refresh),
        *(Proof(f"weakened {item.constant} {item.change:+d} CK", _weakened(item), must_fail=True)
          for item in WEAKENED),
    ]
