"""SmolLM2-135M-Instruct on the demo preset's RTL: the beginning of a fidelity text, then four tokens of its own."""

import pytest

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from firmware.tokenizer import Tokenizer
from firmware.traffic import step_traffic
from hw.config import BEAT_BYTES, preset
from sim.fidelity import texts
from sim.model_fetch import smollm2
from sim.system.check import run_checked

PROMPT_TOKENS = 6
TOKENS = 4


@pytest.fixture(scope="module")
def path():
    return smollm2(print)


def test_tokens_logits_and_bandwidth(path):
    model, config = read_model(path), preset("demo")
    text = next(iter(texts().values()))
    prompt = Tokenizer(model.tokenizer).encode(text)[:PROMPT_TOKENS]
    checked = run_checked(path, config, prompt, TOKENS, seed=7)
    assert checked.tokens == checked.golden_tokens
    assert checked.equal, "logits differ"
    layout = compile_model(model, config).layout
    steps = range(PROMPT_TOKENS, PROMPT_TOKENS + TOKENS - 1)
    moved = sum(step_traffic(layout, position).model_bytes for position in steps)
    assert moved / (checked.result["decode_clocks"] * config.channels * BEAT_BYTES) > 0.9, "model MBU"
