"""Compiled programs over memory images give the golden model's bits; the programs keep the rules that freedom from
deadlock rests on."""

from dataclasses import replace

import numpy as np
import pytest

from firmware.compiler import build_program, compile_model, largest_exponent
from firmware.errors import UserError
from firmware.gguf_model import Matrix, read_model
from firmware.image import POISON, block_table, write_image
from firmware.program import Program, access, slice_of, slice_record, words_of
from hw.config import BEAT_BYTES, preset
from hw.isa import PROGRAM_DEPTH, AccessKind, ExecuteKind, Format, SliceKind
from sim.golden.model import GoldenModel
from sim.program_memory import ProgramError
from sim.program_model import ProgramModel
from sim.random_model import RandomLlama, write_model

CASES = {
    "one KV head, two channels": (RandomLlama(), {}),
    "group of 3, three channels, three pages": (
        RandomLlama(heads=6, kv_heads=2, hidden=192, type="Q4_0"), {"channels": 3, "page_slots": 2}),
    "group of 8, four lanes, untied": (
        RandomLlama(heads=8, kv_heads=1, hidden=256, type="Q8_0", tied=False, vocab=301),
        {"channels": 4, "lanes": 4, "page_slots": 2}),
    "one channel, wide heads": (
        RandomLlama(heads=3, kv_heads=3, hidden=192, head_dim=64), {"channels": 1, "page_slots": 32}),
    "floats, two lanes, 16 bits": (RandomLlama(type="F16", ffn=96), {"lanes": 2, "mantissa_bits": 16}),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models by case."""
    folder = tmp_path_factory.mktemp("models")
    return {name: read_model(write_model(folder / f"{name}.gguf", llama)) for name, (llama, _) in CASES.items()}


def prepared(model, config, seed=0):
    """(compiled, memories) of a model."""
    compiled = compile_model(model, config)
    memories = [np.zeros(compiled.layout.end * BEAT_BYTES, np.uint8) for _ in range(config.channels)]
    write_image(model, compiled.layout, memories, seed)
    return compiled, memories


@pytest.mark.parametrize("name", CASES)
def test_programs_over_images_equal_the_golden_model(models, name):
    model, config = models[name], preset("tiny").override(**CASES[name][1])
    compiled, memories = prepared(model, config, seed=7)
    device = ProgramModel(config, memories, compiled.program, compiled.registers)
    golden = GoldenModel(model, config.mantissa_bits)
    assert compiled.weight_exponents == golden.weight_exponents
    tokens = np.random.default_rng(3).integers(model.vocab, size=20)
    want = golden.forward(tokens)
    for position, token in enumerate(tokens):
        head = position % 3 == 0
        logits = device.step(int(token), position, head)
        assert (logits is not None) == head
        if head:
            np.testing.assert_array_equal(logits.view(np.uint32), want[position].view(np.uint32), err_msg=f"{position}")


def test_a_damaged_image_or_program_shows(models):
    """The check above can fail: by one bit of the image, a lost record, a wrong size, a wrong order."""
    model, config = models["one KV head, two channels"], preset("tiny")
    compiled, memories = prepared(model, config)
    program = compiled.program
    want = ProgramModel(config, memories, program, compiled.registers).step(5, 0)
    memories[1][(compiled.layout.shares["v"].base + 1) * BEAT_BYTES] ^= 1
    assert (ProgramModel(config, memories, program, compiled.registers).step(5, 0) != want).any()

    rows, todo = list(program.access), list(program.execute)
    weights = next(n for n, r in enumerate(rows) if r.kind is AccessKind.WEIGHTS)
    shorter = access(AccessKind.WEIGHTS, format=rows[weights].format, beats=rows[weights].beats - 1)
    matrix = next(n for n, r in enumerate(todo) if r.kind is ExecuteKind.SLICE and slice_of(r).take_fence)
    broken = [
        Program(tuple(rows[:weights] + rows[weights + 1:]), program.execute),
        Program(tuple(rows[:weights] + [shorter] + rows[weights + 1:]), program.execute),
        Program(program.access, tuple(todo[:2] + todo[4:])),
        Program(program.access, tuple(todo[:matrix] + [todo[matrix]] + todo[matrix:])),
    ]
    for candidate in broken:
        with pytest.raises((ProgramError, RuntimeWarning)):  # NumPy warns where codes taken for scales give NaN
            ProgramModel(config, memories, candidate, compiled.registers).step(5, 0)


def test_a_vector_record_comes_before_what_feeds_it(models):
    compiled, _ = prepared(models["group of 3, three channels, three pages"], preset("tiny").override(channels=3))
    kinds = [record.kind for record in compiled.program.execute]
    for previous, kind in zip(kinds, kinds[1:], strict=False):
        assert not (previous is ExecuteKind.VECTOR and kind is ExecuteKind.VECTOR)


def test_pages_are_a_permutation_and_poisoned(models):
    compiled, memories = prepared(models["one KV head, two channels"], preset("tiny"), seed=5)
    layout = compiled.layout
    table = block_table(layout, 5)
    assert sorted(table.reshape(-1)) == list(range(layout.physical_pages))
    assert (table != block_table(layout, 6)).any() and (np.diff(table.reshape(-1).astype(int)) != 1).any()
    for memory in memories:
        lines = memory[layout.table_base * BEAT_BYTES:].view("<u4")[:layout.table_stride * 8 * layout.shape.layers]
        np.testing.assert_array_equal(lines.reshape(layout.shape.layers, -1)[:, :layout.pages], table)
        pages = memory[layout.kv_base * BEAT_BYTES:][:layout.physical_pages * layout.page_beats * BEAT_BYTES]
        assert (pages == POISON).all()


def test_many_heads_fit_the_program_memory(models):
    layout = compile_model(models["one KV head, two channels"], preset("tiny")).layout
    wide = replace(layout, shape=replace(layout.shape, kv_heads=63, heads=63))
    exponents = dict.fromkeys(layout.shares, 1)
    program = build_program(wide, exponents)
    assert max(len(program.access), len(program.execute)) <= PROGRAM_DEPTH
    with pytest.raises(UserError, match="its memory holds 256"):
        Program((access(AccessKind.END),) * (PROGRAM_DEPTH + 1), ())


def test_a_number_beyond_its_field_is_refused():
    assert slice_of(slice_record(SliceKind.MATRIX, blocks=2047)).blocks == 2047
    for build in (lambda: slice_record(SliceKind.MATRIX, blocks=2048), lambda: access(AccessKind.END, beats=1 << 24)):
        with pytest.raises(UserError, match="2048 .* 11 bits|16777216 .* 24 bits"):
            build()


def test_largest_exponent_counts_scale_and_minimum():
    raw = np.zeros((2, 3, 20), np.uint8)
    raw[1, 2, 1], raw[0, 0, 3] = 0x90, 0x57
    assert largest_exponent(Matrix("m", Format.Q4_1, raw)) == 0x57 >> 2
    raw[0, 0, 3] = 0
    assert largest_exponent(Matrix("m", Format.Q4_1, raw)) == 0x10 >> 2


def test_words_are_low_word_first():
    record = access(AccessKind.WEIGHTS, base=0x5A5A5A5, stride=0x123456)
    words = words_of([record], 4)
    assert sum(word << (32 * n) for n, word in enumerate(words)) == record.as_bits()
