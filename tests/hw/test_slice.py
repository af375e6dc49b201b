"""The slice of a channel, against the golden model."""

import pytest

from hw.slice.slice import Slice
from sim.bench import run_bench
from sim.tb.slice_configs import CONFIGS


def run(name, module, seed):
    run_bench(Slice(CONFIGS[name]), f"sim.tb.{module}", args={"config": name}, seed=seed)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_slice_matrix(name, seed):
    run(name, "slice_matrix", seed)


@pytest.mark.parametrize("name", CONFIGS)
def test_slice_attention(name):
    run(name, "slice_attention", 1)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_slice_layers(name, seed):
    run(name, "slice_layers", seed)
