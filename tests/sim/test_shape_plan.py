"""What a shape run simulates of the catalogue's models and of small ones, and what it says that it leaves out."""

from pathlib import Path

import pytest

from firmware.errors import UserError
from firmware.layout import plan_layout
from hw.config import preset
from hw.isa import Format
from sim.catalogue import find_model
from sim.shape_plan import shape_plan

DATA = Path(__file__).parent / "data"
GPT_OSS = ("routing", "the router's weights", "sinks and biases", "the sliding window of", "biases of router",
           "the experts' clamped SwiGLU", "MXFP4 weights: streamed as Q4_0, 18 bytes for 32 instead of 17",
           "the router's F32: streamed as Q8_0")


def begins(texts, wanted):
    return len(texts) == len(wanted) and all(t.startswith(w) for t, w in zip(texts, wanted, strict=True))


def test_a_llama_is_whole():
    plan = shape_plan(find_model("Llama-3.1-8B"))
    assert plan.left_out == () and plan.shape == find_model("Llama-3.1-8B").shape()


def test_mixtral():
    plan = shape_plan(find_model("Mixtral-8x7B"))
    assert (plan.shape.experts, plan.shape.chosen, plan.shape.ffn) == (8, 2, 14336)
    assert begins(plan.left_out, ("routing", "the router's weights", "the router's F32: streamed as Q8_0"))
    assert not any("streamed" in text for text in shape_plan(find_model("Mixtral-8x7B"), "Q4_1,router=Q4_1").left_out)


@pytest.mark.parametrize("name", ["gpt-oss-20b", DATA / "small-gpt-oss"])
def test_gpt_oss(name):
    model = find_model(name)
    plan = shape_plan(model, "Q8_0,experts=Q4_0" if name == DATA / "small-gpt-oss" else None)
    wanted = GPT_OSS if name == "gpt-oss-20b" else [text for text in GPT_OSS if "MXFP4" not in text]
    assert begins(plan.left_out, wanted)
    assert plan.shape.formats["down"] is plan.shape.formats["gate_up"] is Format.Q4_0
    assert plan.shape.formats["q"] is Format.Q8_0
    assert (plan.shape.chosen, plan.shape.experts) == (4, model.experts.count)


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "gpt-oss-20b", "gpt-oss-120b"])
def test_published_models_with_experts_fit_32_channels(name):
    layout = plan_layout(shape_plan(find_model(name)).shape, preset("bertha500"), 8192)
    assert len(set(layout.drawn)) > 1


def test_types_that_are_asked_for_are_not_replaced():
    with pytest.raises(UserError, match="MXFP4"):
        shape_plan(find_model("gpt-oss-20b"), "Q8_0,experts=MXFP4")


def test_attention_alone():
    whole = find_model("gpt-oss-20b")
    plan = shape_plan(whole, part="attention")
    assert begins(plan.left_out, ("all but attention: queries (once a step)", "sinks and biases", "the sliding window"))
    shape = plan.shape
    assert (shape.heads, shape.kv_heads, shape.head_dim, shape.layers) == (64, 8, 64, 24)
    assert shape.roles == ("q", "k", "v") and shape.experts == 0
    assert [shape.reads(role) for role in (*shape.roles, "head")] == [1, 24, 24, 1]
    assert shape_plan(find_model("Llama-3.1-70B"), part="attention").left_out[1:] == ()
