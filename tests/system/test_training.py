"""The model of the training run fits whatever the configuration allows."""

import pytest

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from hw.config import preset
from sim.random_model import write_model
from sim.system.training import PROMPT, TOKENS, typical

CONFIGS = {
    "tiny": preset("tiny"), "demo": preset("demo"), "bertha500": preset("bertha500"),
    "three channels": preset("demo").override(channels=3),
    "least": preset("tiny").override(channels=1, max_hidden=32, max_ffn=32, max_kv_heads=1, max_head_dim=64,
                                     max_group=1),
    "short": preset("tiny").override(max_context=4),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_fits(tmp_path, name):
    config = CONFIGS[name]
    layout = compile_model(read_model(write_model(tmp_path / "model.gguf", typical(config))), config).layout
    assert layout.context >= len(PROMPT) + TOKENS - 1
