"""Runs with generated contents: composed steps against runs of all layers, and clocks that contents don't change."""

import pytest

from firmware.driver import Counters
from firmware.layout import ModelShape, plan_layout
from firmware.traffic import step_traffic
from hw.config import preset
from hw.isa import Format
from sim.catalogue import find_model
from sim.commands.shape_run import simulate_shape
from sim.compose import compose, layers_to_run

WITHIN = 0.01
TINY = preset("tiny")
SMALL = ModelShape(hidden=256, heads=8, kv_heads=2, head_dim=32, ffn=512, vocab=1000, layers=10, context=512,
                   formats=dict.fromkeys(("q", "k", "v", "o", "gate_up", "down"), Format.Q4_0) | {"head": Format.Q8_0})


def run(layout, counts, first, steps, seed=0, **more):
    """Counters by number of layers."""
    result = simulate_shape(layout, counts, first, steps, seed, **more)
    return {done["layers"]: Counters(done["clocks"], done["causes"]) for done in result["runs"]}


@pytest.mark.parametrize("shape, config, first, steps, opt", [
    (SMALL, TINY, 20, 2, "-O1"), (find_model("SmolLM2-135M").shape(), preset("demo"), 63, 1, "-O2")],
    ids=["small", "SmolLM2"])
def test_composed_steps_agree_with_all_layers(shape, config, first, steps, opt):
    layout = plan_layout(shape, config)
    counts = layers_to_run(2, shape.layers)
    runs = run(layout, (*counts, shape.layers), first, steps, opt=opt)
    whole = runs.pop(shape.layers)
    composed = compose(runs, shape.layers, steps, config.channels).counters
    assert abs(composed.clocks / whole.clocks - 1) < WITHIN
    moved = sum(sum(step_traffic(layout, first + n).beats) for n in range(steps))
    assert composed.causes["data"] == whole.causes["data"] == moved


def test_contents_change_no_clock():
    """Other weights, K and V, with pages where they were."""
    layout = plan_layout(SMALL, TINY)
    one, other = (run(layout, (2,), 40, 2, seed, table_seed=5, opt="-O1")[2] for seed in (1, 2))
    assert one == other
