"""Where everything lies in a channel's memory. All channels have the same beat addresses (a beat is 32 bytes).

Matrix shares of a layer follow one another in the order in which they are read, and layers follow one another, so that
a token is mostly one ascending stream. Rows are dealt to channels in turn, and padded to as many for each.
"""

from dataclasses import dataclass, replace
from math import ceil

from firmware.errors import UserError
from firmware.experts import draw_experts
from hw.config import BEAT_BYTES, BLOCK, Config
from hw.isa import Format

__all__ = ["EXPERT_ROLES", "LAYER_ROLES", "SUPERBLOCK", "Layout", "ModelShape", "Share", "Vectors", "plan_layout",
           "shape_of"]

LAYER_ROLES = ("q", "k", "v", "o", "gate_up", "down")
"""Matrices of a layer in the order in which they are read."""

EXPERT_ROLES = ("gate_up", "down")
"""Matrices that each expert has, if there are experts."""

SUPERBLOCK = {Format.Q4_0: 16, Format.Q4_1: 8, Format.Q8_0: 16}
"""Blocks whose scales (and minima) fill one scale beat."""

DATA_BYTES = {Format.Q4_0: 16, Format.Q4_1: 16, Format.Q8_0: 32}
"""Bytes of the codes of a block."""

ALIGNMENT = 128
"""Beats of a row of a bank pair; each region starts on one."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a llama and the format of each role's matrices: all that layout and traffic depend on.

    With experts, ``ffn`` is the width of one. ``part``: what a layer is. ``all``; ``attention`` and nothing else, with
    queries of the step and K and V of the layer from the embedding, by matrices as narrow as ``hidden``; or ``matrix``,
    the one of role o, which all layers share and whose operand is the normed embedding.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    layers: int
    context: int
    formats: dict  # role of ``roles``, and "head", to Format
    experts: int = 0  # of a layer; 0: one feed-forward for all tokens
    chosen: int = 0  # experts that a token goes through
    part: str = "all"

    @property
    def roles(self):
        """Matrices of a layer in the order in which they lie in memory; those of EXPERT_ROLES for each expert."""
        if self.part != "all":
            return {"attention": LAYER_ROLES[:3], "matrix": ("o",)}[self.part]
        return (*LAYER_ROLES[:4], "router", *EXPERT_ROLES) if self.experts else LAYER_ROLES

    @property
    def once(self):
        """Roles of which there is one matrix, not one a layer."""
        return {"all": ("head",), "attention": ("q", "head"), "matrix": ("o", "head")}[self.part]

    def reads(self, role):
        """Matrices of *role* that a step with head streams."""
        if role == "head" or self.part == "attention" and role in self.once:
            return 1
        return self.layers * (self.chosen if self.experts and role in EXPERT_ROLES else 1)

    @property
    def norms(self):
        """Vectors of norm weights (attention and output, feed-forward)."""
        return (self.layers + 1, self.layers) if self.part == "all" else (1, 0)

    @property
    def caches(self):
        """Layers that have K and V."""
        return 0 if self.part == "matrix" else self.layers

    @property
    def group(self):
        """Query heads of a KV head."""
        return self.heads // self.kv_heads

    @property
    def head_blocks(self):
        """Blocks of 32 elements in a head."""
        return self.head_dim // BLOCK

    def matrix(self, role):
        """(rows, columns) of a role's matrix in one layer; gate and up count as one."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {"q": (queries, self.hidden), "k": (keys, self.hidden), "v": (keys, self.hidden),
                "o": (self.hidden, queries), "gate_up": (2 * self.ffn, self.hidden),
                "down": (self.hidden, self.ffn), "router": (self.experts, self.hidden),
                "head": (self.vocab, self.hidden)}[role]


def shape_of(model):
    """The :class:`ModelShape` of a :class:`firmware.gguf_model.LlamaModel`."""
    return ModelShape(
        model.hidden, model.heads, model.kv_heads, model.head_dim, model.ffn, model.vocab, len(model.layers),
        model.context, {role: model.role(role)[0].format for role in (*LAYER_ROLES, "head")})


@dataclass(frozen=True)
class Share:
    """One channel's part of a matrix: rows packed as one run of blocks, scale beats before their data beats."""

    base: int  # beat address in layer 0, of expert 0
    format: Format
    results: int  # rows of the whole matrix
    rows: int  # rows of a channel, zero rows at the end included
    blocks: int  # blocks of a row

    @property
    def scale_beats(self):
        return ceil(self.rows * self.blocks / SUPERBLOCK[self.format])

    @property
    def data_beats(self):
        return ceil(self.rows * self.blocks * DATA_BYTES[self.format] / BEAT_BYTES)

    @property
    def beats(self):
        return self.scale_beats + self.data_beats


@dataclass(frozen=True)
class Vectors:
    """Vectors of ``elements`` binary32 numbers; beat j in channel j mod channels, ``stride`` beats of each channel."""

    base: int
    stride: int
    elements: int
    count: int

    @property
    def beats(self):
        return self.stride * self.count


@dataclass(frozen=True)
class Layout:
    """Beat addresses and sizes in a channel's memory for one model and context."""

    config: Config
    shape: ModelShape
    context: int  # tokens
    shares: dict  # role to Share
    layer_stride: int  # beats from a layer's matrices to the next layer's
    expert_stride: int  # beats from an expert's matrices to the next expert's; 0 without experts
    expert_seed: int  # that ``drawn`` comes from
    drawn: tuple  # of each layer, the experts that its tokens go through, in their order; () without experts
    attn_norm: Vectors  # of each layer, then the output norm
    ffn_norm: Vectors
    rope: Vectors  # of each position
    embedding: Vectors  # of each token
    table_base: int
    table_stride: int  # beats of a layer's block table
    kv_base: int
    exponent_beats: int  # of K or V of one KV head in a page
    head_beats: int  # of one KV head in a page
    page_beats: int
    pages: int  # logical pages of a layer
    logits_base: int
    logits_beats: int
    end: int

    @property
    def physical_pages(self):
        return self.pages * self.shape.layers

    def first_layers(self, layers):
        """This layout for a program that runs only the first *layers* layers, and takes the norm behind them as last.

        Addresses stay those of the whole model.
        """
        shape = replace(self.shape, layers=layers)
        attn_norms, ffn_norms = shape.norms
        return replace(self, shape=shape, attn_norm=replace(self.attn_norm, count=attn_norms),
                       ffn_norm=replace(self.ffn_norm, count=ffn_norms), drawn=self.drawn[:layers])

    def offset(self, layer, expert=0):
        """Beats from the share of a matrix in layer 0, of expert 0, to that in *layer*, of *expert*."""
        return layer * self.layer_stride + expert * self.expert_stride


class Allocator:
    """Hands out ascending, aligned regions."""

    def __init__(self):
        self.end = 0

    def take(self, beats):
        base = ceil(self.end / ALIGNMENT) * ALIGNMENT
        self.end = base + beats
        return base

    def vectors(self, elements, count, channels):
        stride = ceil(elements * 4 / BEAT_BYTES / channels)
        return Vectors(self.take(stride * count), stride, elements, count)


def plan_layout(shape, config, context=None, seed=0):
    """The :class:`Layout` of a model of *shape* for *context* tokens (default: all that model and preset allow).

    *seed*: of the experts that are drawn.

    Raises :class:`UserError` with the numbers if the model or the context does not fit the preset.
    """
    context = check(shape, config, context)
    space = Allocator()
    shares, layer_base, layer_stride = {}, space.take(0), 0
    for role in shape.roles:
        shares[role] = share(shape, role, layer_base + layer_stride, config.channels)
        layer_stride += shares[role].beats
    expert_stride = sum(shares[role].beats for role in EXPERT_ROLES) if shape.experts else 0
    layer_stride += max(0, shape.experts - 1) * expert_stride
    space.take(layer_stride * shape.layers)
    shares["head"] = share(shape, "head", space.take(0), config.channels)
    space.take(shares["head"].beats)
    head_blocks = shape.head_blocks
    exponent_beats = ceil(config.page_slots * head_blocks / BEAT_BYTES)
    head_beats = 2 * exponent_beats + 2 * config.page_slots * head_blocks
    page_beats = shape.kv_heads * head_beats
    pages = ceil(context / config.page_tokens)
    table_stride = ceil(pages * 4 / BEAT_BYTES)
    logits_beats = ceil(shape.vocab * 4 / BEAT_BYTES / config.channels)
    attn_norms, ffn_norms = shape.norms
    layout = Layout(
        config, shape, context, shares, layer_stride, expert_stride, seed, draw_experts(shape, seed),
        attn_norm=space.vectors(shape.hidden, attn_norms, config.channels),
        ffn_norm=space.vectors(shape.hidden, ffn_norms, config.channels),
        rope=space.vectors(shape.head_dim, context, config.channels),
        embedding=space.vectors(shape.hidden, shape.vocab, config.channels),
        table_base=space.take(table_stride * shape.layers), table_stride=table_stride,
        kv_base=space.take(page_beats * pages * shape.layers),
        exponent_beats=exponent_beats, head_beats=head_beats, page_beats=page_beats, pages=pages,
        logits_base=space.take(logits_beats), logits_beats=logits_beats, end=space.end)
    if layout.end > config.channel_beats:
        needed = layout.end * BEAT_BYTES * config.channels
        raise UserError(
            f"the model needs {needed / 1e9:.1f} GB with {context} tokens of context; preset {config.name} has "
            f"{config.memory_bytes / 1e9:.1f} GB in {config.channels} channels: choose a larger preset or less context")
    return layout


def share(shape, role, base, channels):
    """The :class:`Share` of *role* at *base*."""
    rows, columns = shape.matrix(role)
    return Share(base, shape.formats[role], rows, ceil(rows / channels), columns // BLOCK)


def check(shape, config, context):
    """The context to plan for, if the preset's hardware can run the model."""
    limits = (
        ("hidden width", shape.hidden, "max_hidden", config.max_hidden),
        ("attention width", shape.heads * shape.head_dim, "max_hidden", config.max_hidden),
        ("FFN width", shape.ffn, "max_ffn", config.max_ffn),
        ("number of KV heads", shape.kv_heads, "max_kv_heads", config.max_kv_heads),
        ("head width", shape.head_dim, "max_head_dim", config.max_head_dim),
        ("number of query heads a KV head", shape.group, "max_group", config.max_group),
    )
    for what, value, name, limit in limits:
        if value > limit:
            raise UserError(f"the model's {what} is {value}, beyond {name} = {limit} of preset {config.name}: choose a "
                            f"larger preset, or --set {name}={value}")
    if shape.head_blocks not in (1, 2, 4, 8):
        raise UserError(f"the model's head width is {shape.head_dim}, not 32, 64, 128 or 256: choose another model")
    if shape.chosen > 1 and shape.ffn > config.attention_blocks * BLOCK:
        raise UserError(f"the model's experts are {shape.ffn} wide, and operand region ATTENTION of preset "
                        f"{config.name}, which every second one uses, {config.attention_blocks * BLOCK}: choose a "
                        "larger preset, or --set max_group to more")
    if shape.layers > 255:
        raise UserError(f"the model has {shape.layers} layers; the layer loop counts to 255: choose another model")
    largest = min(config.max_context, shape.context)
    if context is not None and not 1 <= context <= largest:
        raise UserError(f"a context of {context} tokens: the model has {shape.context}, preset {config.name} "
                        f"max_context = {config.max_context}; choose 1 to {largest}")
    return largest if context is None else context
