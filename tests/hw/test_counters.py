"""The performance counters in Verilator; sim/tb/counters.py has the test."""

import pytest

from hw.config import preset
from hw.counters import Counters
from sim.bench import run_bench


@pytest.mark.parametrize("channels", [1, 3])
def test_counters(channels):
    counters = Counters(preset("tiny").override(channels=channels))
    run_bench(counters, "sim.tb.counters", args={"channels": channels}, seed=4)
