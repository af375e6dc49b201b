import pytest

from hw.config import preset
from hw.dram.timing import timing_for
from sim.lpddr.table import device_timing
from sim.tb.stream_bench import run_pattern


def checked(result):
    assert result["violations"] == 0, result["broken"]
    assert result["errors"] == 0
    assert sum(result["causes"].values()) == result["clocks"]
    assert result["bus_busy"] <= 1
    return result


def test_stream_fills_the_bus():
    """A million CK of sequential reads with refresh on."""
    result = checked(run_pattern("stream", clocks=500_000))
    assert result["bus_busy"] >= 0.99
    assert result["bytes"] >= 15.8e6
    assert result["refreshes"] >= 8 * (2 * result["clocks"] // timing_for(16).trefi - 1)


def test_stream_of_32_gbit():
    """Longer tRFCpb, one more row bit."""
    result = checked(run_pattern("stream", config=preset("bertha500")))
    assert result["bus_busy"] >= 0.99


def test_mix():
    result = checked(run_pattern("mix"))
    assert result["bus_busy"] >= 0.95
    assert result["writes"] == pytest.approx(0.1 * (result["reads"] + result["writes"]), rel=0.01)


def test_mix_without_holding_reads():
    """A write queue of 128 keeps up with nine to one by itself; one of 64 does not (docs/memory.md)."""
    result = checked(run_pattern("mix", config=preset("demo").override(write_queue=128)))
    assert result["causes"]["NO_REQUEST"] == 0
    assert result["writes"] == pytest.approx(0.1 * (result["reads"] + result["writes"]), rel=0.01)
    assert result["bus_busy"] >= 0.96


def test_random_2k():
    assert checked(run_pattern("random2k"))["bus_busy"] >= 0.93


def test_one_pair():
    """Every chunk needs the pair that the burst uses, so refresh must interrupt."""
    result = checked(run_pattern("conflict"))
    assert result["bus_busy"] >= 0.78
    assert result["causes"]["REFRESH"] > 0


def test_back_pressure():
    """No credits for 15 tREFI with a row open: refresh goes on, the row is opened again."""
    result = checked(run_pattern("stall"))
    assert result["causes"]["BACK_PRESSURE"] > 200_000
    assert result["bus_busy"] > 0.5


def test_nothing_asked_for():
    """Refreshes are pulled in while the channel is idle."""
    result = checked(run_pattern("bursts"))
    assert result["causes"]["NO_REQUEST"] > 100_000
    assert result["causes"]["REFRESH"] < 1_000


@pytest.mark.parametrize("trefi", [2083, 6249])
def test_other_refresh_rates(trefi):
    """Half of tREFI, as when hot, and one and a half."""
    result = checked(run_pattern("stream", timing=timing_for(16).replace(trefi=trefi),
                                 device_timing=device_timing(16).replace(refi=trefi), clocks=250_000))
    assert result["bus_busy"] >= 0.99
    assert result["refreshes"] == pytest.approx(8 * 500_000 / trefi, rel=0.02)
