"""The argmax: ties, zeros of both signs, all lanes, padding, records back to back."""

import pytest

from hw.vector.argmax import ArgMax
from sim.bench import run_bench


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_ties(lanes):
    run_bench(ArgMax(lanes, 9), "sim.tb.argmax", seed=lanes, args={"lanes": lanes})
