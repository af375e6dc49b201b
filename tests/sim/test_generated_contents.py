"""Generated contents: legal and non-zero wherever a run reads, and executed by the program model as intended."""

import numpy as np
import pytest

from firmware.compiler import compile_layout
from firmware.layout import EXPERT_ROLES, ModelShape, plan_layout
from firmware.traffic import step_traffic
from hw.config import BEAT_BYTES, preset
from hw.isa import Format
from sim.generated_contents import EPSILON, GeneratedContents
from sim.program_model import ProgramModel

ROLES = ("q", "k", "v", "o", "gate_up", "down", "head")
CONFIG = preset("tiny").override(channels=3)
POSITION = 40


def planned(fmt):
    shape = ModelShape(hidden=96, heads=3, kv_heads=1, head_dim=32, ffn=160, vocab=289, layers=5, context=64,
                       formats=dict.fromkeys(ROLES, fmt))
    return plan_layout(shape, CONFIG)


def memories(layout, contents, layers, first, last):
    channels = np.zeros((CONFIG.channels, layout.end * BEAT_BYTES), np.uint8)
    contents.write(list(channels), layers, first, last)
    return channels


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_token_wins(fmt, seed):
    """Three layers of five: no infinity comes up, and the same token wins in two steps after each other."""
    layout = planned(fmt)
    contents = GeneratedContents(layout, seed)
    compiled = compile_layout(layout.first_layers(3), contents.exponents, EPSILON)
    images = memories(layout, contents, 3, POSITION, POSITION + 1)
    model = ProgramModel(CONFIG, list(images), compiled.program, compiled.registers)
    for position in (POSITION, POSITION + 1):
        logits = model.step(contents.token, position)
        assert np.isfinite(logits).all()
        assert logits.argmax() == contents.token
        assert len(np.unique(logits)) > 100


def test_seeds_differ_and_repeat():
    layout = planned(Format.Q4_1)

    def image(seed, table_seed=None):
        return memories(layout, GeneratedContents(layout, seed, table_seed), 2, POSITION, POSITION)

    def table(images):
        return images[:, layout.table_base * BEAT_BYTES:][:, :4 * layout.pages]

    assert np.array_equal(image(1), image(1))
    assert not np.array_equal(image(1), image(2))
    assert not np.array_equal(table(image(1)), table(image(2)))
    assert np.array_equal(table(image(1)), table(image(2, table_seed=1)))


def test_layers_of_a_layout_move_their_own_bytes():
    """All layers are the whole model; a layer more is as many beats more, wherever it is."""
    layout = planned(Format.Q4_0)
    beats = [max(step_traffic(layout.first_layers(layers), POSITION).beats) for layers in (2, 3, 4, 5)]
    assert beats[-1] == max(step_traffic(layout, POSITION).beats)
    assert len(set(np.diff(beats))) == 1


def test_drawn_experts_are_written_and_no_others():
    formats = dict.fromkeys((*ROLES, "router"), Format.Q4_0)
    shape = ModelShape(hidden=96, heads=3, kv_heads=1, head_dim=32, ffn=160, vocab=289, layers=5, context=64,
                       formats=formats, experts=6, chosen=2)
    layout = plan_layout(shape, CONFIG, seed=3)
    assert any(0 not in drawn for drawn in layout.drawn[:3])
    for channel in memories(layout, GeneratedContents(layout, 1), 3, POSITION, POSITION):
        beats = channel.reshape(-1, BEAT_BYTES).any(axis=1)
        for layer in range(shape.layers):
            for role in shape.roles:
                for expert in range(shape.experts if role in EXPERT_ROLES else 1):
                    first = layout.shares[role].base + layout.offset(layer, expert)
                    written = beats[first:first + layout.shares[role].beats]
                    read = layer < 3 and (role not in EXPERT_ROLES or expert in layout.drawn[layer])
                    assert written.all() if read else not written.any()
