import pytest

from hw.config import preset
from hw.host.memory_port import MemoryPort
from sim.bench import run_bench

TESTS = ["random_traffic", "narrow_and_unaligned", "refusals", "raw_bursts", "fixed_bursts", "readers_that_are_reset",
         "reads_wait_for_other_writes"]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("channels, stall", [(3, 0), (3, 0.3), (1, 0.1)])
def test_memory_port(channels, stall, test):
    config = preset("tiny").override(channels=channels)
    args = {"preset": "tiny", "override": {"channels": channels}, "stall": stall}
    run_bench(MemoryPort(config), "sim.tb.memory_port", seed=5, args=args, test=test)
