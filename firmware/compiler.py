"""Compiles a model for a configuration: layout, access and execute programs, and the registers that hold its shape."""

from dataclasses import dataclass
from math import e, log2

import numpy as np

from firmware.errors import UserError
from firmware.layout import LAYER_ROLES, Layout, plan_layout, shape_of
from firmware.program import (
    Program,
    access,
    execute_end,
    execute_loop,
    execute_next,
    slice_record,
    vector_record,
)
from hw.host.register_map import register_map
from hw.isa import AccessKind, Condition, Format, Index, Region, RowScale, SliceKind, VectorKind

__all__ = ["Compiled", "build_program", "compile_layout", "compile_model", "weight_exponents"]


@dataclass(frozen=True)
class Compiled:
    """A model ready for one configuration; its weights go to memory by :func:`firmware.image.write_image`."""

    layout: Layout
    program: Program
    weight_exponents: dict  # role to E_w of docs/numerics.md section 3
    registers: dict  # register to {field: value}


def compile_model(model, config, context=None):
    """Compile a :class:`firmware.gguf_model.LlamaModel`; :class:`UserError` if it does not fit *config*."""
    return compile_layout(plan_layout(shape_of(model), config, context), weight_exponents(model), model.eps)


def compile_layout(layout, exponents, eps):
    """The :class:`Compiled` of a planned *layout*; *exponents*: E_w of each role."""
    registers = model_registers(layout, eps)
    known = register_map()
    try:
        for name, fields in registers.items():
            known[name].pack(**fields)
    except ValueError as error:
        raise UserError(f"the model does not fit the registers: {error}; choose another, or fewer page_slots") from None
    return Compiled(layout, build_program(layout, exponents), exponents, registers)


def weight_exponents(model):
    """E_w of each role: the largest exponent field, at least 1, of any scale or minimum in its matrices."""
    return {role: max(1, *(largest_exponent(matrix) for matrix in model.role(role))) for role in (*LAYER_ROLES, "head")}


def largest_exponent(matrix):
    """Largest binary16 exponent field among a matrix's scales and minima."""
    halves = 2 if matrix.format is Format.Q4_1 else 1
    return max(int((matrix.raw[..., 2 * n + 1] & 0x7C).max()) >> 2 for n in range(halves))


def binary32_bits(value):
    """Bits of *value* rounded to binary32."""
    return int(np.float32(value).view(np.uint32))


def model_registers(layout, eps):
    """Register values that describe the model, by register and field of hw/host/registers.rdl."""
    shape, config = layout.shape, layout.config
    return {
        "heads": {"kv_heads": shape.kv_heads, "group": shape.group, "passes": -(-shape.group // config.v_kv),
                  "head_blocks": shape.head_blocks},
        "kv_base": {"beat": layout.kv_base},
        "page": {"page_beats": layout.page_beats},
        "page_head": {"head_beats": layout.head_beats, "exponent_beats": layout.exponent_beats},
        "hidden": {"elements": shape.hidden},
        "inverse_hidden": {"value": binary32_bits(1 / shape.hidden)},
        "epsilon": {"value": binary32_bits(eps)},
        "query_scale": {"value": binary32_bits(log2(e) / shape.head_dim ** 0.5)},
        "logits_base": {"beat": layout.logits_base},
    }


def build_program(layout, exponents):
    """The :class:`Program` of one token.

    Vector records come before the slice records that feed them, so that the engine never waits for a full queue whose
    reader waits for a record behind.
    """
    return Program(tuple(access_program(layout)), tuple(execute_program(layout, exponents)))


def attention_order(kv_heads):
    """(phase, KV head) in stream order: K of the next head before V of this one, while the maximum merges."""
    yield "K", 0
    for head in range(1, kv_heads):
        yield "K", head
        yield "V", head - 1
    yield "V", kv_heads - 1


def access_program(layout):
    """Yields the access records of a token."""
    def vector(vectors, index, first=0, **fields):
        return access(AccessKind.VECTOR, beats=vectors.stride, base=vectors.base + first * vectors.stride, index=index,
                      stride=vectors.stride, **fields)

    def weights(role, **fields):
        share = layout.shares[role]
        return access(AccessKind.WEIGHTS, format=share.format, beats=share.beats, base=share.base, **fields)

    def layer_weights(role):
        return weights(role, index=Index.LAYER, stride=layout.layer_stride)

    yield vector(layout.rope, Index.POSITION)
    yield vector(layout.attn_norm, Index.NONE)
    yield vector(layout.embedding, Index.TOKEN, wait_token=1)
    yield access(AccessKind.LOOP, beats=layout.shape.layers)
    yield access(AccessKind.TABLE, beats=layout.table_stride, base=layout.table_base, index=Index.LAYER,
                 stride=layout.table_stride)
    for role in ("q", "k", "v"):
        yield layer_weights(role)
    yield vector(layout.ffn_norm, Index.LAYER)
    yield vector(layout.attn_norm, Index.LAYER, first=1)
    for phase, head in attention_order(layout.shape.kv_heads):
        yield access(AccessKind.KV_K if phase == "K" else AccessKind.KV_V, head=head)
    for role in ("o", "gate_up", "down"):
        yield layer_weights(role)
    yield access(AccessKind.NEXT)
    yield weights("head", condition=Condition.WITH_HEAD)
    yield access(AccessKind.END)


def execute_program(layout, exponents):
    """Yields the execute records of a token."""
    shape = layout.shape

    def load(kind, vectors, **fields):
        yield vector_record(kind, count=vectors.elements, **fields)
        yield slice_record(SliceKind.BYPASS, rows=vectors.stride)

    def matrix(role, kind, region, fence, condition=Condition.ALWAYS, **fields):
        share = layout.shares[role]
        fields |= {"region": region, "weight_exponent": exponents[role]}
        yield vector_record(kind, condition, count=share.results, **fields)
        yield slice_record(SliceKind.MATRIX, condition, format=share.format, region=region, take_fence=fence,
                           rows=share.rows, blocks=share.blocks, weight_exponent=exponents[role])

    yield from load(VectorKind.LOAD_ROPE, layout.rope)
    yield from load(VectorKind.LOAD_NORM, layout.attn_norm, slot=0)
    yield from load(VectorKind.EMBED, layout.embedding, slot=0)
    yield execute_loop(shape.layers)
    yield from matrix("q", VectorKind.QUERY, Region.HIDDEN, 1, scale=RowScale.NORM_QUERY)
    yield from matrix("k", VectorKind.KEY, Region.HIDDEN, 0, scale=RowScale.NORM)
    yield from matrix("v", VectorKind.VALUE, Region.HIDDEN, 0, scale=RowScale.NORM)
    yield from load(VectorKind.LOAD_NORM, layout.ffn_norm, slot=1)
    yield from load(VectorKind.LOAD_NORM, layout.attn_norm, slot=0)
    yield vector_record(VectorKind.ATTENTION, count=shape.heads * shape.head_dim)
    for number, (phase, head) in enumerate(attention_order(shape.kv_heads)):
        yield slice_record(SliceKind.KEYS if phase == "K" else SliceKind.VALUES, region=Region.QUERY, head=head,
                           take_fence=int(number == 0))
    yield from matrix("o", VectorKind.RESIDUAL, Region.ATTENTION, 1, slot=1)
    yield from matrix("gate_up", VectorKind.GLU, Region.HIDDEN, 1, scale=RowScale.NORM)
    yield from matrix("down", VectorKind.RESIDUAL, Region.FFN, 1, slot=0)
    yield execute_next()
    yield from matrix("head", VectorKind.HEAD, Region.HIDDEN, 1, Condition.WITH_HEAD, scale=RowScale.NORM)
    yield slice_record(SliceKind.BYPASS, Condition.WITHOUT_HEAD, region=Region.HIDDEN, take_fence=1)
    yield execute_end()


