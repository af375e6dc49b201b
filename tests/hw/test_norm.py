"""The norm against the golden 1/rms: order of the sums, latency."""

import pytest

from hw.vector.norm import InverseRms
from sim.bench import run_bench


@pytest.mark.parametrize("lanes, latency", [(1, 53), (2, 42), (4, 39)])
def test_inverse_rms(lanes, latency):
    unit = InverseRms(lanes)
    run_bench(unit, "sim.tb.norm", seed=lanes, args={"lanes": lanes, "latency": unit.latency})
    assert unit.latency == latency
