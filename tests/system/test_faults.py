"""Malformed programs and aborted runs on the RTL: each names its error, and the next step has the right bits."""

import hashlib

import pytest

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from firmware.image import write_image
from hw.config import preset
from sim.build import run_folder
from sim.golden.model import GoldenModel
from sim.random_model import RandomLlama, write_model
from sim.system.faults import planted_faults
from sim.system.model import system_program
from sim.system.simulator import FaultJob, SimulationError, Simulator, open_store

CONFIG = preset("tiny")
PROMPT = [5, 77, 3, 280, 9, 11, 12, 200]  # a page: the good step's token is the first of the next
ABORTS, READS = 30, 6


def test_faults_and_aborts(tmp_path):
    llama = RandomLlama(hidden=96, heads=3, kv_heads=1, head_dim=32, ffn=160, vocab=289, seed=1, context=24)
    path = write_model(tmp_path / "model.gguf", llama)
    model = read_model(path)
    assert len(PROMPT) == CONFIG.page_tokens
    (token, _), (following, logits) = GoldenModel(model, CONFIG.mantissa_bits).generate(PROMPT, 2)
    compiled = compile_model(model, CONFIG)
    layout = compiled.layout
    program = system_program(CONFIG, memory_port=True, opt="-O1")
    job = FaultJob(CONFIG, str(path), layout.context, PROMPT, token, model.vocab, ABORTS, READS, seed=1)
    with run_folder("faults") as folder:
        write_image(model, layout, list(open_store(folder / "store", CONFIG, create=True)), seed=1)
        with Simulator(program, job, folder) as simulator:
            result = simulator.finish()
    planted = list(planted_faults(compiled, len(PROMPT)))
    errors = {case.name: error for case, error in zip(planted, result["errors"], strict=True)}
    assert errors == {case.name: {name: value for name, value in case.error.items() if value} for case in planted}
    good = {"token": following, "logits": hashlib.sha256(logits.tobytes()).hexdigest()}
    assert result["good"] == [good] * (1 + len(planted) + ABORTS)
    right, wrong = result["reads"]
    assert right and not wrong


def test_an_error_is_told_in_one_line(tmp_path):
    """What a session's driver says of an error is what a run ends with."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho '{\"device_error\": \"run: leftover: check\"}' > result\n")
    program.chmod(0o755)
    job = FaultJob(CONFIG, "", 1, [], 0, 1, 0, 0, seed=1)
    with Simulator(program, job, tmp_path) as simulator, pytest.raises(
            SimulationError, match="^the accelerator stopped: run: leftover: check$"):
        simulator.finish()
