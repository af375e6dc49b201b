"""The sequencer in Verilator; sim/tb/sequencer.py has the tests."""

import pytest

from hw.config import preset
from hw.sequencer.sequencer import Sequencer
from sim.bench import run_bench


@pytest.mark.parametrize(("channels", "stall", "seed"), [(3, 0.0, 1), (3, 0.5, 2), (1, 0.9, 3)])
def test_sequencer(channels, stall, seed):
    sequencer = Sequencer(preset("tiny").override(channels=channels))
    args = {"channels": channels, "stall": stall, "programs": 8}
    # The walker sets skip, and fault from next, in one block: no loop of bits, but one of blocks.
    run_bench(sequencer, "sim.tb.sequencer", args=args, seed=seed, waived=("UNOPTFLAT",))
