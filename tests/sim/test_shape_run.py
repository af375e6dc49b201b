"""``headrace bench decode --model``: what is refused, in one line with exit code 2."""

import json

import pytest

from sim import cli
from sim.commands import shape_run

SMALL = {"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 3,
         "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 160, "vocab_size": 289,
         "max_position_embeddings": 256}


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
    for model, what in (("Mixtral-8x7B", "routed experts"), ("DeepSeek-V3", "routed experts"),
                        ("Qwen3-8B", "norms of query and key heads"), ("gpt-oss-20b", "biases or sinks")):
        refused(("--preset", "bertha500", "--model", model, "--layers", 2), model, what, "headrace roofline")


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
    refused((*small, "--batch", 2), "--batch 2", "headrace roofline")
    refused((*small, "--layers", 1), "--layers 1", "2 or more")
    refused((*small, "--steps", 0), "--steps 0")
    refused((*small, "--seed", -1), "--seed -1")
    refused((*small, "--context", 2), "--context 2", "3 or more")
    refused((*small, "--context", 300), "300", "256")
    refused((*small, "--weights", "Q3_K"), "Q3_K", "headrace roofline")
    refused(("--layers", 2), "--layers 2", "--model")
    refused(("--model", "llama-9"), "'llama-9'", "Llama-3.1-8B")


def test_other_benches_take_no_model(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["headrace", "bench", "stream", "--model", "SmolLM2-135M"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "decode" in capsys.readouterr().err


def test_figures_and_json(monkeypatch, small, tmp_path):
    """Composed of two runs, whose numbers are given here."""
    def causes(clocks, data):
        return {"data": data, "refresh": 0, "activate_precharge": 0, "turnaround": 0, "no_request": 0,
                "back_pressure": 2 * clocks - data}

    runs = [{"layers": 2, "clocks": 5000, "causes": causes(5000, 9000), "tokens": [96, 96]},
            {"layers": 3, "clocks": 6000, "causes": causes(6000, 10900), "tokens": [96, 96]}]
    monkeypatch.setattr(shape_run, "simulate_shape", lambda *_, **__: {
        "runs": runs, "clocks": 20000, "host_seconds": 2.0, "load": "backdoor"})
    path = tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["headrace", "bench", "decode", "--preset", "tiny", "--model", str(small),
                                     "--context", "64", "--layers", "2", "--json", str(path)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    figures = json.loads(path.read_text())
    assert (figures["simulated_layers"], figures["layers"], figures["composed_layers"]) == ([2, 3], 4, 1)
    assert (figures["decode_clocks"], figures["decode_steps"], figures["layer_clocks"]) == (7000, 2, 500)
    assert figures["causes"]["data"] == 12800 and figures["bytes"] == 32 * 12800
    assert figures["golden"] == "not run" and figures["contents"] == "generated"
    assert [part["layers"] for part in figures["runs"]] == [2, 3]
