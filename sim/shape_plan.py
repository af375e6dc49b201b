"""What a shape run simulates of a model, and what it leaves out because the hardware does not have it."""

from dataclasses import dataclass, replace

from firmware.errors import UserError
from firmware.layout import LAYER_ROLES, ModelShape
from hw.config import BLOCK
from sim.weight_types import WeightTypes, parse_weights, weight_type

__all__ = ["FEW", "PARTS", "ShapePlan", "attention_shape", "shape_plan"]

PARTS = ("all", "attention")
"""What may be simulated of each layer."""

SUBSTITUTE = {"MXFP4": "Q4_0"}
"""Types that the hardware does not stream, to the one that comes closest in size."""

NARROW = 2 * BLOCK
"""Columns of the matrices that K, V and queries of attention alone come from: the narrowest that slices take."""

FEW = 96
"""Rows of the LM head where a part of the model runs without the rest: its argmax ends the step."""

DRAWN = ("routing: experts are drawn by seed when the program is compiled; the router's scores are computed and "
         "dropped, and no read waits for them")
UNWEIGHTED = "the router's weights: outputs of experts are added as they are"
ALONE = ("all but attention: queries (once a step) and the newest K and V (of each layer) come from matrices of "
         f"{NARROW} columns, the token from an LM head of {FEW} rows")


@dataclass(frozen=True)
class ShapePlan:
    """The shape that is simulated, and in words what of the model is not in it."""

    shape: ModelShape
    left_out: tuple


def check_part(part):
    """:class:`UserError` unless *part* is one of :data:`PARTS`."""
    if part not in PARTS:
        raise UserError(f"--part {part}: choose {' or '.join(PARTS)}")


def shape_plan(model, weights=None, part="all"):
    """The :class:`ShapePlan` of *part* of a :class:`sim.model_shape.Model`, in *weights* (text; default: the model's).

    :class:`UserError` if the hardware does not have what the model needs, and a run without it would say little.
    """
    check_part(part)
    of_attention, of_experts = (), ()
    if model.kind == "gpt_oss":
        model, of_attention, of_experts = plain_gpt_oss(model)
    for present, what in ((model.head_norms, "norms of query and key heads"),
                          (model.layer_bias, "biases or sinks in its attention"),
                          (model.norms != 2, f"{model.norms} norms a layer")):
        if present:
            raise UserError(f"{model.name} has {what}, which the hardware does not")
    types, replaced = (parse_weights(weights), ()) if weights else streamable(model.weights)
    shape = model.shape(types)
    for what in ("hidden", "head_dim", "ffn"):
        if getattr(shape, what) % BLOCK:
            raise UserError(f"{model.name}: {what} is {getattr(shape, what)}, not a multiple of {BLOCK}")
    if part == "attention":
        return ShapePlan(attention_shape(shape), (ALONE, *of_attention))
    if not shape.experts:
        return ShapePlan(shape, (*of_attention, *replaced))
    router = types.of("router")
    if router.hardware is None:
        replaced = (*replaced, f"the router's {router.name}: streamed as {shape.formats['router'].name}")
    return ShapePlan(shape, (DRAWN, UNWEIGHTED, *of_attention, *of_experts, *replaced))


def plain_gpt_oss(model):
    """*model* without what only its family has, and what that is: of attention, and of the rest."""
    window = f"the sliding window of {model.windowed} of {model.layers} layers: they read all of K and V"
    return (replace(model, layer_bias=0, window=0, windowed=0), ("sinks and biases of attention", window),
            ("biases of router and experts", "the experts' clamped SwiGLU: computed as SiLU(gate) x up"))


def streamable(types):
    """:class:`WeightTypes` with substitutes for what the hardware does not stream, and texts that say so."""
    def substitute(kind):
        return weight_type(SUBSTITUTE.get(kind.name, kind.name))

    replaced = {kind.name: substitute(kind) for kind in (types.default, *types.roles.values())}
    texts = tuple(f"{name} weights: streamed as {kind.name}, {32 * kind.bytes} bytes for 32 instead of "
                  f"{32 * weight_type(name).bytes}" for name, kind in replaced.items() if kind.name != name)
    return WeightTypes(substitute(types.default), {role: substitute(kind) for role, kind in types.roles.items()}), texts


def attention_shape(shape):
    """*shape* with layers of attention alone."""
    formats = {role: shape.formats[role] for role in (*LAYER_ROLES[:3], "head")}
    return replace(shape, hidden=NARROW, vocab=FEW, formats=formats, experts=0, chosen=0, part="attention")
