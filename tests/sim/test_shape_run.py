"""``headrace bench decode --model``: what is refused, in one line with exit code 2."""

import json
from collections import Counter
from pathlib import Path

import pytest

from sim import cli
from sim.commands import shape_run
from sim.losses.attribute import Key
from sim.losses.decode import Losses
from sim.losses.operators import Operator

SMALL = {"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 3,
         "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 160, "vocab_size": 289,
         "max_position_embeddings": 256}


MIXTRAL = Path(__file__).parent / "data" / "small-mixtral" / "config.json"


@pytest.fixture
def refused(monkeypatch, capsys):
    """Runs the bench with some options; its one line must have the *words*."""
    def command(options, *words):
        monkeypatch.setattr("sys.argv", ["headrace", "bench", "decode", *map(str, options)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        text = capsys.readouterr().err
        assert end.value.code == 2
        assert len(text.splitlines()) == 1 and text.startswith("headrace: ")
        assert all(word in text for word in words), text
    return command


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(SMALL))
    return path


def test_models_that_the_hardware_does_not_run(refused):
    for model, what in (("DeepSeek-V3", "layers or experts beside the routed ones"),
                        ("Qwen3-8B", "norms of query and key heads"),
                        ("Qwen3-30B-A3B", "norms of query and key heads"), ("Gemma-3-4B", "norms of query")):
        refused(("--preset", "bertha500", "--model", model, "--layers", 2), model, what, "headrace roofline")
        refused(("--preset", "bertha500", "--model", model, "--part", "attention"), model, what)


def test_memory_of_the_whole_model(refused):
    """Two layers would fit, all of them don't."""
    refused(("--preset", "bertha500", "--model", "Llama-3.1-405B", "--layers", 2), "the model needs", "32 channels",
            "headrace roofline")
    refused(("--preset", "demo", "--model", "Llama-3.1-8B", "--layers", 2), "hidden width is 4096", "headrace roofline")


def test_sizes_that_are_no_whole_blocks(refused, small):
    small.write_text(json.dumps(SMALL | {"intermediate_size": 170}))
    refused(("--preset", "tiny", "--model", small), "ffn is 170", "multiple of 32")


def test_options(refused, small):
    small = ("--preset", "tiny", "--model", small)
    refused((*small, "--part", "ffn"), "--part ffn", "attention")
    refused(("--part", "attention"), "--part attention", "--model")
    refused((*small, "--batch", 2), "--batch 2", "headrace roofline")
    refused((*small, "--layers", 1), "--layers 1", "2 or more")
    refused((*small, "--steps", 0), "--steps 0")
    refused((*small, "--seed", -1), "--seed -1")
    refused((*small, "--context", 2), "--context 2", "3 or more")
    refused((*small, "--context", 300), "300", "256")
    refused((*small, "--weights", "Q3_K"), "Q3_K", "headrace roofline")
    refused(("--layers", 2), "--layers 2", "--model")
    refused(("--model", "llama-9"), "'llama-9'", "Llama-3.1-8B")


def test_experts_of_more_layers_than_the_program_memory_holds(refused, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(MIXTRAL.read_text()) | {"num_hidden_layers": 30}))
    refused(("--preset", "tiny", "--model", path, "--context", 64), "its memory holds 256",
            "fewer layers")


def test_other_benches_take_no_model(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["headrace", "bench", "stream", "--model", "SmolLM2-135M"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "decode" in capsys.readouterr().err


@pytest.fixture
def figures(monkeypatch, capsys, tmp_path):
    """Figures, and the table, of the bench with some options; composed of two runs, whose numbers are given here."""
    def causes(clocks, data):
        return {"data": data, "refresh": 0, "activate_precharge": 0, "turnaround": 0, "no_request": 0,
                "back_pressure": 2 * clocks - data}

    def losses(clocks):
        middle = Key(Operator("O", -1, "middle"), "back_pressure", "operand")
        return Losses(Counter({middle: clocks}), None, None, 2)

    runs = [{"layers": 2, "clocks": 5000, "causes": causes(5000, 9000), "tokens": [96, 96], "losses": losses(1000)},
            {"layers": 3, "clocks": 6000, "causes": causes(6000, 10900), "tokens": [96, 96], "losses": losses(1100)}]
    monkeypatch.setattr(shape_run, "simulate_shape", lambda *_, **__: {
        "runs": runs, "clocks": 20000, "host_seconds": 2.0, "load": "backdoor"})
    path = tmp_path / "figures.json"

    def command(*options):
        monkeypatch.setattr("sys.argv", ["headrace", "bench", "decode", "--preset", "tiny", "--context", "64",
                                         "--layers", "2", "--json", str(path), *map(str, options)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 0
        return json.loads(path.read_text()), " ".join(capsys.readouterr().out.split())
    return command


def test_figures_and_json(figures, small):
    figures, table = figures("--model", small)
    assert figures["part"] == "all" and figures["left_out"] == [] and figures["experts"] is None
    assert "left out" not in table and "goodput" in table
    assert (figures["simulated_layers"], figures["layers"], figures["composed_layers"]) == ([2, 3], 4, 1)
    assert (figures["decode_clocks"], figures["decode_steps"], figures["layer_clocks"]) == (7000, 2, 500)
    assert figures["causes"]["data"] == 12800 and figures["bytes"] == 32 * 12800
    assert [(loss["words"], loss["channel_clocks"]) for loss in figures["losses"]] == [
        ("fence: O waits for attention, middle layers", 1200)]
    assert figures["golden"] == "not run" and figures["contents"] == "generated"
    assert [part["layers"] for part in figures["runs"]] == [2, 3]


def test_what_is_left_out_of_a_model_with_experts(figures):
    figures, table = figures("--model", MIXTRAL, "--seed", 3)
    assert (figures["experts"]["count"], figures["experts"]["chosen"]) == (8, 2)
    assert len(figures["experts"]["drawn"]) == 3 and all(len(set(layer)) == 2 for layer in figures["experts"]["drawn"])
    assert figures["weights"] == dict.fromkeys(("q", "k", "v", "o", "gate_up", "down", "head"), "Q4_0") | {
        "router": "Q8_0"}
    assert [text.split(":")[0] for text in figures["left_out"]] == [
        "routing", "the router's weights", "the router's F32"]
    assert "left out" in table and "2 of 8 in each layer" in table


def test_attention_alone_counts_k_and_v(figures, small):
    """Two steps with 62 and 63 older tokens: K and V of 4 layers, 33 bytes a block of 32."""
    figures, table = figures("--model", small, "--part", "attention")
    assert figures["part"] == "attention" and figures["goodput"] is None
    assert figures["model_mbu"] == pytest.approx((63 + 64) * 4 * 2 * 33 / (64 * figures["decode_clocks"]))
    assert figures["left_out"][0].startswith("all but attention")
    assert "attention alone" in table and "goodput" not in table
