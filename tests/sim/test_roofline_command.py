"""``headrace roofline``: table, JSON, pictures, and what a user can get wrong."""

import json
import sys
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from hw.config import preset
from sim import cli
from sim.commands.roofline import Request, run
from sim.roofline.measurements import public_measurements, read_run
from sim.roofline.plot import run_model, run_point

RUN = {"preset": "demo", "model": "Smollm2 135M 8k Lc100K Mix1 Ep2", "channels": 4, "bytes": 3_100_000_000,
       "prompt_tokens": 34, "decode_clocks": 24_800_000, "decode_steps": 32, "model_mbu": 0.976}


def printed(**options):
    """(text, figures) of a request."""
    console = Console(file=StringIO(), width=100)
    request = {"config": preset("bertha500"), "model": "llama-3.1-70b", "context": 131072} | options
    figures = run(Request(**request), console)
    return console.file.getvalue(), figures


def test_table_and_figures():
    text, figures = printed()
    for words in ("Llama-3.1-70B, 131,072 tokens", "clocks a token", "memory roof", "model MBU", "H100 SXM", "295.3",
                  "DGX Spark GB10", "Apple M4 Max"):
        assert words in text
    assert "analytic" not in text
    assert figures["accelerator"]["lost"] and not figures["accelerator"]["analytic"]
    assert figures["decode"]["bytes"] == pytest.approx(61.25e9, rel=1e-3)
    assert 0.36 < (figures["decode"]["kv_read_bytes"] / figures["decode"]["bytes"]) < 0.37
    assert json.loads(json.dumps(figures)) == figures


def test_beyond_memory_is_said():
    text, figures = printed(model="llama-3.1-405b", context=1024)
    assert "analytic, from bytes alone: the model needs" in text and "choose a larger preset" in text
    assert figures["accelerator"]["analytic"]


def test_batch_shares_weights_elsewhere_only():
    _, one = printed(context=1024)
    text, eight = printed(context=1024, batch=8)
    assert "one sequence after the other" in text
    assert one["accelerator"]["tokens_per_second"] == eight["accelerator"]["tokens_per_second"]
    h100 = [figures["devices"][0]["tokens_per_second"] for figures in (one, eight)]
    assert 7 * h100[0] < h100[1] < 8 * h100[0]


def test_any_bandwidth_and_types():
    _, figures = printed(context=2049, model="llama-3.1-8b", weights="BF16", kv="BF16", bandwidths=(546, 273))
    speeds = [round(device["tokens_per_second"], 1) for device in figures["devices"][-2:]]
    assert speeds == [35.7, 17.9]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures(tmp_path, suffix):
    run_file = tmp_path / "run.json"
    run_file.write_text(json.dumps(RUN))
    path = tmp_path / "new" / f"roof.{suffix}"
    printed(plot=path, measured=(run_file,))
    if suffix == "svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    else:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_measured_runs_lie_under_the_roof():
    intensity, rate = run_point(RUN)
    assert run_model(RUN) == "SmolLM2-135M"
    assert 2.7 < intensity < 2.9
    assert rate == pytest.approx(intensity * 0.976 * 4 * 32 * 8533e6 / 16, rel=1e-6)
    assert run_point(RUN | {"model": "my own"}) is None


def test_public_measurements_are_all_there_and_plausible():
    measured = public_measurements()
    devices = {m.device for m in measured}
    assert len(measured) == 120 and {"H100 SXM", "DGX Spark GB10", "Apple M4 Max"} <= devices
    assert all(m.source for m in measured)
    llama = next(m for m in measured if m.model == "Llama-3.1-8B" and m.device == "H100 SXM" and m.batch == 1)
    assert llama.share == pytest.approx(0.417, abs=0.001)
    assert llama.intensity == pytest.approx(1, abs=0.02)
    assert all(0.5 < m.intensity < 200 for m in measured if m.trusted and m.intensity)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--model", "llama-9"], "unknown model 'llama-9'; known: SmolLM2-135M"),
    (["--context", "8193"], "SmolLM2-135M has a context of 8192 tokens; choose 1 to 8192"),
    (["--context", "0"], "choose 1 to 8192"),
    (["--batch", "0"], "--batch 0: choose 1 to 65536"),
    (["--bandwidth", "-3"], "--bandwidth -3: give GB/s"),
    (["--weights", "Q9_9"], "unknown storage type 'Q9_9'"),
    (["--kv", "x"], "unknown storage type 'x'"),
    (["--plot", "roof.gif"], "name a file that ends in .svg"),
    (["--plot", "/proc/none/roof.svg"], "cannot write /proc/none/roof.svg"),
    (["--measured", "none.json"], "none.json: No such file"),
    (["--measured", str(Path(__file__))], "not JSON; give the --json file of a run"),
    (["--preset", "none"], "unknown preset 'none'"),
    (["--set", "channels=40"], "channels is 40"),
])
def test_mistakes_cost_one_line_and_exit_code_2(monkeypatch, capfd, arguments, message):
    monkeypatch.setattr(sys, "argv", ["headrace", "roofline", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and message in lines[0]


@pytest.mark.parametrize(("change", "message"), [
    ({"model": None}, "no model"), ({"decode_steps": 0}, "no decode steps"), ({"model_mbu": 1.4}, "no decode steps")])
def test_files_that_are_no_run(tmp_path, change, message):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN | change))
    with pytest.raises(Exception, match=message):
        read_run(path)
