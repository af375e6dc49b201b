"""A llama in binary32, as one would write it without any hardware in mind: the reference for fidelity.

Weights are the file's, dequantised. T positions at once, D hidden, H heads of width W, F feed-forward, V vocabulary.
"""

import numpy as np

__all__ = ["Llama"]


def rms_norm(x, weights, eps):
    """(T, D) -> (T, D)."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weights


def rotate(x, cos, sin):
    """RoPE of neighbouring pairs: (T, H, W) by (T, 1, W/2)."""
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Llama:
    """Float reference of a :class:`firmware.gguf_model.LlamaModel`; ``forward`` appends to its KV cache."""

    def __init__(self, model):
        self.model = model
        names = ("q", "k", "v", "o", "gate", "up", "down")
        self.layers = [{n: getattr(layer, n).dequantise().T for n in names} for layer in model.layers]  # (in, out)
        self.head = model.head.dequantise().T  # (D, V)
        self.reset()

    def reset(self):
        """Forgets all tokens."""
        none = np.empty((0, self.model.kv_heads, self.model.head_dim), np.float32)  # (tokens, KV heads, W)
        self.keys, self.values = [none] * len(self.layers), [none] * len(self.layers)

    def forward(self, tokens):
        """Consumes T tokens; logits (T, V) float32 after each."""
        m = self.model
        start, count = len(self.keys[0]), len(tokens)
        rope = m.rope_rows(start, start + count)[:, None]  # (T, 1, W)
        cos, sin = rope[..., 0::2], rope[..., 1::2]
        hidden = np.arange(start + count) > start + np.arange(count)[:, None]  # (T, tokens): later than the position

        x = m.embedding.rows(np.asarray(tokens))  # (T, D)
        for i, (layer, w) in enumerate(zip(m.layers, self.layers, strict=True)):
            h = rms_norm(x, layer.attn_norm, m.eps)
            q = rotate((h @ w["q"]).reshape(count, m.heads, m.head_dim), cos, sin)  # (T, H, W)
            k = rotate((h @ w["k"]).reshape(count, m.kv_heads, m.head_dim), cos, sin)  # (T, KV heads, W)
            v = (h @ w["v"]).reshape(count, m.kv_heads, m.head_dim)
            self.keys[i] = np.concatenate([self.keys[i], k])
            self.values[i] = np.concatenate([self.values[i], v])
            k, v = (np.repeat(c, m.group, axis=1) for c in (self.keys[i], self.values[i]))  # (tokens, H, W)

            scores = np.einsum("thw,shw->hts", q, k) / np.sqrt(np.float32(m.head_dim))  # (H, T, tokens)
            scores[:, hidden] = -np.inf
            attended = np.einsum("hts,shw->thw", softmax(scores), v)  # (T, H, W)
            x = x + attended.reshape(count, -1) @ w["o"]

            h = rms_norm(x, layer.ffn_norm, m.eps)
            gate = h @ w["gate"]  # (T, F)
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up"])) @ w["down"]
        return rms_norm(x, m.output_norm, m.eps) @ self.head
