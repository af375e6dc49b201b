"""The roofline's prediction against runs of the RTL, of small models: their fences cost more than any real one's."""

import pytest

from firmware.layout import plan_layout
from hw.config import preset
from sim.catalogue import find_model
from sim.random_model import RandomLlama, write_model
from sim.roofline import predicted_clocks, roof_clocks
from sim.system.check import run_checked

TINY = preset("tiny")
MODELS = {
    "two KV heads": RandomLlama(layers=4, hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=512, vocab=1000,
                                type="Q4_0"),
    "group of four": RandomLlama(layers=4, hidden=256, heads=8, kv_heads=2, head_dim=32, ffn=512, vocab=400),
}
WITHIN = 0.03


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("position", [4, 40])
def test_prediction(tmp_path, name, position):
    path = write_model(tmp_path / "model.gguf", MODELS[name])
    prompt = [(7 * n * n + 3) % 289 for n in range(position)]
    result = run_checked(path, TINY, prompt, 5, opt="-O1").result
    layout = plan_layout(find_model(path).shape(), TINY)
    steps, clocks = result["decode_steps"], result["decode_clocks"]
    assert abs(predicted_clocks(layout, position, steps) / clocks - 1) < WITHIN
    # The structure's part is no trifle here, so the prediction says something.
    assert clocks > (1 + WITHIN) * roof_clocks(layout, position, steps)
