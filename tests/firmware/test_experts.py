"""Mixture of experts: which are drawn, where they lie, in which order they stream, and what their sum is."""

from dataclasses import replace

import numpy as np
import pytest

from firmware.compiler import build_program, compile_layout, compile_model
from firmware.errors import UserError
from firmware.experts import expert_order
from firmware.gguf_model import Matrix, read_model
from firmware.image import glu_row_order, write_image, write_matrix
from firmware.layout import EXPERT_ROLES, ModelShape, plan_layout, shape_of
from firmware.program import slice_of, vector_of, walk
from firmware.traffic import step_traffic
from hw.config import BEAT_BYTES, preset
from hw.isa import AccessKind, ExecuteKind, Format, Region, VectorKind
from sim.program_model import ProgramModel
from sim.random_model import RandomLlama, write_model

ROLES = ("q", "k", "v", "o", "router", "gate_up", "down", "head")
SHAPE = ModelShape(96, 3, 1, 32, 160, 289, 5, 256, dict.fromkeys(ROLES, Format.Q4_0), experts=7, chosen=3)
CONFIG = preset("tiny").override(channels=3)
ONES = dict.fromkeys(ROLES, 1)


def test_experts_are_drawn_by_seed_layer_by_layer():
    drawn = plan_layout(SHAPE, CONFIG, seed=4).drawn
    assert drawn == plan_layout(SHAPE, CONFIG, seed=4).drawn != plan_layout(SHAPE, CONFIG, seed=5).drawn
    assert len(drawn) == 5 and len(set(drawn)) > 3
    assert all(len(set(layer)) == 3 and set(layer) <= set(range(7)) for layer in drawn)
    assert plan_layout(SHAPE, CONFIG, seed=4).first_layers(2).drawn == drawn[:2]
    assert plan_layout(replace(SHAPE, experts=0, chosen=0), CONFIG).drawn == ()


@pytest.mark.parametrize("chosen", [1, 2, 3, 4])
def test_gate_and_up_of_the_next_expert_come_before_down(chosen):
    order = list(expert_order(chosen))
    assert sorted(order) == sorted((role, n) for role in EXPERT_ROLES for n in range(chosen))
    for n in range(chosen):
        before = order[:order.index(("down", n))]
        assert ("gate_up", n) in before
        # Two regions hold operands of down: the one before the last must have been used.
        assert sum(role == "gate_up" for role, _ in before) - sum(role == "down" for role, _ in before) <= 2
        assert n == chosen - 1 or ("gate_up", n + 1) in before


def test_programs_read_the_drawn_experts_where_they_lie():
    """All experts of all layers have a place of their own; each layer reads the router and its drawn ones."""
    layout = plan_layout(SHAPE, CONFIG, seed=4)
    places = {}
    for layer in range(SHAPE.layers):
        for role in SHAPE.roles:
            for expert in range(SHAPE.experts if role in EXPERT_ROLES else 1):
                places[layout.shares[role].base + layout.offset(layer, expert)] = role, layer, expert
    ends = sorted((base, base + layout.shares[role].beats) for base, (role, _, _) in places.items())
    assert len(ends) == SHAPE.layers * (5 + 7 * 2)
    assert all(end == first for (_, end), (first, _) in zip(ends, ends[1:], strict=False))
    read = [places[r.base] for r in build_program(layout, ONES).access
            if r.kind is AccessKind.WEIGHTS and r.base != layout.shares["head"].base]
    want = []
    for layer, drawn in enumerate(layout.drawn):
        want += [(role, layer, 0) for role in ("q", "k", "v", "o", "router")]
        want += [(role, layer, drawn[n]) for role, n in expert_order(3)]
    assert read == want


def test_other_experts_are_another_program_of_the_same_execute_records():
    one, other = (build_program(plan_layout(SHAPE, CONFIG, seed=seed), ONES) for seed in (1, 2))
    assert one.execute == other.execute and one.access != other.access


@pytest.mark.parametrize("head", [False, True])
def test_traffic_is_what_the_program_fetches(head):
    layout = plan_layout(SHAPE, CONFIG)
    program, traffic = build_program(layout, ONES), step_traffic(layout, 40, head)
    for kind, beats in ((AccessKind.WEIGHTS, traffic.weights), (AccessKind.VECTOR, traffic.vectors)):
        assert beats == [sum(r.beats for r, _ in walk(program.access, head) if r.kind is kind)] * 3
    dense = step_traffic(plan_layout(replace(SHAPE, experts=0, chosen=0), CONFIG), 40, head)
    # Q4_0: 18 bytes for 32 weights; two more experts of 3 x 160 x 96, and a router of 7 x 96
    assert traffic.weight_bytes - dense.weight_bytes == 5 * (2 * 3 * 160 * 96 + 7 * 96) * 18 // 32


def test_operands_of_down_take_turns():
    """What a gate and up are quantised to is what the down of the same expert reads, and only the last norms."""
    records = [r for r, layer in walk(build_program(plan_layout(SHAPE, CONFIG), ONES).execute, True) if layer == 1]
    vectors = [vector_of(r) for r in records if r.kind is ExecuteKind.VECTOR]
    to = [Region.ATTENTION if v.slot else Region.FFN for v in vectors if v.kind is VectorKind.GLU]
    after = [(v.kind, v.region) for v in vectors if v.kind in (VectorKind.ADD, VectorKind.RESIDUAL)][1:]
    assert to == [region for _, region in after] == [Region.FFN, Region.ATTENTION, Region.FFN]
    assert [kind for kind, _ in after] == [VectorKind.ADD, VectorKind.ADD, VectorKind.RESIDUAL]
    fences = [slice_of(r).region for r in records if r.kind is ExecuteKind.SLICE and slice_of(r).take_fence]
    assert fences[-5:] == [Region.ATTENTION, Region.HIDDEN, Region.FFN, Region.ATTENTION, Region.FFN]


def test_more_layers_than_the_program_memory_holds():
    layout = plan_layout(replace(SHAPE, layers=20), CONFIG)
    compile_layout(layout.first_layers(12), ONES, 1e-5)
    with pytest.raises(UserError, match="its memory holds 256: choose fewer layers"):
        compile_layout(layout, ONES, 1e-5)


def test_experts_wider_than_the_second_operand_region():
    wide = preset("tiny").override(max_kv_heads=1, max_group=3)
    plan_layout(SHAPE, wide)
    with pytest.raises(UserError, match="experts are 224 wide, .* 192: .*--set max_group"):
        plan_layout(replace(SHAPE, ffn=224), wide)
    plan_layout(replace(SHAPE, ffn=224, chosen=1), wide)


def part(matrix, rows=slice(None), blocks=slice(None)):
    return Matrix(matrix.name, matrix.format, np.ascontiguousarray(matrix.raw[rows, blocks]))


def halves(model, number):
    """*model* with half of its feed-forward: one expert of two that make the whole."""
    width = model.layers[0].gate.rows // 2
    own, blocks = slice(number * width, (number + 1) * width), slice(number * width // 32, (number + 1) * width // 32)
    layers = [replace(layer, gate=part(layer.gate, own), up=part(layer.up, own), down=part(layer.down, blocks=blocks))
              for layer in model.layers]
    return replace(model, ffn=width, layers=layers)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_experts_that_make_up_a_dense_model_give_its_logits(tmp_path, channels):
    """Each layer's feed-forward is cut into two experts, put where the drawn ones lie among others full of poison."""
    config = preset("tiny").override(channels=channels, lanes=min(channels, 2) if channels != 3 else 1)
    model = read_model(write_model(tmp_path / "model.gguf", RandomLlama(type="Q8_0", ffn=320, layers=3)))
    compiled = compile_model(model, config)
    images = [np.zeros(compiled.layout.end * BEAT_BYTES, np.uint8) for _ in range(channels)]
    write_image(model, compiled.layout, images)
    dense = ProgramModel(config, images, compiled.program, compiled.registers)

    cut = [halves(model, number) for number in range(2)]
    shape = shape_of(cut[0])
    formats = shape.formats | {"router": Format.Q8_0}
    layout = plan_layout(replace(shape, formats=formats, experts=4, chosen=2), config, seed=1)
    assert any(0 not in drawn for drawn in layout.drawn)
    images = [np.zeros(layout.end * BEAT_BYTES, np.uint8) for _ in range(channels)]
    for image in images:
        image[:layout.layer_stride * 3 * BEAT_BYTES] = 0x7F
    write_image(cut[0], layout, images)
    glu = glu_row_order(shape.ffn, config.lanes)
    for layer, drawn in enumerate(layout.drawn):
        write_matrix(np.zeros((4, 3, 34), np.uint8), layout.shares["router"], layout.offset(layer), images)
        for number, expert in enumerate(drawn):
            own = cut[number].layers[layer]
            gate_up = np.concatenate([own.gate.raw, own.up.raw])[glu]
            write_matrix(gate_up, layout.shares["gate_up"], layout.offset(layer, expert), images)
            write_matrix(own.down.raw, layout.shares["down"], layout.offset(layer, expert), images)
    program = compile_layout(layout, compiled.weight_exponents | {"router": 1}, model.eps)
    experts = ProgramModel(config, images, program.program, program.registers)
    for position, token in enumerate((5, 77, 3, 280)):
        want, got = dense.step(token, position), experts.step(token, position)
        np.testing.assert_allclose(got, want, atol=2e-3 * want.std())
    layer, (_, other) = 1, layout.drawn[1]
    write_matrix(cut[0].layers[layer].down.raw, layout.shares["down"], layout.offset(layer, other), images)
    experts = ProgramModel(config, images, program.program, program.registers)
    assert abs(experts.step(5, 0) - dense.step(5, 0)).max() > 0.05 * want.std()
