"""Reads a GGUF file of the llama architecture into a frozen description that the compiler and the models share.

Quantised matrices stay as the file has them, memory-mapped. F16 and F32 matrices become Q8_0, and so do matrices that
a program treats as one (a role in every layer; gate and up together) when their types differ; a notice tells of it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader

from firmware.blocks import BLOCK_BYTES, dequantise, quantise_q8_0, unpack
from firmware.errors import UserError
from hw.config import BLOCK
from hw.isa import Format

__all__ = ["ROLES", "Embedding", "Layer", "LlamaModel", "Matrix", "read_model"]

ROLES = {
    "q": ("attn_q",), "k": ("attn_k",), "v": ("attn_v",), "o": ("attn_output",), "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}
"""Tensors of a layer that share a format and a weight exponent, in all layers; the LM head is a role by itself."""

FORMATS = {GGMLQuantizationType.Q4_0: Format.Q4_0, GGMLQuantizationType.Q4_1: Format.Q4_1,
           GGMLQuantizationType.Q8_0: Format.Q8_0}
FLOATS = (GGMLQuantizationType.F32, GGMLQuantizationType.F16)

AGAIN = "convert the model again with llama.cpp's convert_hf_to_gguf.py"
SUPPORTED = ("Q4_0, Q4_1, Q8_0, F16 or F32; convert the F16 model with "
             "`llama-quantize --pure MODEL-F16.gguf MODEL-Q8_0.gguf Q8_0` (or Q4_0, Q4_1)")


@dataclass(frozen=True)
class Matrix:
    """A weight matrix in 32-element blocks."""

    name: str
    format: Format
    raw: np.ndarray  # (rows, blocks, BLOCK_BYTES[format]) uint8, as in GGUF

    @property
    def rows(self):
        return self.raw.shape[0]

    @property
    def blocks(self):
        """Blocks of a row."""
        return self.raw.shape[1]

    @property
    def columns(self):
        return self.blocks * BLOCK

    @property
    def bytes(self):
        """Size in the file (or after quantisation to Q8_0)."""
        return self.raw.size

    def unpack(self):
        """Codes, scales and minima of the whole matrix."""
        return unpack(self.raw, self.format)

    def dequantise(self):
        """(rows, columns) float32."""
        return dequantise(self.raw, self.format)


@dataclass(frozen=True)
class Embedding:
    """The token embedding, in the type the file has."""

    format: Format | None  # None: floats
    data: np.ndarray  # raw blocks (vocab, blocks, bytes), or (vocab, hidden) float16 or float32

    def rows(self, tokens):
        """(tokens, hidden) float32 of a sequence or slice of token ids."""
        chosen = self.data[tokens]
        return chosen.astype(np.float32) if self.format is None else dequantise(chosen, self.format)


@dataclass(frozen=True)
class Layer:
    """Weights of one layer; norm weights (hidden,) float32."""

    attn_norm: np.ndarray
    q: Matrix  # (heads * head_dim, hidden)
    k: Matrix  # (kv_heads * head_dim, hidden)
    v: Matrix
    o: Matrix  # (hidden, heads * head_dim)
    ffn_norm: np.ndarray
    gate: Matrix  # (ffn, hidden)
    up: Matrix
    down: Matrix  # (hidden, ffn)


@dataclass(frozen=True)
class LlamaModel:
    """A llama: shape, weights and the file's tokenizer fields."""

    name: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    eps: float
    rope_base: float
    rope_dims: int  # leading elements of a head that RoPE turns
    rope_factors: np.ndarray | None  # (rope_dims / 2,): frequencies are divided by these
    tied: bool  # the LM head is the embedding
    embedding: Embedding
    layers: tuple[Layer, ...]
    output_norm: np.ndarray
    head: Matrix  # (vocab, hidden)
    tokenizer: dict  # fields "tokenizer.*" of the file
    notices: tuple[str, ...]

    @property
    def group(self):
        """Query heads of a KV head."""
        return self.heads // self.kv_heads

    def role(self, role):
        """All matrices of a role of :data:`ROLES` or "head": one format, one weight exponent."""
        if role == "head":
            return (self.head,)
        fields = ("gate", "up") if role == "gate_up" else (role,)
        return tuple(getattr(layer, field) for layer in self.layers for field in fields)

    def rope_rows(self, start, stop):
        """RoPE rows of positions start to stop - 1: (stop - start, head_dim) float32.

        A row is cos 0, sin 0, cos 1, ... of the pairs. Angles are binary64 and each value is rounded once. Pairs beyond
        ``rope_dims`` are not turned.
        """
        frequencies = self.rope_base ** (-np.arange(0, self.rope_dims, 2) / self.rope_dims)
        if self.rope_factors is not None:
            frequencies = frequencies / self.rope_factors.astype(np.float64)
        angles = np.zeros((stop - start, self.head_dim // 2))
        angles[:, :self.rope_dims // 2] = np.arange(start, stop)[:, None] * frequencies
        return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(stop - start, -1).astype(np.float32)


class FieldReader:
    """Typed access to a file's metadata, with errors that name the field."""

    def __init__(self, path, fields):
        self.path = path
        self._fields = fields

    def get(self, key, kind, default=None):
        """Field *key* as int, float or str; *default* (if given) when it's absent."""
        if key not in self._fields:
            if default is None:
                raise UserError(f"{self.path}: no field {key}; {AGAIN}")
            return default
        value = self._fields[key].contents()
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise UserError(f"{self.path}: {key} is {str(value)[:40]!r}, not one {kind.__name__}; choose another model")
        return kind(value)

    def tokenizer(self):
        """All "tokenizer.*" fields as Python values."""
        return {k: f.contents() for k, f in self._fields.items() if k.startswith("tokenizer.")}


class PlainReader(GGUFReader):
    """A GGUFReader that slices a plain array: a third of the time, with tens of thousands of tokens to read."""

    @property
    def data(self):
        return self._data

    @data.setter
    def data(self, mapped):
        self._data = mapped.view(np.ndarray)


def open_reader(path):
    """A reader of *path*, or one clear line."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of a GGUF file") from None
    if magic != b"GGUF":
        raise UserError(f"{path}: not a GGUF file; convert the model with llama.cpp's convert_hf_to_gguf.py")
    try:
        reader = PlainReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, TypeError, MemoryError):
        size = Path(path).stat().st_size
        raise UserError(f"{path}: truncated or damaged GGUF file of {size} bytes; download it again") from None
    if reader.byte_order != "I":
        raise UserError(f"{path}: a big-endian GGUF file; {AGAIN}")
    return reader


class ModelReader:
    """Takes tensors out of an open file one by one, so that what is left over is known."""

    def __init__(self, path, reader):
        self.path = path
        self._left = {t.name: t for t in reader.tensors}
        self.notices = []

    def has(self, name):
        return name in self._left

    def take(self, name, shape):
        """The tensor *name*, which must have *shape*, rows first."""
        if name not in self._left:
            raise UserError(f"{self.path}: no tensor {name}; {AGAIN}")
        tensor = self._left.pop(name)
        found = tuple(int(n) for n in reversed(tensor.shape))
        if found != shape:
            raise UserError(f"{self.path}: tensor {name} is {found}, the fields say {shape}; {AGAIN}")
        if tensor.tensor_type not in FORMATS and tensor.tensor_type not in FLOATS:
            raise UserError(f"{self.path}: tensor {name} is {tensor.tensor_type.name}, not {SUPPORTED}")
        return tensor

    def vector(self, name, size):
        """(size,) float32."""
        tensor = self.take(name, (size,))
        if tensor.tensor_type not in FLOATS:
            raise UserError(f"{self.path}: tensor {name} is {tensor.tensor_type.name}, not F32; {AGAIN}")
        data = np.asarray(tensor.data, np.float32)
        if not np.isfinite(data).all():
            raise UserError(f"{self.path}: tensor {name} has infinite or NaN values; {AGAIN}")
        return data

    def blocks(self, tensor):
        """Raw blocks of a quantised tensor."""
        fmt = FORMATS[tensor.tensor_type]
        raw = tensor.data.reshape(tensor.data.shape[0], -1, BLOCK_BYTES[fmt])
        self.check_scales(tensor, raw, fmt)
        return raw

    def check_scales(self, tensor, raw, fmt):
        second_bytes = raw[..., 1:4:2] if fmt is Format.Q4_1 else raw[..., 1]
        if (second_bytes & 0x7C == 0x7C).any():
            raise UserError(f"{self.path}: tensor {tensor.name} has infinite or NaN scales; {AGAIN}")

    def embedding(self, tensor):
        if tensor.tensor_type in FLOATS:
            if not np.isfinite(tensor.data).all():
                raise UserError(f"{self.path}: tensor {tensor.name} has infinite or NaN values; {AGAIN}")
            return Embedding(None, tensor.data)
        return Embedding(FORMATS[tensor.tensor_type], self.blocks(tensor))

    def role(self, role, tensors):
        """Matrices of tensors that must share a format; quantised to Q8_0 if they don't, or if they are floats."""
        types = sorted({t.tensor_type.name for t in tensors})
        keep = len(types) == 1 and tensors[0].tensor_type in FORMATS
        if not keep:
            where = tensors[0].name if len(tensors) == 1 else f"{role} matrices"
            self.notices.append(f"{where} ({' and '.join(types)}) quantised to Q8_0")
        return [self.matrix(t, keep) for t in tensors]

    def matrix(self, tensor, keep):
        if keep:
            return Matrix(tensor.name, FORMATS[tensor.tensor_type], self.blocks(tensor))
        if tensor.tensor_type in FLOATS:
            raw = quantise_q8_0(tensor.data)
        else:
            raw = quantise_q8_0(dequantise(self.blocks(tensor), FORMATS[tensor.tensor_type]))
        self.check_scales(tensor, raw, Format.Q8_0)
        return Matrix(tensor.name, Format.Q8_0, raw)

    def finish(self):
        if self._left:
            names = ", ".join(sorted(self._left)[:3])
            raise UserError(f"{self.path}: tensors that a plain llama doesn't have ({names}); choose another model")


def read_shape(fields):
    """The numbers of a :class:`LlamaModel`, checked; ``layers`` is their count."""
    path = fields.path
    architecture = fields.get("general.architecture", str)
    if architecture != "llama":
        raise UserError(f"{path}: architecture {architecture} is not supported; choose a llama model")
    hidden = fields.get("llama.embedding_length", int)
    heads = fields.get("llama.attention.head_count", int)
    kv_heads = fields.get("llama.attention.head_count_kv", int, heads)
    head_dim = fields.get("llama.attention.key_length", int, hidden // heads if heads else 0)
    shape = {
        "name": fields.get("general.name", str, Path(path).stem),
        "layers": fields.get("llama.block_count", int),
        "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
        "ffn": fields.get("llama.feed_forward_length", int),
        "context": fields.get("llama.context_length", int),
        "eps": fields.get("llama.attention.layer_norm_rms_epsilon", float),
        "rope_base": fields.get("llama.rope.freq_base", float, 10000.0),
        "rope_dims": fields.get("llama.rope.dimension_count", int, head_dim),
    }
    for what in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "context"):
        if shape[what] < 1:
            raise UserError(f"{path}: {what} is {shape[what]}; {AGAIN}")
    if not 0 <= shape["eps"] < float("inf") or not 0 < shape["rope_base"] < float("inf"):
        raise UserError(f"{path}: eps is {shape['eps']}, rope_base {shape['rope_base']}; {AGAIN}")
    for what in ("hidden", "ffn", "head_dim"):
        if shape[what] % BLOCK:
            raise UserError(f"{path}: {what} is {shape[what]}, not a multiple of {BLOCK}; choose another model")
    if heads % kv_heads:
        raise UserError(f"{path}: {heads} heads don't divide among {kv_heads} KV heads; {AGAIN}")
    if fields.get("llama.attention.value_length", int, head_dim) != head_dim:
        raise UserError(f"{path}: key and value heads differ in width; choose another model")
    if not 0 < shape["rope_dims"] <= head_dim or shape["rope_dims"] % 2:
        raise UserError(f"{path}: RoPE turns {shape['rope_dims']} elements of heads of {head_dim}; {AGAIN}")
    scaling = fields.get("llama.rope.scaling.type", str, "none")
    if scaling != "none":
        raise UserError(f"{path}: RoPE scaling {scaling} is not supported; choose a model without it")
    if fields.get("llama.expert_count", int, 0):
        raise UserError(f"{path}: a mixture of experts is not supported; choose a dense llama model")
    return shape


def read_model(path):
    """The :class:`LlamaModel` in the file *path*; :class:`UserError` says in one line why it can't be used."""
    reader = open_reader(path)
    fields = FieldReader(path, reader.fields)
    shape = read_shape(fields)
    hidden, ffn, head_dim = shape["hidden"], shape["ffn"], shape["head_dim"]
    queries, keys = shape["heads"] * head_dim, shape["kv_heads"] * head_dim
    shapes = {"attn_q": (queries, hidden), "attn_k": (keys, hidden), "attn_v": (keys, hidden),
              "attn_output": (hidden, queries), "ffn_gate": (ffn, hidden), "ffn_up": (ffn, hidden),
              "ffn_down": (hidden, ffn)}
    count = shape.pop("layers")
    tensors = ModelReader(path, reader)

    vocab = next((int(t.shape[-1]) for t in reader.tensors if t.name == "token_embd.weight"), 0)
    embedding = tensors.take("token_embd.weight", (vocab, hidden))
    tied = not tensors.has("output.weight")
    head = embedding if tied else tensors.take("output.weight", (vocab, hidden))

    matrices = {}
    for role, names in ROLES.items():
        taken = [tensors.take(f"blk.{i}.{n}.weight", shapes[n]) for i in range(count) for n in names]
        matrices.update((m.name, m) for m in tensors.role(role, taken))

    def layer(i):
        q, k, v, o, gate, up, down = (matrices[f"blk.{i}.{n}.weight"] for n in shapes)
        return Layer(tensors.vector(f"blk.{i}.attn_norm.weight", hidden), q, k, v, o,
                     tensors.vector(f"blk.{i}.ffn_norm.weight", hidden), gate, up, down)

    factors = tensors.vector("rope_freqs.weight", shape["rope_dims"] // 2) if tensors.has("rope_freqs.weight") else None
    if factors is not None and not (factors > 0).all():
        raise UserError(f"{path}: tensor rope_freqs.weight has values that are not above 0; {AGAIN}")
    pieces = len(fields.tokenizer().get("tokenizer.ggml.tokens", ()))
    if pieces > vocab:
        raise UserError(f"{path}: {pieces} tokens, but embeddings of {vocab}; {AGAIN}")
    model = LlamaModel(
        **shape, vocab=vocab, rope_factors=factors, tied=tied, embedding=tensors.embedding(embedding),
        layers=tuple(layer(i) for i in range(count)), output_norm=tensors.vector("output_norm.weight", hidden),
        head=tensors.role("LM head", [head])[0], tokenizer=fields.tokenizer(), notices=tuple(tensors.notices))
    tensors.finish()
    return model
