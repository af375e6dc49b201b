"""Compiles a model for a configuration: layout, access and execute programs, and the registers that hold its shape."""

from dataclasses import dataclass
from math import e, log2

import numpy as np

from firmware.errors import UserError
from firmware.layout import LAYER_ROLES, Layout, plan_layout, shape_of
from firmware.program import Program
from firmware.step_program import access_program, execute_program
from hw.host.register_map import register_map
from hw.isa import Format

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
    """The :class:`Program` of one token; :class:`UserError` if it does not fit the program memories."""
    return Program(tuple(access_program(layout)), tuple(execute_program(layout, exponents)))
