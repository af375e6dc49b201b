"""The slice of a channel, against the golden model."""

import pytest

from hw.slice.slice import Slice
from sim.bench import run_bench
from sim.tb.slice_bench import CONFIG


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slice_matrix(seed):
    run_bench(Slice(CONFIG), "sim.tb.slice_matrix", seed=seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_slice_attention(seed):
    run_bench(Slice(CONFIG), "sim.tb.slice_attention", seed=seed)
