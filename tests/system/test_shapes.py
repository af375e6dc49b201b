"""Runs with generated contents: composed steps against runs of all layers, clocks that contents don't change, and the
bits of layers with experts and of attention alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware.compiler import compile_layout
from firmware.driver import Counters
from firmware.layout import ModelShape, plan_layout
from firmware.traffic import step_traffic
from hw.config import BEAT_BYTES, preset
from hw.isa import Format
from sim.catalogue import find_model
from sim.commands.matrix_bench import matrix_layout
from sim.commands.shape_run import simulate_shape
from sim.compose import compose, layers_to_run
from sim.generated_contents import EPSILON, GeneratedContents
from sim.program_model import ProgramModel
from sim.roofline import predicted_clocks
from sim.shape_plan import attention_shape, shape_plan

WITHIN = 0.01
PREDICTED_WITHIN = 0.03
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


def program_model_logits(layout, counts, first, steps, seed):
    """Logits (programs * steps, vocab) of the program model on the contents of a run."""
    contents, logits = GeneratedContents(layout, seed), []
    images = np.zeros((layout.config.channels, layout.end * BEAT_BYTES), np.uint8)
    contents.write(list(images), max(counts), first, first + steps - 1)
    for layers in counts:
        compiled = compile_layout(layout.first_layers(layers), contents.exponents, EPSILON)
        model = ProgramModel(layout.config, list(images), compiled.program, compiled.registers)
        logits += [model.step(contents.token, first + n) for n in range(steps)]
    return np.stack(logits)


@pytest.mark.parametrize("name, part", [
    ("small-mixtral", "all"), ("small-gpt-oss", "all"), ("small-mixtral", "attention")])
def test_experts_and_attention_alone(name, part):
    """Every bit as the program model has it, and clocks as predicted; each layer has experts of its own."""
    model = find_model(Path(__file__).parents[1] / "sim" / "data" / name)
    shape = shape_plan(model, "Q4_1,experts=Q4_0,head=Q8_0", part).shape
    layout, counts, first, steps = plan_layout(shape, TINY, seed=2), (2, 3), 40, 2
    assert part == "attention" or len(set(layout.drawn[:3])) == 3
    for clocks, predicted in checked_runs(layout, counts, first, steps, 1):
        if part == "all":
            assert abs(clocks / predicted - 1) < PREDICTED_WITHIN


def checked_runs(layout, counts, first, steps, seed):
    """Yields clocks and predicted clocks of each program, whose bits are the program model's."""
    result = simulate_shape(layout, counts, first, steps, seed, opt="-O1")
    wanted = program_model_logits(layout, counts, first, steps, seed)
    np.testing.assert_array_equal(result["logits"].view(np.uint32), wanted.view(np.uint32))
    for done in result["runs"]:
        ours = layout.first_layers(done["layers"])
        assert done["causes"]["data"] == sum(sum(step_traffic(ours, first + n).beats) for n in range(steps))
        yield done["clocks"], predicted_clocks(ours, first, steps)


def test_one_matrix_again_and_again():
    layout = matrix_layout(TINY, 10_000)
    assert layout.shape.layers == 18 and layout.shares["o"].beats * 18 > 10_000
    (clocks, predicted), = checked_runs(layout, (18,), 1, 1, 3)
    assert abs(clocks / predicted - 1) < PREDICTED_WITHIN


def test_attention_alone_is_predicted():
    """With heads of 128 on `demo`, where a page of a KV head is as long a run of beats as on `bertha500`."""
    whole = replace(SMALL, hidden=1024, heads=8, kv_heads=8, head_dim=128, context=8192)
    layout, first = plan_layout(attention_shape(whole), preset("demo"), 8192), 8000
    clocks = run(layout, (2, 3), first, 1, opt="-O2")
    for layers, counters in clocks.items():
        predicted = predicted_clocks(layout.first_layers(layers), first, 1)
        assert abs(counters.clocks / predicted - 1) < PREDICTED_WITHIN
    composed = compose(clocks, layout.shape.layers, 1, layout.config.channels).counters.clocks
    read = step_traffic(layout, first).kv_bytes / (32 * layout.config.channels * composed)
    assert 0.9 < read < 1
