from dataclasses import asdict

import pytest

from hw.config import preset
from hw.dram.timing import timing_for
from sim.bench import run_bench
from sim.lpddr.phy import Phy
from sim.lpddr.table import device_timing
from sim.tb.dram_rig import DramChannel

CONFIG = preset("tiny")
REFRESH = 160
"""Clocks that a write may take whose pair is being refreshed."""


def arguments(clocks, **more):
    return {"clocks": clocks, "phase_clocks": 900, "row_bits": CONFIG.beat_address_bits - 10, "tight": False,
            "fifo_beats": CONFIG.fifo_beats, "timing": asdict(device_timing(16)), **more}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_traffic(seed):
    run_bench(DramChannel(CONFIG), "sim.tb.dram_channel", seed=seed, args=arguments(40_000, tight=True),
              test="random_traffic")


def test_writes_end():
    run_bench(DramChannel(CONFIG), "sim.tb.dram_channel", test="writes_end",
              args={"limits": {"quiet": 32 + REFRESH, "flush": REFRESH, "busy": 256 + 9 * 128 + REFRESH}})


def test_reset_in_traffic():
    run_bench(DramChannel(CONFIG), "sim.tb.dram_channel", args={"clocks": 3_000}, test="reset_in_traffic")


def test_shorter_times_are_caught_by_name():
    """A controller two CK too fast in every rule: shows that traffic and checker reach them all."""
    right = timing_for(16)
    fast = {name: getattr(right, name) - 2 for name in (
        "trcd", "trppb", "tras", "trrd", "tfaw", "tccd_l", "twtr_s", "twtr_l", "nrbtp", "nwr", "twck2dqo", "trfcpb",
        "tpbr2pbr", "tpbr2act")}
    rules = ["TRCD", "TRPPB", "TRAS", "TRC", "TRRD", "TFAW", "TCCD_L", "TWTR_S", "TWTR_L", "TRTP", "TWR", "TRTW_S",
             "TRTW_L", "TRFCPB", "TPBR2PBR", "TPBR2ACT", "WCK_SYNC"]
    run_bench(DramChannel(CONFIG, timing=right.replace(**fast, twckpst=right.twckpst + 2)), "sim.tb.dram_channel",
              seed=5, args=arguments(20_000, rules=rules), test="hasty")


@pytest.mark.parametrize(("phy", "ahead"), [
    ({"command": 1, "write": 1, "enable": 1, "read": 1}, {}),
    ({"command": 1, "write": 3, "enable": 2, "read": 5}, {"dfi_write_ahead": 4, "dfi_read_ahead": 2}),
], ids=["a clock more each way", "longer data paths"])
def test_random_traffic_through_a_phy(phy, ahead):
    """Nothing of an ideal PHY is built in: no rule broken, every beat right, all rules reached as tightly."""
    channel = DramChannel(CONFIG, timing=timing_for(16).replace(**ahead), phy=Phy(**phy))
    run_bench(channel, "sim.tb.dram_channel", seed=7, args=arguments(40_000, tight=True), test="random_traffic")


def test_misplaced_enable_is_caught():
    """A PHY with a longer path for ``rddata_en``, and a controller that doesn't know of it."""
    channel = DramChannel(CONFIG, phy=Phy(command=1, write=1, enable=2))
    run_bench(channel, "sim.tb.dram_channel", seed=7, args=arguments(2_000, rules=["RL"]), test="hasty")
