"""The accelerator's speed for models that a preset can run, and for those that it can't."""

import re

import pytest

from hw.config import preset
from sim.catalogue import find_model, model_names
from sim.roofline.accelerator import accelerate
from sim.roofline.devices import CLOCK_HZ
from sim.weight_types import KV8, parse_weights, weight_type

BERTHA = preset("bertha500")


def speed(name, context, config=BERTHA, kv=KV8, weights=None):
    model = find_model(name)
    return accelerate(model, parse_weights(weights) if weights else model.weights, kv, config, context)


def test_llama_8b_is_near_the_bound():
    result = speed("Llama-3.1-8B", 4096)
    assert not result.reason
    # 7.5 G weights at 4.5 bits and 4096 tokens x 32 layers x 8 heads x 2 x 132 bytes over 1024 bytes a clock
    bound = (7_504_658_432 * 18 / 32 + 4096 * 32 * 8 * 2 * 132) / 1024
    assert bound < result.roof_clocks < 1.01 * bound
    assert result.roof_clocks < result.clocks < 1.05 * bound
    assert result.model_mbu == pytest.approx(bound / result.clocks, rel=1e-4)
    assert result.tokens_per_second == pytest.approx(CLOCK_HZ / result.clocks)


def test_prompt_tokens_skip_the_head_and_grow_with_position():
    result = speed("SmolLM2-135M", 4000, preset("demo"))
    head = 49152 * 576 * 34 / 32 / 128
    assert result.prompt_clocks < result.clocks - head
    assert result.prompt_clocks > speed("SmolLM2-135M", 64, preset("demo")).clocks - head


@pytest.mark.parametrize(("name", "context", "config", "reason"), [
    ("Llama-3.1-405B", 8192, BERTHA, "needs 237.7 GB .* preset bertha500 has 137.4 GB"),
    ("Llama-3.1-8B", 1024, preset("demo"), "hidden width is 4096, beyond max_hidden"),
    ("gpt-oss-20b", 1024, BERTHA, "sliding window"),
    ("DeepSeek-V3", 1024, BERTHA, "analytic only"),
    ("Gemma-3-4B", 1024, BERTHA, "sliding window"),
])
def test_what_the_preset_cannot_run_is_analytic_and_says_why(name, context, config, reason):
    result = speed(name, context, config)
    assert re.search(reason, result.reason)
    assert result.lost == {}
    assert result.clocks >= result.roof_clocks > 0


def test_other_storage_is_analytic():
    assert "KV8, not BF16" in speed("Llama-3.1-8B", 64, kv=weight_type("BF16")).reason
    assert "q is MXFP4" in speed("Llama-3.1-8B", 64, weights="MXFP4").reason


def test_analytic_and_structural_agree_where_the_structure_costs_little():
    exact = speed("Llama-3.1-8B", 1024)
    rough = speed("Llama-3.1-8B", 1024, kv=weight_type("Q8_0"))
    assert rough.clocks == pytest.approx(exact.clocks, rel=0.015)
    assert rough.prompt_clocks == pytest.approx(exact.prompt_clocks, rel=0.015)


def test_query_heads_beyond_v_kv_hold_beats():
    wide, narrow = (speed("Llama-3.1-8B", 100_000, BERTHA.override(v_kv=n)) for n in (4, 2))
    assert not wide.lost.get("query heads beyond V_kv") and narrow.lost["query heads beyond V_kv"] > 1e6
    # MLA: 128 query heads share the latent vector
    latent = speed("DeepSeek-V3", 100_000)
    assert latent.clocks > 1.5 * latent.roof_clocks


@pytest.mark.parametrize("name", model_names())
def test_every_model_of_the_catalogue_has_a_prediction(name):
    result = speed(name, 1000)
    assert 0 < result.model_mbu < 1
    assert result.prompt_clocks <= 1.02 * result.clocks
