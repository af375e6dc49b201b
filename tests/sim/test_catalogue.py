"""Model sizes: by name, from config.json, from GGUF headers; and files that are none."""

import json

import pytest

from firmware.errors import UserError
from firmware.gguf_model import read_model
from firmware.layout import shape_of
from hw.isa import Format
from sim.catalogue import find_model, model_from_config, model_names
from sim.random_model import RandomLlama, write_model
from sim.weight_types import parse_weights, weight_type

LLAMA = {"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3,
         "num_key_value_heads": 1, "intermediate_size": 160, "vocab_size": 288, "max_position_embeddings": 256}

PARAMETERS = {"Qwen3-0.6B": 596_049_920, "Qwen3-32B": 32_762_123_264, "Llama-3.1-405B": 405_853_388_800,
              "Qwen3-30B-A3B": 30_532_122_624, "gpt-oss-120b": 116_829_156_672}
"""Of the models' cards or safetensors indexes; the others are in reference_values.csv."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_published_models(name):
    assert find_model(name).parameters == PARAMETERS[name]


def test_every_model_has_a_source_and_its_name():
    for name in model_names():
        model = find_model(name.upper())
        assert model.name == name and "config" in model.source


def test_active_experts():
    model = find_model("Qwen3-30B-A3B")
    assert round(model.active_parameters / 1e9, 1) == 3.4
    assert model.experts.read(1) == 8
    assert model.experts.read(2) == pytest.approx(8 + 8 * 120 / 128)
    assert model.experts.read(10_000) == pytest.approx(128)


def test_windows_cap_the_tokens_that_are_read():
    model = find_model("Gemma-3-4B")
    assert (model.windowed, model.layers) == (29, 34)
    assert model.cached_tokens(1000) == 34 * 1000
    assert model.cached_tokens(5000) == 5 * 5000 + 29 * 1024
    assert find_model("gpt-oss-20b").windowed == 12


def test_config_json(tmp_path):
    path = tmp_path / "small" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(LLAMA))
    model = find_model(path)
    assert model == find_model(path.parent)
    assert (model.name, model.head_dim, model.group, model.tied) == ("small", 32, 3, False)
    assert model.parameters == 2 * 288 * 96 + 2 * (96 * (96 + 32 + 32 + 96) + 3 * 96 * 160 + 2 * 96) + 96


@pytest.mark.parametrize("model", [RandomLlama(), RandomLlama(tied=False, types={"output": "Q8_0", "attn_v": "Q4_0"}),
                                   RandomLlama(layers=3, types={"ffn_up": "Q8_0", "blk.1.ffn_down": "F16"})])
def test_gguf_header_gives_the_shape_that_the_reader_gives(tmp_path, model):
    path = tmp_path / "model.gguf"
    write_model(path, model)
    assert find_model(path).shape() == shape_of(read_model(path))


def test_mixed_types_are_counted_by_their_mean(tmp_path):
    path = tmp_path / "model.gguf"
    write_model(path, RandomLlama(types={"ffn_up": "Q8_0"}))
    kind = find_model(path).weights.of("gate_up")
    assert (kind.name, kind.bytes) == ("Q4_1+Q8_0", (weight_type("Q4_1").bytes + weight_type("Q8_0").bytes) / 2)


def test_shapes_for_the_hardware():
    shape = find_model("SmolLM2-135M").shape()
    assert (shape.formats["q"], shape.formats["head"]) == (Format.Q4_1, Format.Q8_0)
    assert find_model("Llama-3.1-8B").shape(parse_weights("BF16")).formats["q"] is Format.Q8_0
    for name, what in (("gpt-oss-20b", "window"), ("DeepSeek-V3", "experts"), ("Gemma-3-4B", "window")):
        with pytest.raises(UserError, match=f"{name} has .*{what}.* analytic only"):
            find_model(name).shape()
    shape = find_model("Mixtral-8x7B").shape(parse_weights("Q4_1,experts=Q4_0,head=Q8_0"))
    assert (shape.ffn, shape.experts, shape.chosen) == (14336, 8, 2)
    assert [shape.formats[role].name for role in ("q", "gate_up", "down", "router", "head")] == [
        "Q4_1", "Q4_0", "Q4_0", "Q8_0", "Q8_0"]
    with pytest.raises(UserError, match="q is Q4_K, which the hardware does not stream .* choose --weights"):
        find_model("Llama-3.1-8B").shape(parse_weights("Q4_K"))


def test_unknown_model_names_the_known_ones():
    with pytest.raises(UserError, match="unknown model 'llama-9'; known: SmolLM2-135M, .*DeepSeek-V3"):
        find_model("llama-9")


@pytest.mark.parametrize(("change", "message"), [
    ({"model_type": "mamba"}, "model_type 'mamba' is not known; known: llama"),
    ({"model_type": None}, "model_type 'None'"),
    ({"hidden_size": None}, "no hidden_size"),
    ({"hidden_size": "96"}, "hidden_size is '96', not a positive number"),
    ({"num_hidden_layers": -2}, "num_hidden_layers is '-2'"),
    ({"num_hidden_layers": 10**9}, "layers is 1000000000, beyond 1024"),
    ({"num_key_value_heads": 2}, "3 heads don't divide among 2 KV heads"),
    ({"hidden_size": 2}, "head_dim is 0"),
    ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3}, "3 of 2 experts"),
    ({"model_type": "mixtral", "num_experts_per_tok": 3}, "3 of 0 experts"),
    ({"text_config": 7}, "model_type"),
])
def test_bad_configs_are_refused_in_one_line(change, message):
    with pytest.raises(UserError, match=message) as caught:
        model_from_config("small", LLAMA | change, "config.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "content", "message"), [
    ("config.json", None, "No such file .*; give the path"), ("config.json", "{", "not JSON"),
    ("config.json", "[1]", "not the config.json"), ("model.gguf", "GGML", "not a GGUF file"),
    ("model.gguf", "GGUF", "truncated or damaged"), ("model.gguf", None, "No such file"),
])
def test_bad_files_are_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        find_model(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [
    ("Q9_9", "unknown storage type 'Q9_9'; known: BF16"), ("Q4_0,head", "write TYPE,ROLE=TYPE"),
    ("Q4_0,tail=Q8_0", "roles: q, k"), ("", "unknown storage type ''")])
def test_bad_weights_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_weights(text)


def test_weights_read_back():
    assert str(parse_weights("q4_0,head=q8_0")) == "Q4_0,head=Q8_0"
