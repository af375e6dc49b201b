"""Sizes of a language model: its tensors, and how much of them, of its KV cache and of arithmetic a token takes.

Nothing here depends on a device or on stored weights.
"""

from dataclasses import dataclass

from firmware.errors import UserError
from firmware.layout import EXPERT_ROLES, LAYER_ROLES, ModelShape
from hw.isa import Format
from sim.weight_types import FLOATS, WeightTypes, weight_type

__all__ = ["Experts", "LatentAttention", "Model", "Tensor"]


@dataclass(frozen=True)
class Tensor:
    """Matrices or vectors of one role in the whole model."""

    role: str  # of sim.weight_types.ROLES; "embedding"; "vector" for norms, biases and sinks
    elements: int  # of one
    count: int  # in the model
    streamed: float  # read from memory for one step
    used: int  # a token multiplies with


@dataclass(frozen=True)
class Experts:
    """Feed-forward of routed experts."""

    count: int
    chosen: int  # for each token
    ffn: int  # width of an expert
    shared: int = 0  # experts that every token takes
    dense_layers: int = 0  # first layers, which have one feed-forward of the model's width
    bias: int = 0  # elements of biases of an expert
    router_bias: int = 0

    def read(self, tokens):
        """Experts of a layer that a step of *tokens* tokens reads, if each chooses evenly and by itself."""
        return self.chosen if tokens == 1 else self.count * (1 - (1 - self.chosen / self.count) ** tokens)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): the cache holds one latent vector a token, not K and V of heads."""

    q_rank: int
    kv_rank: int
    nope: int  # width of a query head without position
    rope: int  # width of the rotated part, also cached
    value: int  # width of a value head


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer with gated feed-forward, from the facts of its config.json."""

    name: str
    source: str
    kind: str  # model_type of config.json
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    tied: bool  # the LM head is the embedding
    weights: WeightTypes  # as its files usually are
    norms: int = 2  # of the hidden width, in a layer
    head_norms: bool = False  # norms of each query and key head
    layer_bias: int = 0  # elements of attention biases and sinks in a layer
    window: int = 0  # tokens that a windowed layer sees
    windowed: int = 0  # layers with a window
    experts: Experts | None = None
    latent: LatentAttention | None = None

    @property
    def group(self):
        """Query heads of a KV head."""
        return self.heads // self.kv_heads

    def tensors(self, tokens=1):
        """Yields each :class:`Tensor`, as a step of *tokens* tokens streams it."""
        def every(role, rows, columns, layers):
            return Tensor(role, rows * columns, layers, layers, layers)

        hidden, layers, experts = self.hidden, self.layers, self.experts
        yield Tensor("embedding", self.vocab * hidden, 1, 0, 0)
        for role, rows, columns in self._attention():
            yield every(role, rows, columns, layers)
        dense = layers if experts is None else experts.dense_layers
        if dense:
            yield every("gate_up", 2 * self.ffn, hidden, dense)
            yield every("down", hidden, self.ffn, dense)
        if experts is not None:
            routed = layers - dense
            read = routed * experts.read(tokens)
            for part in (2, 1):
                yield Tensor("experts", part * experts.ffn * hidden, routed * experts.count, read,
                             routed * experts.chosen)
            if experts.shared:
                yield every("gate_up", 2 * experts.ffn * experts.shared, hidden, routed)
                yield every("down", hidden, experts.ffn * experts.shared, routed)
            yield every("router", experts.count, hidden, routed)
            yield every("vector", experts.router_bias, 1, routed)
            yield Tensor("vector", experts.bias, routed * experts.count, read, 0)
        yield Tensor("vector", self._layer_vectors(), layers, layers, 0)
        yield Tensor("vector", hidden, 1, 1, 0)
        yield Tensor("head", self.vocab * hidden, 0 if self.tied else 1, 1, 1)

    def _attention(self):
        """(role, rows, columns) of a layer's attention matrices."""
        hidden, latent = self.hidden, self.latent
        if latent is None:
            queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
            yield from (("q", queries, hidden), ("k", keys, hidden), ("v", keys, hidden), ("o", hidden, queries))
            return
        yield "q", latent.q_rank, hidden
        yield "q", self.heads * (latent.nope + latent.rope), latent.q_rank
        yield "k", latent.kv_rank + latent.rope, hidden
        yield "v", self.heads * (latent.nope + latent.value), latent.kv_rank
        yield "o", hidden, self.heads * latent.value

    def _layer_vectors(self):
        vectors = self.norms * self.hidden + self.layer_bias
        if self.head_norms:
            vectors += 2 * self.head_dim
        if self.latent is not None:
            vectors += self.latent.q_rank + self.latent.kv_rank
        return vectors

    @property
    def parameters(self):
        """All of them."""
        return sum(t.elements * t.count for t in self.tensors())

    @property
    def streamed_parameters(self):
        """Read for one token of one sequence: the chosen experts, the LM head, norms; not the embedding table."""
        return sum(t.elements * t.streamed for t in self.tensors())

    @property
    def active_parameters(self):
        """Streamed ones and the embedding table, as model cards count them."""
        return self.streamed_parameters + (0 if self.tied else self.vocab * self.hidden)

    @property
    def matrix_operations(self):
        """Multiplications and additions of a token with weight matrices, LM head included."""
        return 2 * sum(t.elements * t.used for t in self.tensors() if t.role not in ("vector", "embedding"))

    @property
    def head_operations(self):
        """The LM head's part of :attr:`matrix_operations`."""
        return 2 * self.vocab * self.hidden

    def cached_tokens(self, tokens):
        """Tokens whose K and V are read, summed over layers, when *tokens* are in the sequence."""
        return (self.layers - self.windowed) * tokens + self.windowed * min(tokens, self.window)

    @property
    def kv_elements(self):
        """Elements that a layer caches of a token."""
        if self.latent is not None:
            return self.latent.kv_rank + self.latent.rope
        return 2 * self.kv_heads * self.head_dim

    @property
    def score_operations(self):
        """Multiplications and additions of one query token with one cached token in a layer: Q.K and P.V.

        For MLA in the absorbed form, which reads the latent cache as it is.
        """
        if self.latent is not None:
            return 2 * self.heads * (2 * self.latent.kv_rank + self.latent.rope)
        return 4 * self.heads * self.head_dim

    def shape(self, weights=None):
        """The :class:`firmware.layout.ModelShape` that the hardware runs, in *weights* (default: the model's).

        :class:`UserError` if the hardware does not have what the model needs. Floats, and roles that mix types, are
        Q8_0 as in :func:`firmware.gguf_model.read_model`.
        """
        weights, experts = weights or self.weights, self.experts
        mixed = experts is not None and (experts.shared or experts.dense_layers)
        for present, what in ((mixed, "layers or experts beside the routed ones"), (self.latent, "latent attention"),
                              (self.windowed, "a sliding window")):
            if present:
                raise UserError(f"{self.name} has {what}, which the hardware does not: its prediction is analytic only")
        sizes = self.hidden, self.heads, self.kv_heads, self.head_dim
        outer = self.vocab, self.layers, self.context
        formats = {role: stream_format(self.name, role, weights) for role in (*LAYER_ROLES, "head")
                   if experts is None or role not in EXPERT_ROLES}
        if experts is None:
            return ModelShape(*sizes, self.ffn, *outer, formats)
        formats |= dict.fromkeys(EXPERT_ROLES, stream_format(self.name, "experts", weights))
        formats["router"] = stream_format(self.name, "router", weights)
        return ModelShape(*sizes, experts.ffn, *outer, formats, experts.count, experts.chosen)

    def streamed_types(self):
        """:attr:`weights` as the hardware streams them, floats and mixed roles as Q8_0; as they are if it cannot."""
        try:
            formats = self.shape().formats
        except UserError:
            return self.weights
        default = weight_type(formats["gate_up"].name)
        named = {role: weight_type(f.name) for role, f in formats.items() if f.name != default.name}
        if self.experts is not None and "router" not in named:
            named["router"] = default  # without a name it would be a float
        return WeightTypes(default, named)


def stream_format(name, role, weights):
    """The :class:`hw.isa.Format` in which the hardware streams *role*."""
    kind = weights.of(role)
    if kind.hardware is not None:
        return kind.hardware
    known = ", ".join(Format.__members__)
    if all(part in FLOATS or part in Format.__members__ for part in kind.name.split("+")):
        return Format.Q8_0
    raise UserError(f"{name}: {role} is {kind.name}, which the hardware does not stream ({known}): "
                    f"its prediction is analytic only; choose --weights")
