"""Predicted steps on the accelerator: the roof, what the structure adds, and the data sheets that it comes from."""

import importlib
import inspect
from dataclasses import replace

import pytest

from firmware.layout import plan_layout
from hw.config import preset
from hw.vector.quantiser import Quantiser
from sim.catalogue import find_model
from sim.roofline import StepModel, predicted_clocks, roof_clocks
from sim.roofline.latency import DOCUMENTED, latencies
from sim.shape_plan import shape_plan

SMOLLM2 = find_model("SmolLM2-135M").shape()

WEIGHT_CLOCKS = 753_408
"""(66,355,200 bytes of Q4_1 + 30,081,024 of Q8_0) / 128 bytes a clock."""


def test_roof_of_smollm2_is_its_weights_and_little_more():
    roof = roof_clocks(plan_layout(SMOLLM2, preset("demo")), 0, 1)
    assert WEIGHT_CLOCKS < roof < 1.01 * WEIGHT_CLOCKS


def test_roof_grows_with_the_cache():
    layout = plan_layout(SMOLLM2, preset("demo"))
    more = roof_clocks(layout, 4000, 1) - roof_clocks(layout, 0, 1)
    # 1000 tokens a channel: K and V of 3 heads in 30 layers, 2 beats each and 2 bytes of exponents
    assert abs(more - 1000 * 30 * 3 * 2 * (2 + 2 / 32)) < 0.01 * more


def test_logits_to_memory_count():
    layout = plan_layout(SMOLLM2, preset("demo"))
    beats = 3 * 49152 // 8 // 4
    assert roof_clocks(layout, 8, 3, logits=True) - roof_clocks(layout, 8, 3) == beats
    assert beats <= predicted_clocks(layout, 8, 3, logits=True) - predicted_clocks(layout, 8, 3) < 2 * beats


def test_steps_add_up():
    layout = plan_layout(replace(SMOLLM2, layers=2), preset("demo"))
    assert abs(predicted_clocks(layout, 5, 3) - sum(predicted_clocks(layout, 5 + n, 1) for n in range(3))) <= 2


@pytest.mark.parametrize(("name", "preset_name", "position"), [
    ("SmolLM2-135M", "demo", 40), ("SmolLM2-135M", "bertha500", 100), ("Llama-3.1-8B", "bertha500", 4096)])
def test_terms_add_up_to_the_prediction(name, preset_name, position):
    step = StepModel(plan_layout(find_model(name).shape(), preset(preset_name))).predict(position)
    assert step.clocks == pytest.approx(step.beats + sum(step.lost.values()))
    assert step.beats < step.clocks < 1.1 * step.beats
    assert all(clocks > -100 for clocks in step.lost.values())


def test_programs_beyond_the_program_memory_are_predicted():
    layout = plan_layout(shape_plan(find_model("Mixtral-8x7B")).shape, preset("bertha500"))
    middle = [StepModel(layout.first_layers(n)).predict(1000).clocks for n in (2, 3)]
    whole = StepModel(layout).predict(1000).clocks
    assert whole == pytest.approx(middle[0] + 30 * (middle[1] - middle[0]), rel=1e-3)


def test_every_layer_adds_the_same():
    def clocks(layers):
        return StepModel(plan_layout(replace(SMOLLM2, layers=layers), preset("bertha500"))).predict(100).clocks
    assert clocks(12) - clocks(11) == pytest.approx(clocks(9) - clocks(8), abs=2)


def test_a_deeper_fifo_hides_more():
    def clocks(beats):
        return StepModel(plan_layout(SMOLLM2, preset("bertha500").override(fifo_beats=beats))).predict(100).clocks
    assert clocks(64) > 1.03 * clocks(256) > clocks(1024)


@pytest.mark.parametrize("file", DOCUMENTED)
def test_latencies_are_those_of_the_data_sheets(file):
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    text = " ".join(inspect.getsource(module).split())
    for name, (_, words) in DOCUMENTED[file].items():
        assert words in text, f"{file} no longer says of {name}: {words!r}"


def test_quantiser_latency_is_its_own():
    quantiser = Quantiser(preset("demo"))
    quantiser._MustUse__silence = True  # only asked, not built
    assert quantiser.latency == DOCUMENTED["hw/vector/quantiser.py"]["quantiser"][0]


def test_read_latency_is_rl_and_the_way_to_the_slice():
    assert latencies(preset("demo")).read == 12 + 1 + 1  # RL 23 CK


def test_merge_latency_is_two_levels_of_the_tree_a_clock():
    assert [latencies(preset("demo").override(channels=n)).merge for n in (1, 2, 4, 8, 32)] == [1, 1, 1, 2, 3]
