"""Small random llamas, end to end on the RTL: every token and every logit bit equal to the golden model.

KV pages are a random permutation and full of poison until they are written. The memory's rules are checked in all runs.
"""

from dataclasses import replace

import pytest

from hw.config import preset
from hw.dram.timing import timing_for
from sim.random_model import RandomLlama, write_model
from sim.system.check import run_checked

TINY = preset("tiny")

# Widths odd in blocks, and vocabularies that no channel count divides.
GROUP_3 = RandomLlama(hidden=96, heads=3, kv_heads=1, head_dim=32, ffn=160, vocab=289, seed=1)
GROUP_1 = RandomLlama(hidden=96, heads=3, kv_heads=3, head_dim=64, ffn=96, vocab=331, tied=False, type="Q4_0", seed=2)
GROUP_8 = RandomLlama(layers=1, hidden=160, heads=8, kv_heads=1, head_dim=32, ffn=224, vocab=290, type="Q8_0", seed=3)
MIXED = RandomLlama(hidden=96, heads=6, kv_heads=2, head_dim=32, ffn=160, vocab=289, tied=False, seed=4,
                    types={"attn_v": "Q8_0", "ffn_down": "Q4_0", "token_embd": "F16", "output": "F32"})
MODELS = {"group 3": GROUP_3, "group 1": GROUP_1, "group 8": GROUP_8, "mixed": MIXED}


def check(tmp_path, llama, config, prompt, count, **system):
    path = write_model(tmp_path / "model.gguf", llama)
    checked = run_checked(path, config, prompt, count, seed=llama.seed, opt="-O1", **system)
    assert checked.tokens == checked.golden_tokens
    assert checked.equal, "logits differ"
    assert checked.image_equal
    causes = checked.result["causes"]
    assert sum(causes.values()) == checked.result["decode_clocks"] * config.channels
    assert sum(checked.losses.counts.values()) == sum(causes.values()) - causes["data"]
    return checked


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_any_channels(tmp_path, name, channels):
    lanes = {1: 1, 2: 2, 3: 1, 4: 4}[channels]
    check(tmp_path, MODELS[name], TINY.override(channels=channels, lanes=lanes), [5, 77, 3, 280, 9], 4)


def test_pages(tmp_path):
    """29 tokens in pages of 8: three full pages are crossed, and the last is filled in part."""
    prompt = [(7 * n * n + 3) % 289 for n in range(22)]
    check(tmp_path, GROUP_3, TINY.override(channels=2, lanes=2), prompt, 8)


def test_stalls_and_slow_refresh(tmp_path):
    """Random stalls in every stream, and refresh twice as often and three times as long, change no bit."""
    timing = timing_for(TINY.density_gbit)
    slow = replace(timing, trefi=timing.trefi // 2, trfcpb=3 * timing.trfcpb)
    check(tmp_path, MIXED, TINY, [5, 77, 3, 280, 9, 11, 12], 6, timing=slow, stalls=11)


def test_loaded_through_axi4(tmp_path):
    """The memory port gives the same bytes as a direct load and the same tokens, and reads back what it wrote."""
    checked = check(tmp_path, replace(GROUP_3, context=24), TINY, [5, 77, 3, 280], 3, load="axi4")
    assert checked.result["load"] == "axi4"


@pytest.mark.parametrize("name", ["group 3", "group 8"])
def test_logits_through_memory(tmp_path, name):
    """The host picks each token from the logits in memory; the most likely one, so the answer is the greedy one."""
    sampling = {"temperature": 1.0, "top_k": 1, "seed": 0}
    check(tmp_path, MODELS[name], TINY.override(channels=3), [5, 77, 3], 4, sampling=sampling)
