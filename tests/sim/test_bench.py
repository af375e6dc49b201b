"""The bench harness on the short queue, and that it reports what fails."""

import pytest

from hw.fork import Queue
from sim.bench import BenchFailure, run_bench


@pytest.mark.parametrize("source_stall, sink_stall, after_valid", [(0, 0, False), (0.25, 0.5, False), (0, 0.25, True)])
def test_queue(source_stall, sink_stall, after_valid):
    run_bench(Queue(11, 4), "sim.tb.queue", seed=3,
              args={"width": 11, "source_stall": source_stall, "sink_stall": sink_stall, "after_valid": after_valid})


def test_failure_names_seed_and_test():
    with pytest.raises(BenchFailure, match="seed 7.*failed: keeps_order"):
        run_bench(Queue(11, 4), "sim.tb.queue", seed=7,
                  args={"width": 12, "source_stall": 0, "sink_stall": 0, "after_valid": False})
