from dataclasses import asdict

import pytest

from sim.bench import run_bench
from sim.lpddr.device import Device
from sim.lpddr.rules import Rule
from sim.lpddr.table import device_timing
from sim.tb.dram_scenarios import scenarios

BEAT_BITS = 26

TIMINGS = {
    # 12 Gb: rows are no power of two. tFAW so long that tRRD does not hide it, tREFI so long that 70.2 us limit tRAS.
    "commands": device_timing(12).replace(faw=30, refi=10_000),
    "refresh": device_timing(16).replace(refi=520),
}


@pytest.mark.parametrize("which", TIMINGS)
def test_rules(which):
    timing = TIMINGS[which]
    run_bench(Device(BEAT_BITS, timing), "sim.tb.dram_device", args={"timing": asdict(timing), "set": which},
              test="rules")


@pytest.mark.parametrize("seed", [1, 2])
def test_data(seed):
    timing = TIMINGS["commands"]
    run_bench(Device(BEAT_BITS, timing), "sim.tb.dram_device", seed=seed, args={"timing": asdict(timing)}, test="data")


def test_every_rule_has_a_scenario():
    tested = {scenario.rule for which, timing in TIMINGS.items() for scenario in scenarios(timing, which)}
    assert tested == set(Rule)


def test_published_cycles():
    """CK values of public LPDDR5X-8533 tables (16 Gb, BG mode)."""
    t = device_timing(16)
    assert (t.rcd, t.rp_pb, t.rp_ab, t.ras, t.rc, t.rrd, t.faw) == (20, 20, 23, 45, 65, 6, 22)
    assert (t.ccd_s, t.ccd_l, t.rtw_s, t.rtw_l, t.wtr_s, t.wtr_l, t.rtp, t.wr) == (2, 4, 16, 18, 20, 28, 8, 51)
    assert (t.rfc_ab, t.rfc_pb, t.r2pbr, t.r2act, t.refi, t.mrw, t.mrd) == (299, 150, 96, 8, 4166, 11, 15)
    assert (device_timing(32).rfc_ab, device_timing(32).rfc_pb) == (406, 203)
