"""The golden llama: runs equal steps, it stays near the float llama, and SmolLM2 says what it should."""

import numpy as np
import pytest

from firmware.gguf_model import read_model
from firmware.tokenizer import Tokenizer
from sim.golden.block import Blocks
from sim.golden.matrix import Weights, accumulate, row_results
from sim.golden.model import GoldenModel
from sim.llama import Llama
from sim.model_fetch import smollm2
from sim.random_model import RandomLlama, write_model

SHAPES = {
    "one head, untied": RandomLlama(heads=1, kv_heads=1, tied=False, type="Q4_0"),
    "group of three": RandomLlama(heads=6, kv_heads=2, type="Q4_1", layers=3),
    "group of eight": RandomLlama(heads=8, kv_heads=1, head_dim=64, type="Q8_0", tied=False),
    "odd FFN, rope factors": RandomLlama(ffn=224, type="F16", rope_dims=16, rope_factors=tuple(range(1, 9))),
}


@pytest.fixture(scope="module", params=SHAPES)
def model(request, tmp_path_factory):
    return read_model(write_model(tmp_path_factory.mktemp("model") / "random.gguf", SHAPES[request.param]))


def tokens_of(model, count, seed=1):
    return np.random.default_rng(seed).integers(0, model.vocab, count)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_runs_equal_steps(model, bits):
    """70 tokens: more than two runs, and the cache grows several times."""
    golden = GoldenModel(model, bits)
    tokens = tokens_of(model, 70)
    run = golden.forward(tokens)
    golden.reset()
    steps = np.stack([golden.step(t) for t in tokens])
    assert run.dtype == np.float32 and (run.view(np.uint32) == steps.view(np.uint32)).all()
    golden.reset()
    golden.forward(tokens[:69], head=False)
    assert (golden.step(tokens[69]) == run[69]).all()


def test_near_the_float_llama(model):
    tokens = tokens_of(model, 40)
    golden, real = GoldenModel(model, 16).forward(tokens), Llama(model).forward(tokens)
    assert np.abs(golden - real).max() < 0.01 * np.abs(real).max()


def test_float_llama_runs_equal_steps(model):
    tokens = tokens_of(model, 12)
    llama = Llama(model)
    run = llama.forward(tokens)
    llama.reset()
    steps = np.concatenate([llama.forward(tokens[:5]), llama.forward(tokens[5:])])
    assert np.allclose(run, steps, rtol=1e-4, atol=1e-4)


def test_trace_has_what_a_bench_needs(model):
    seen = {}
    golden = GoldenModel(model, 12, trace=lambda name, layer, value: seen.__setitem__((name, layer), value))
    golden.forward(tokens_of(model, 9), head=False)
    seen.clear()
    logits = golden.step(3)
    last = len(model.layers) - 1
    assert {layer for _, layer in seen} == {None, *range(last + 1)}
    # the traced operand, through the plain formulation, gives the traced result
    w = Weights(*model.layers[last].gate.unpack())
    operand = Blocks(*(part[0] for part in seen["ffn_operand", last]))
    exponent = golden.weight_exponents["gate_up"]
    y = row_results(accumulate(w, operand, exponent), operand.largest, exponent, 12)
    assert (y * seen["ffn_inverse_rms", last][0] == seen["gate", last][0]).all()
    assert (seen["logits", None][0] == logits).all()
    assert len(seen["attend", 0]) == model.kv_heads
    assert seen["q_blocks", 0].mantissas.shape == (1, model.kv_heads, model.group, model.head_dim // 32, 32)


def test_context_limit(tmp_path):
    model = read_model(write_model(tmp_path / "short.gguf", RandomLlama(context=8)))
    golden = GoldenModel(model)
    golden.forward(range(8))
    with pytest.raises(ValueError, match="context of 8"):
        golden.step(0)


@pytest.fixture(scope="module")
def smol():
    return read_model(smollm2())


ANSWER = "Gravity is a fundamental concept in physics that describes"


def test_smollm2_answers(smol):
    """The published greedy answer, from the golden model and from the float llama."""
    tokenizer = Tokenizer(smol.tokenizer)
    prompt = tokenizer.chat("What is gravity?")
    golden = [token for token, _ in GoldenModel(smol).generate(prompt, 12, tokenizer.stop)]
    assert tokenizer.decode(golden).startswith(ANSWER)
    real = Llama(smol).forward(prompt + golden[:-1])[len(prompt) - 1:]
    assert real.argmax(axis=-1).tolist() == golden


def test_smollm2_runs_equal_steps(smol):
    golden = GoldenModel(smol)
    run = golden.forward([1, 9690, 198, 2683])
    golden.reset()
    assert (np.stack([golden.step(t) for t in (1, 9690, 198, 2683)]).view(np.uint32) == run.view(np.uint32)).all()
