"""The merge of all channels' attention."""

import pytest

from hw.merge import Merge
from sim.bench import run_bench
from sim.tb.merge_config import config


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_merge(channels):
    run_bench(Merge(config(channels)), "sim.tb.merge", args={"channels": channels}, seed=channels)
