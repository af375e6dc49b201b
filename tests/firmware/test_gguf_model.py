"""GGUF blocks and models: agreement with the gguf package, quantisation, and refusals in one line."""

import os
import struct
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from firmware.blocks import BLOCK_BYTES, dequantise, pack, quantise_q8_0, unpack
from firmware.errors import UserError
from firmware.gguf_model import read_model
from hw.isa import Format
from sim.random_model import RandomLlama, write_model


@pytest.mark.parametrize("fmt", list(Format))
def test_blocks_agree_with_the_gguf_package(fmt):
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (5, 3, BLOCK_BYTES[fmt])).astype(np.uint8)
    raw[..., 1] &= 0xBF  # finite scales
    raw[..., 3] &= 0xBF if fmt is Format.Q4_1 else 0xFF
    theirs = quants.dequantize(raw.reshape(5, -1), GGMLQuantizationType[fmt.name])
    assert (dequantise(raw, fmt) == theirs).all()
    assert (pack(unpack(raw, fmt), fmt) == raw).all()


def test_nibble_order():
    """Low nibbles are elements 0 to 15."""
    raw = np.zeros((1, 1, 18), np.uint8)
    raw[0, 0, 2] = 0x3F  # byte 0: element 0 is 15, element 16 is 3
    codes = unpack(raw, Format.Q4_0).codes[0, 0]
    assert codes[0] == 15 - 8 and codes[16] == 3 - 8 and codes[1] == -8


def test_q8_0_quantisation():
    x = np.random.default_rng(2).standard_normal((3, 64)).astype(np.float32)
    raw = quantise_q8_0(x)
    scales = unpack(raw, Format.Q8_0).scales.view(np.float16).astype(np.float32)
    assert (scales == (np.abs(x).reshape(3, 2, 32).max(axis=-1) / 127).astype(np.float16)).all()
    error = np.abs(dequantise(raw, Format.Q8_0) - x).reshape(3, 2, 32)
    assert (error <= 0.56 * scales[..., None]).all()


def test_description_of_a_model(tmp_path):
    llama = RandomLlama(layers=3, hidden=128, heads=6, kv_heads=2, head_dim=64, ffn=224, vocab=300, tied=False,
                        type="Q4_0", types={"output": "Q8_0"}, rope_base=5e5, context=123)
    model = read_model(write_model(tmp_path / "m.gguf", llama))
    assert (model.hidden, model.heads, model.kv_heads, model.head_dim, model.ffn, model.vocab, model.context) == (
        128, 6, 2, 64, 224, 300, 123)
    assert (model.group, model.rope_base, model.rope_dims, model.tied, model.notices) == (3, 5e5, 64, False, ())
    assert len(model.layers) == 3 and model.head.format is Format.Q8_0 and model.head.name == "output.weight"
    one = model.layers[1]
    shapes = [(m.rows, m.columns) for m in (one.q, one.k, one.o, one.down)]
    assert shapes == [(384, 128), (128, 128), (128, 384), (128, 224)]
    assert model.layers[0].q.bytes == 384 * 4 * 18
    names = [m.name for m in model.role("gate_up")]
    assert names[:3] == ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.1.ffn_gate.weight"]


def test_quantised_matrices_stay_as_they_are(tmp_path):
    values = np.random.default_rng(3).standard_normal((96, 96)).astype(np.float32)
    model = read_model(write_model(tmp_path / "m.gguf", RandomLlama(), blk__0__attn_output=values))
    theirs = quants.quantize(values, GGMLQuantizationType.Q4_1)
    assert (model.layers[0].o.raw.reshape(96, -1) == theirs).all()
    assert not model.layers[0].o.raw.flags.writeable  # still the file's pages


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "F16", "F32"])
def test_embedding_rows_and_tied_head(tmp_path, kind):
    model = read_model(write_model(tmp_path / "m.gguf", RandomLlama(types={"token_embd": kind}, seed=4)))
    rows = model.embedding.rows([7, 0, 7])
    assert rows.dtype == np.float32 and rows.shape == (3, 96) and (rows[0] == rows[2]).all()
    if kind in ("F16", "F32"):
        assert model.head.format is Format.Q8_0 and "token_embd.weight" in model.notices[0]
        assert np.abs(model.head.dequantise()[7] - rows[0]).max() < 0.02
    else:
        assert model.head.format.name == kind and (model.head.dequantise()[[7, 0]] == rows[:2]).all()


def test_mixed_types_become_q8_0_with_a_notice(tmp_path):
    llama = RandomLlama(types={"ffn_up": "Q4_0", "blk.1.attn_v": "Q8_0", "attn_k": "F16"})
    model = read_model(write_model(tmp_path / "m.gguf", llama))
    formats = {r: {m.format for m in model.role(r)} for r in ("q", "k", "v", "o", "gate_up", "down")}
    eight = {r for r, f in formats.items() if f == {Format.Q8_0}}
    assert eight == {"k", "v", "gate_up"} and all(len(f) == 1 for f in formats.values())
    assert sorted(n.split()[0] for n in model.notices) == ["gate_up", "k", "v"]
    mixed, plain = model.layers[0].up, read_model(write_model(tmp_path / "p.gguf", replace(llama, types={
        "ffn_up": "Q4_0", "ffn_gate": "Q4_0"}))).layers[0].up
    assert np.abs(mixed.dequantise() - plain.dequantise()).max() < 0.01


def test_rope_rows(tmp_path):
    factors = (1.0, 2.0, 4.0, 8.0)
    llama = RandomLlama(rope_dims=8, rope_factors=factors, rope_base=100.0)
    model = read_model(write_model(tmp_path / "m.gguf", llama))
    rows = model.rope_rows(5, 7)
    assert rows.shape == (2, 32) and rows.dtype == np.float32
    for i, f in enumerate(factors):
        angle = 6 * 100.0 ** (-2 * i / 8) / f
        assert rows[1, 2 * i] == np.float32(np.cos(angle)) and rows[1, 2 * i + 1] == np.float32(np.sin(angle))
    assert (rows[:, 8::2] == 1).all() and (rows[:, 9::2] == 0).all()


def refusal(path):
    with pytest.raises(UserError) as caught:
        read_model(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message and ";" in message  # what is wrong; what to do
    return message


def test_foreign_and_missing_files(tmp_path):
    assert "No such file" in refusal(tmp_path / "none.gguf")
    assert "Is a directory" in refusal(tmp_path)
    for content in (b"", b"GG", b"PK\x03\x04 a zip file", os.urandom(4096)):
        (tmp_path / "foreign").write_bytes(content)
        assert "not a GGUF file" in refusal(tmp_path / "foreign")


def test_truncated_and_damaged_files(tmp_path):
    whole = write_model(tmp_path / "m.gguf", RandomLlama()).read_bytes()
    cuts = [4, 8, 16, 23, 24, 60, 500, 5000, len(whole) // 2, len(whole) - 33]
    for cut in cuts:
        (tmp_path / "cut.gguf").write_bytes(whole[:cut])
        assert "truncated or damaged" in refusal(tmp_path / "cut.gguf")
    rng = np.random.default_rng(5)
    for _ in range(60):  # whatever a flipped byte of the header gives, it is no traceback
        damaged = bytearray(whole)
        damaged[int(rng.integers(4, 400))] ^= int(rng.integers(1, 256))
        (tmp_path / "damaged.gguf").write_bytes(bytes(damaged))
        try:
            read_model(tmp_path / "damaged.gguf")
        except UserError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("change, expected", [
    ({"hidden": 100, "head_dim": 32}, "hidden is 100"),
    ({"head_dim": 48, "rope_dims": 48}, "head_dim is 48"),
    ({"heads": 3, "kv_heads": 2}, "3 heads"),
    ({"rope_dims": 64}, "RoPE turns 64"),
    ({"eps": float("nan")}, "eps is nan"),
    ({"rope_base": -1.0}, "rope_base -1.0"),
    ({"rope_factors": (0.0,) * 16}, "rope_freqs.weight has values"),
])
def test_shapes_that_cannot_be_used(tmp_path, change, expected):
    assert expected in refusal(write_model(tmp_path / "m.gguf", replace(RandomLlama(type="F16"), **change)))


@pytest.mark.parametrize("name, kind", [("blk.1.ffn_down", "Q4_1"), ("blk.0.attn_q", "Q8_0"), ("token_embd", "F32"),
                                        ("blk.0.attn_v", "F16"), ("output_norm", "F32")])
@pytest.mark.parametrize("poison", [np.inf, np.nan])
def test_infinite_and_nan_weights_are_refused(tmp_path, name, kind, poison):
    llama = RandomLlama(types={name: kind})
    shape = llama.shapes().get(name, (llama.hidden,))
    values = np.ones(shape, np.float32)
    values.reshape(-1)[5] = poison
    message = refusal(write_model(tmp_path / "m.gguf", llama, **{name.replace(".", "__"): values}))
    assert "infinite or NaN" in message and f"{name}.weight" in message


def edited(tmp_path, old, new, **shape):
    """A random model file in which the bytes *old* are *new*, of the same length."""
    data = write_model(tmp_path / "m.gguf", RandomLlama(**shape)).read_bytes()
    assert len(old) == len(new) and old in data
    path = tmp_path / "edited.gguf"
    path.write_bytes(data.replace(old, new))
    return path


def test_unsupported_tensor_type(tmp_path):
    info = b"token_embd.weight" + struct.pack("<IQQ", 2, 256, 288)
    kinds = [struct.pack("<I", k.value) for k in (GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q6_K)]
    message = refusal(edited(tmp_path, info + kinds[0], info + kinds[1], hidden=256, vocab=288))
    assert "token_embd.weight is Q6_K" in message and "llama-quantize" in message


def test_other_architectures_and_tensors(tmp_path):
    name = b"general.architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
    assert "architecture gemma" in refusal(edited(tmp_path, name + b"llama", name + b"gemma"))
    assert "no tensor output_norm.weight" in refusal(edited(tmp_path, b"output_norm.weight", b"output_morn.weight"))
    assert "no field llama.feed_forward_length" in refusal(edited(tmp_path, b"feed_forward", b"food_forward"))


def test_tensors_left_over_are_refused(tmp_path):
    path = tmp_path / "m.gguf"
    original = RandomLlama.shapes

    class Biased(RandomLlama):
        def shapes(self):
            return original(self) | {"blk.0.attn_extra": (32, 32)}

    assert "blk.0.attn_extra.weight" in refusal(write_model(path, Biased()))
