import pytest

from hw.config import preset
from hw.fetch.logits import LogitWriter
from sim.bench import run_bench


@pytest.mark.parametrize("channels, stall", [(1, 0.3), (3, 0), (3, 0.5)])
def test_logit_writer(channels, stall):
    config = preset("tiny").override(channels=channels)
    args = {"preset": "tiny", "override": {"channels": channels}, "channels": channels, "stall": stall}
    run_bench(LogitWriter(config), "sim.tb.logit_writer", seed=2, args=args)
