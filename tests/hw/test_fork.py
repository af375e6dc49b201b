import pytest

from hw.fork import Fork
from sim.bench import run_bench


@pytest.mark.parametrize("source_stall, sink_stalls", [(0, (0, 0, 0)), (0.3, (0.2, 0.6, 0)), (0, (0.75, 0.1, 0.5))])
def test_fork(source_stall, sink_stalls):
    run_bench(Fork(9, 3), "sim.tb.fork", seed=5, args={"source_stall": source_stall, "sink_stalls": sink_stalls})
