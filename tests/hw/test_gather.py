"""The gather: order and rate for channels and lanes of several shapes."""

import pytest

from hw.vector.gather import Gather
from sim.bench import run_bench


@pytest.mark.parametrize("channels, lanes", [(3, 1), (6, 2), (4, 4), (1, 1)])
@pytest.mark.parametrize("stall", [0, 1])
def test_order(channels, lanes, stall):
    run_bench(Gather(37, channels, lanes), "sim.tb.gather", seed=channels,
              args={"channels": channels, "lanes": lanes, "width": 37, "stall": stall})

