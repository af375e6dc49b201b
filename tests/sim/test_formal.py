"""The proofs themselves are run by `make prove`; here a few of them, and that their lists are complete."""

from dataclasses import fields

import pytest

from hw.dram.timing import PARAMETERS
from sim.formal.proofs import proofs
from sim.formal.timing import LEMMAS
from sim.formal.weakened import NOT_WEAKENED, REFRESH, WEAKENED
from sim.lpddr.rules import Rule

SEEN_ELSEWHERE = {Rule.INIT, Rule.MODE, Rule.MRW_PAIR, Rule.ROW_RANGE, Rule.TRPAB, Rule.TRFCAB, Rule.TRAS_MAX,
                  Rule.REF_WINDOW, Rule.REF_DEBT}
"""Mode registers and row range: every simulation. PREab and REFab: never sent. Refresh: RefreshProof."""


def test_every_constant_is_weakened():
    weakened = {item.constant for item in WEAKENED}
    assert not weakened & set(NOT_WEAKENED)
    assert weakened | set(NOT_WEAKENED) == {parameter.field for parameter in PARAMETERS}


def test_every_rule_has_a_proof():
    proved = [rule for lemma in LEMMAS.values() for rule in lemma.rules]
    assert len(proved) == len(set(proved))
    assert set(proved) | SEEN_ELSEWHERE == set(Rule)
    assert not set(proved) & SEEN_ELSEWHERE


def test_lemmas_assume_only_what_precedes():
    order = list(LEMMAS)
    for name, lemma in LEMMAS.items():
        assert all(order.index(assumed) < order.index(name) for assumed in lemma.assumes), name
    assert {item.proof for item in WEAKENED} <= {*LEMMAS, REFRESH}


@pytest.mark.parametrize("item", WEAKENED, ids=lambda item: item.constant)
def test_weakened_constants_change_the_controller(item):
    """A constant that is one CK shorter may give the same clocks; these do not, and everything else is as it was."""
    right, wrong = item.right(), item.wrong()
    assert [f.name for f in fields(right) if getattr(right, f.name) != getattr(wrong, f.name)] == [item.constant]
    limits = item.limits()
    assert (right.trrd, right.tmrd, right.tmrw) == (limits.rrd, limits.mrd, limits.mrw)


@pytest.mark.parametrize("name", ["timing: rows", "weakened trcd -1 CK", "refresh", "weakened trefi +10 CK"])
def test_proof(name):
    proof, = (proof for proof in proofs() if proof.name == name)
    result = proof.run()
    assert result.good, result.text
