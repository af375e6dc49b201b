"""Memory layout: sizes, addresses, what does not fit, and the beats of a step against the programs' own."""

from dataclasses import replace

import pytest

from firmware.compiler import build_program
from firmware.errors import UserError
from firmware.layout import LAYER_ROLES, ModelShape, plan_layout
from firmware.program import walk
from firmware.traffic import step_traffic
from hw.config import preset
from hw.isa import AccessKind, Format


def formats(layers, head):
    return dict.fromkeys(LAYER_ROLES, layers) | {"head": head}


SMOLLM2 = ModelShape(576, 9, 3, 64, 1536, 49152, 30, 8192, formats(Format.Q4_1, Format.Q8_0))
LLAMA_70B = ModelShape(8192, 64, 8, 128, 28672, 128256, 80, 131072, formats(Format.Q4_0, Format.Q4_0))
SMALL = ModelShape(96, 3, 1, 32, 160, 288, 2, 256, formats(Format.Q8_0, Format.Q8_0))


def regions(layout):
    """(first, end) beats of every region."""
    yield 0, layout.layer_stride * layout.shape.layers
    for region in (layout.shares["head"], layout.attn_norm, layout.ffn_norm, layout.rope, layout.embedding):
        yield region.base, region.base + region.beats
    yield layout.table_base, layout.table_base + layout.table_stride * layout.shape.layers
    yield layout.kv_base, layout.kv_base + layout.page_beats * layout.physical_pages
    yield layout.logits_base, layout.logits_base + layout.logits_beats


@pytest.mark.parametrize(("shape", "config"), [
    (SMOLLM2, preset("demo")), (LLAMA_70B, preset("bertha500")), (SMALL, preset("tiny").override(channels=3))])
def test_regions_follow_each_other_without_overlap(shape, config):
    layout = plan_layout(shape, config)
    end = 0
    for first, last in regions(layout):
        assert first >= end and first % 128 == 0
        end = last
    assert end == layout.end <= config.channel_beats
    at = 0
    for role in LAYER_ROLES:
        assert layout.shares[role].base == at
        at += layout.shares[role].beats
    assert at == layout.layer_stride


def test_a_token_of_smollm2_streams_the_documented_beats():
    traffic = step_traffic(plan_layout(SMOLLM2, preset("demo")), 0)
    assert traffic.weights == [753_408] * 4
    assert traffic.weight_bytes == 66_355_200 + 30_081_024
    wide = step_traffic(plan_layout(SMOLLM2, preset("demo").override(channels=32)), 0)
    half_scale_beats = 30 * 2  # K and V shares of 108 blocks, 8 a scale beat
    assert wide.weights == [94_176 + half_scale_beats] * 32
    assert wide.padding_bytes == 32 * 32 * half_scale_beats


def test_rows_that_do_not_divide_are_padded():
    share = plan_layout(SMALL, preset("tiny").override(channels=3)).shares["gate_up"]
    assert (share.results, share.rows) == (320, 107)
    assert (share.scale_beats, share.data_beats) == (21, 321)


@pytest.mark.parametrize("position", [0, 1, 7, 8, 63, 64, 200])
@pytest.mark.parametrize("head", [False, True])
def test_traffic_is_what_the_program_fetches(position, head):
    config = preset("tiny").override(channels=3, page_slots=8)
    shape = replace(SMALL, kv_heads=3, head_dim=64, hidden=192)
    layout = plan_layout(shape, config)
    program = build_program(layout, dict.fromkeys((*LAYER_ROLES, "head"), 1))
    traffic = step_traffic(layout, position, head)
    fixed = {kind: sum(r.beats for r, _ in walk(program.access, head) if r.kind is kind)
             for kind in (AccessKind.WEIGHTS, AccessKind.VECTOR)}
    assert traffic.weights == [fixed[AccessKind.WEIGHTS]] * 3
    assert traffic.vectors == [fixed[AccessKind.VECTOR]] * 3
    heads = sum(r.kind is AccessKind.KV_K for r, _ in walk(program.access, head))
    older = [len(range(channel, position, 3)) for channel in range(3)]
    assert traffic.kv_read == [heads * (2 * -(-n // 8) + 4 * n) for n in older]
    assert traffic.kv_written == [heads * 6 if channel == position % 3 else 0 for channel in range(3)]
    assert traffic.kv_bytes == (position + 1) * 2 * 3 * 2 * 66


def test_logits_are_dealt_round_the_channels():
    traffic = step_traffic(plan_layout(replace(SMALL, vocab=301), preset("tiny").override(channels=3)), 5, logits=True)
    assert traffic.logits == [13, 13, 12]
    assert step_traffic(plan_layout(SMALL, preset("tiny")), 5, head=False, logits=True).logits == [0, 0]


@pytest.mark.parametrize(("shape", "config", "context", "message"), [
    (LLAMA_70B, preset("demo").override(max_hidden=8192, max_ffn=28672), None, r"needs \d+\.\d GB .* has 8.6 GB in 4"),
    (replace(SMALL, ffn=544), preset("tiny"), None, "FFN width is 544, beyond max_ffn = 512 .* --set max_ffn=544"),
    (replace(SMALL, heads=9, head_dim=32), preset("tiny"), None, "attention width is 288, beyond max_hidden = 256"),
    (replace(SMALL, heads=9), preset("tiny").override(max_hidden=512), None, "heads a KV head is 9, beyond max_group"),
    (replace(SMALL, head_dim=96), preset("demo"), None, "head width is 96, not 32, 64, 128 or 256"),
    (replace(SMALL, layers=256), preset("tiny"), None, "256 layers"),
    (SMALL, preset("tiny"), 257, "context of 257 tokens: the model has 256"),
    (SMALL, preset("tiny"), 0, "choose 1 to 256"),
])
def test_what_does_not_fit_is_refused_with_numbers(shape, config, context, message):
    with pytest.raises(UserError, match=message):
        plan_layout(shape, config, context)


def test_context_is_the_smallest_limit():
    assert plan_layout(SMALL, preset("tiny")).context == 256
    assert plan_layout(SMALL, preset("tiny").override(max_context=100)).context == 100
    assert plan_layout(SMALL, preset("tiny"), 40).pages == 5
