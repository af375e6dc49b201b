"""Where everything lies in a channel's memory. All channels have the same beat addresses (a beat is 32 bytes).

Matrix shares of a layer follow one another in the order in which they are read, and layers follow one another, so that
a token is mostly one ascending stream. Rows are dealt to channels in turn, and padded to as many for each.
"""

from dataclasses import dataclass, replace
from math import ceil

from firmware.errors import UserError
from hw.config import BEAT_BYTES, BLOCK, Config
from hw.isa import Format

__all__ = ["LAYER_ROLES", "SUPERBLOCK", "Layout", "ModelShape", "Share", "Vectors", "plan_layout", "shape_of"]

LAYER_ROLES = ("q", "k", "v", "o", "gate_up", "down")
"""Matrices of a layer in the order in which they are read."""

SUPERBLOCK = {Format.Q4_0: 16, Format.Q4_1: 8, Format.Q8_0: 16}
"""Blocks whose scales (and minima) fill one scale beat."""

DATA_BYTES = {Format.Q4_0: 16, Format.Q4_1: 16, Format.Q8_0: 32}
"""Bytes of the codes of a block."""

ALIGNMENT = 128
"""Beats of a row of a bank pair; each region starts on one."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a llama and the format of each role's matrices: all that layout and traffic depend on."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    layers: int
    context: int
    formats: dict  # role of LAYER_ROLES, and "head", to Format

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
                "down": (self.hidden, self.ffn), "head": (self.vocab, self.hidden)}[role]


def shape_of(model):
    """The :class:`ModelShape` of a :class:`firmware.gguf_model.LlamaModel`."""
    return ModelShape(
        model.hidden, model.heads, model.kv_heads, model.head_dim, model.ffn, model.vocab, len(model.layers),
        model.context, {role: model.role(role)[0].format for role in (*LAYER_ROLES, "head")})


@dataclass(frozen=True)
class Share:
    """One channel's part of a matrix: rows packed as one run of blocks, scale beats before their data beats."""

    base: int  # beat address in layer 0
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
        return replace(self, shape=replace(self.shape, layers=layers),
                       attn_norm=replace(self.attn_norm, count=layers + 1),
                       ffn_norm=replace(self.ffn_norm, count=layers))


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


def plan_layout(shape, config, context=None):
    """The :class:`Layout` of a model of *shape* for *context* tokens (default: all that model and preset allow).

    Raises :class:`UserError` with the numbers if the model or the context does not fit the preset.
    """
    context = check(shape, config, context)
    space = Allocator()
    shares, layer_base, layer_stride = {}, space.take(0), 0
    for role in LAYER_ROLES:
        shares[role] = share(shape, role, layer_base + layer_stride, config.channels)
        layer_stride += shares[role].beats
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
    layout = Layout(
        config, shape, context, shares, layer_stride,
        attn_norm=space.vectors(shape.hidden, shape.layers + 1, config.channels),
        ffn_norm=space.vectors(shape.hidden, shape.layers, config.channels),
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
    if shape.layers > 255:
        raise UserError(f"the model has {shape.layers} layers; the layer loop counts to 255: choose another model")
    largest = min(config.max_context, shape.context)
    if context is not None and not 1 <= context <= largest:
        raise UserError(f"a context of {context} tokens: the model has {shape.context}, preset {config.name} "
                        f"max_context = {config.max_context}; choose 1 to {largest}")
    return largest if context is None else context
