"""Fidelity figures: the comparison itself, the texts, and a sample on SmolLM2 (all: ``headrace bench fidelity``)."""

import numpy as np
import pytest

from firmware.gguf_model import read_model
from firmware.tokenizer import Tokenizer
from sim.fidelity import KL_LIMIT, POSITIONS, compare, fidelity, texts
from sim.golden.model import GoldenModel
from sim.llama import Llama
from sim.model_fetch import smollm2
from sim.random_model import RandomLlama, write_model


def test_divergence_of_known_distributions():
    reference = np.log(np.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]])).astype(np.float32)
    other = np.log(np.array([[0.25, 0.5, 0.25], [0.2, 0.3, 0.5]])).astype(np.float32) + np.float32(7)
    result = compare(reference, other)
    assert np.allclose(result.kl, [0.25 * np.log(2), 0], atol=1e-6) and result.agree.tolist() == [False, True]


def test_figures_of_a_small_model(tmp_path):
    """Byte by byte, the texts are longer than this model's context."""
    model = read_model(write_model(tmp_path / "m.gguf", RandomLlama(layers=1, context=POSITIONS + 10)))
    result = fidelity(model, 16)
    assert result["positions"] == 2 * (POSITIONS + 10) and result["mantissa_bits"] == 16 and result["ok"]
    parts = result["texts"].values()
    assert result["kl_mean"] == pytest.approx(np.mean([p["kl_mean"] for p in parts]))
    assert result["kl_max"] == max(p["kl_max"] for p in parts)
    short = read_model(write_model(tmp_path / "s.gguf", RandomLlama(layers=1, context=POSITIONS - 1)))
    assert not fidelity(short, 16)["ok"]


def test_smollm2_sample():
    model = read_model(smollm2())
    tokenizer = Tokenizer(model.tokenizer)
    runs = {name: tokenizer.encode(text) for name, text in texts().items()}
    assert len(runs) == 2 and all(len(r) >= 230 for r in runs.values())
    tokens = runs["millrace"][:40]
    result = compare(Llama(model).forward(tokens), GoldenModel(model).forward(tokens))
    assert result.kl.mean() < KL_LIMIT and result.agree.mean() > 0.9
