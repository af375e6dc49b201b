import pytest

from hw.config import preset
from sim.bench import run_bench
from sim.tb.fetch import Fetch

STALLS = [
    {"memory_stall": 0, "source_stall": 0, "sink_stall": 0, "after_valid": False, "bounded": 0},
    {"memory_stall": 0.2, "source_stall": 0.3, "sink_stall": 0.2, "after_valid": True, "bounded": 0},
    {"memory_stall": 0.05, "source_stall": 0, "sink_stall": 0.75, "after_valid": False, "bounded": 0},
    {"memory_stall": 0.05, "source_stall": 0, "sink_stall": 0.3, "after_valid": False, "bounded": 1},
]


@pytest.mark.parametrize("stalls", STALLS)
def test_streams(stalls):
    run_bench(Fetch(preset("tiny")), "sim.tb.reader", seed=11, args={"preset": "tiny", **stalls},
              test="streams_and_host_reads")


@pytest.mark.parametrize("test", ["latency_and_rate", "credits_hold_when_the_slice_stops"])
def test_rates_and_credits(test):
    run_bench(Fetch(preset("tiny")), "sim.tb.reader", seed=3, args={"preset": "tiny"}, test=test)
