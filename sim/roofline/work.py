"""Bytes and operations of decoding and of a prompt, from a model's sizes and storage types alone."""

from dataclasses import dataclass
from math import ceil

__all__ = ["Work", "decode_work", "prefill_work", "resident_bytes"]


@dataclass(frozen=True)
class Work:
    """What one step, or one prompt, must move and compute, whatever the device. Experts are counted by expectation."""

    tokens: int  # that the step brings forth, or takes in
    weight_bytes: float  # matrices that are read, once
    vector_bytes: float  # norms, biases, sinks
    kv_read_bytes: float
    kv_written_bytes: float
    matrix_operations: float
    attention_operations: float

    @property
    def bytes(self):
        return self.weight_bytes + self.vector_bytes + self.kv_read_bytes + self.kv_written_bytes

    @property
    def kv_bytes(self):
        return self.kv_read_bytes + self.kv_written_bytes

    @property
    def operations(self):
        """Multiplications and additions."""
        return self.matrix_operations + self.attention_operations

    @property
    def intensity(self):
        """Operations a byte."""
        return self.operations / self.bytes

    def seconds(self, bandwidth, peak=None):
        """Least time with *bandwidth* bytes a second and, if given, *peak* operations a second."""
        return max(self.bytes / bandwidth, self.operations / peak if peak else 0)

    def tokens_per_second(self, bandwidth, peak=None):
        """Of all sequences together, at the roofline."""
        return self.tokens / self.seconds(bandwidth, peak)


def streamed(model, weights, tokens):
    """(bytes of matrices, bytes of vectors) that a step of *tokens* tokens reads."""
    matrices = vectors = 0
    for tensor in model.tensors(tokens):
        if tensor.role == "vector":
            vectors += tensor.elements * tensor.streamed * weights.vectors.bytes
        elif tensor.streamed:
            matrices += tensor.elements * tensor.streamed * weights.of(tensor.role).bytes
    return float(matrices), float(vectors)


def decode_work(model, context, kv, batch=1, weights=None):
    """The :class:`Work` of one step: a token for each of *batch* sequences, each with *context* older tokens.

    Weights (default: the model's types) are read once for all sequences; of experts, those that any sequence chooses.
    """
    weights = weights or model.weights
    weight_bytes, vector_bytes = streamed(model, weights, batch)
    token_kv = float(model.kv_elements * kv.bytes)  # of a layer
    return Work(
        tokens=batch, weight_bytes=weight_bytes, vector_bytes=vector_bytes,
        kv_read_bytes=batch * model.cached_tokens(context) * token_kv,
        kv_written_bytes=batch * model.layers * token_kv,
        matrix_operations=batch * model.matrix_operations,
        attention_operations=batch * model.cached_tokens(context + 1) * model.score_operations)


def prefill_work(model, tokens, kv, weights=None):
    """The :class:`Work` of a prompt of *tokens* tokens at once, with logits of the last.

    Weights are read once; K and V are written once and, kept on the chip, not read back.
    """
    weights = weights or model.weights
    weight_bytes, vector_bytes = streamed(model, weights, tokens)
    token_kv = float(model.kv_elements * kv.bytes)
    full, short = model.layers - model.windowed, min(tokens, model.window)
    seen = full * tokens * (tokens + 1) // 2 + model.windowed * (short * (short + 1) // 2 + (tokens - short) * short)
    return Work(
        tokens=tokens, weight_bytes=weight_bytes, vector_bytes=vector_bytes, kv_read_bytes=0,
        kv_written_bytes=tokens * model.layers * token_kv,
        matrix_operations=tokens * (model.matrix_operations - model.head_operations) + model.head_operations,
        attention_operations=seen * model.score_operations)


def resident_bytes(model, context, kv, batch=1, weights=None):
    """Memory for the weights, the embedding table in the type of the LM head, and the KV cache of *batch* sequences."""
    weights = weights or model.weights
    total = sum(t.elements * t.count * (weights.vectors if t.role == "vector" else
                                        weights.of("head" if t.role == "embedding" else t.role)).bytes
                for t in model.tensors())
    return ceil(total) + ceil(batch * model.cached_tokens(context) * model.kv_elements * kv.bytes)


