from dataclasses import replace

from firmware.layout import LAYER_ROLES, ModelShape, plan_layout
from hw.config import preset
from hw.isa import Format
from sim.roofline import predicted_clocks

FORMATS = {role: Format.Q4_1 for role in LAYER_ROLES} | {"head": Format.Q8_0}
SMOLLM2 = ModelShape(hidden=576, heads=9, kv_heads=3, head_dim=64, ffn=1536, vocab=49152, layers=30, context=8192,
                     formats=FORMATS)

WEIGHT_CLOCKS = 753_408
"""(66,355,200 bytes of Q4_1 + 30,081,024 of Q8_0) / 128 bytes a clock."""


def test_smollm2_weights():
    layout = plan_layout(SMOLLM2, preset("demo"))
    clocks = predicted_clocks(layout, 0, 1)
    assert WEIGHT_CLOCKS < clocks < 1.01 * WEIGHT_CLOCKS


def test_grows_with_the_cache():
    layout = plan_layout(SMOLLM2, preset("demo"))
    more = predicted_clocks(layout, 4000, 1) - predicted_clocks(layout, 0, 1)
    # 1000 tokens a channel: K and V of 3 heads in 30 layers, 2 beats each and 2 bytes of exponents
    assert abs(more - 1000 * 30 * 3 * 2 * (2 + 2 / 32)) < 0.01 * more


def test_logits_to_memory_count():
    layout = plan_layout(SMOLLM2, preset("demo"))
    more = predicted_clocks(layout, 8, 3, logits=True) - predicted_clocks(layout, 8, 3)
    assert more == 3 * 49152 // 8 // 4


def test_steps_add_up():
    layout = plan_layout(replace(SMOLLM2, layers=2), preset("demo"))
    assert predicted_clocks(layout, 5, 3) == sum(predicted_clocks(layout, 5 + n, 1) for n in range(3))
