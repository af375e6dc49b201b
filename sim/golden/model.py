"""A llama, bit for bit as the accelerator computes it: token in, logits out.

``forward`` takes a run of tokens and works layer by layer on all of them; ``step`` is a run of one. Each position sees
only itself and what went before, and every sum is exact or has its order fixed, so both give the same bits.
"""

import numpy as np

from sim.golden import norm
from sim.golden.activation import silu_mul
from sim.golden.attention import attend
from sim.golden.block import BLOCK, KV_BITS, Blocks, quantise
from sim.golden.fp32 import add, mul
from sim.golden.matrix import Weights, largest_exponent
from sim.golden.matvec import Matrix
from sim.golden.rope import rotate

__all__ = ["GoldenModel"]

RUN = 32
"""Positions worked on at once."""


class Cache:
    """Quantised K or V of one layer: grows as tokens come."""

    def __init__(self, kv_heads, blocks):
        self._mantissas = np.empty((kv_heads, 0, blocks, BLOCK), np.int8)
        self._exponents = np.empty((kv_heads, 0, blocks), np.uint8)
        self.tokens = 0

    def append(self, new):
        """Takes blocks (positions, kv_heads, blocks, 32)."""
        end = self.tokens + new.exponents.shape[0]
        room = end - self._mantissas.shape[1]
        if room > 0:
            room = max(room, end)  # doubles
            self._mantissas = np.pad(self._mantissas, ((0, 0), (0, room), (0, 0), (0, 0)))
            self._exponents = np.pad(self._exponents, ((0, 0), (0, room), (0, 0)))
        self._mantissas[:, self.tokens:end] = new.mantissas.swapaxes(0, 1)
        self._exponents[:, self.tokens:end] = new.exponents.swapaxes(0, 1)
        self.tokens = end

    def head(self, h):
        """Blocks (tokens, blocks, 32) of KV head *h*."""
        mantissas = self._mantissas[h, :self.tokens].astype(np.int32)
        return Blocks(mantissas, self._exponents[h, :self.tokens].astype(np.int32), mantissas.sum(axis=-1))


class GoldenModel:
    """The golden model of a :class:`firmware.gguf_model.LlamaModel`.

    *mantissa_bits* is the operand width M, 8 to 16. *trace*, if given, is called as ``trace(name, layer, value)`` for
    every named intermediate value, ``layer`` being None outside the layers; arrays have positions as their first axis:

    * :class:`Blocks`: ``attn_operand``, ``q_blocks``, ``k_blocks``, ``v_blocks``, ``o_operand``, ``ffn_operand``,
      ``down_operand``, ``head_operand``; heads are (positions, KV heads, group (q only), blocks, 32);
    * float32: ``rope``, ``embedding``, ``attn_inverse_rms``, ``q``, ``k``, ``v`` (scaled, after RoPE), ``attention``,
      ``residual_attn``, ``ffn_inverse_rms``, ``gate``, ``up``, ``glu``, ``residual``, ``head_inverse_rms``, ``logits``;
    * ``attend``: a list of :class:`sim.golden.attention.Attended`, one a KV head.
    """

    def __init__(self, model, mantissa_bits=12, trace=None):
        self.model = model
        self.bits = mantissa_bits
        self.trace = trace
        self.weight_exponents = {}
        self._matrices = {}
        for role in ("q", "k", "v", "o", "gate_up", "down", "head"):
            weights = [Weights(*m.unpack()) for m in model.role(role)]
            exponent = largest_exponent(*weights)
            self.weight_exponents[role] = exponent
            self._matrices[role] = [Matrix(w, exponent, mantissa_bits) for w in weights]
        self.reset()

    def reset(self):
        """Forgets all tokens."""
        blocks = self.model.head_dim // BLOCK
        self.position = 0
        self._keys, self._values = ([Cache(self.model.kv_heads, blocks) for _ in self.model.layers] for _ in "kv")

    def step(self, token, head=True):
        """Consumes one token; its logits (vocab,) float32, or None without the LM head."""
        logits = self._run(np.array([token]), head)
        return logits[0] if head else None

    def forward(self, tokens, head=True):
        """Consumes a run of tokens; the logits after each, (tokens, vocab) float32, or None without the LM head."""
        tokens = np.asarray(tokens, np.int64)
        runs = [self._run(tokens[i:i + RUN], head) for i in range(0, len(tokens), RUN)]
        return np.concatenate(runs) if head else None

    def generate(self, prompt, count, stop=()):
        """Greedy: yields up to *count* (token, logits) after *prompt*; ends after a token in *stop*."""
        *before, token = prompt
        self.forward(before, head=False)
        for _ in range(count):
            logits = self.step(token)
            token = int(np.argmax(logits))
            yield token, logits
            if token in stop:
                return

    def _note(self, name, layer, value):
        if self.trace is not None:
            self.trace(name, layer, value)

    def _run(self, tokens, head):
        model = self.model
        end = self.position + len(tokens)
        if end > model.context:
            raise ValueError(f"token {end} is beyond the model's context of {model.context} tokens")
        rope = model.rope_rows(self.position, end)
        x = model.embedding.rows(tokens)
        self._note("rope", None, rope)
        self._note("embedding", None, x)
        for i, layer in enumerate(model.layers):
            x = self._attention(i, layer, x, rope)
            x = self._feed_forward(i, layer, x)
        self.position += len(tokens)
        if not head:
            return None
        operand, inverse = self._normed("head", None, x, model.output_norm)
        logits = mul(self._matrices["head"][0](operand), inverse[:, None])
        self._note("logits", None, logits)
        self._check(logits, "logits")
        return logits

    def _normed(self, name, layer, x, weights):
        """Operand and 1/rms (positions,) of a norm."""
        operand = norm.operand(x, weights, self.bits)
        inverse = norm.inverse_rms(x, self.model.eps)
        self._note(f"{name}_operand", layer, operand)
        self._note(f"{name}_inverse_rms", layer, inverse)
        return operand, inverse

    def _attention(self, i, layer, x, rope):
        model, matrices = self.model, self._matrices
        count = len(x)
        operand, inverse = self._normed("attn", i, x, layer.attn_norm)
        inverse = inverse[:, None]
        q = mul(matrices["q"][i](operand), mul(inverse, norm.query_scale(model.head_dim)))
        k = mul(matrices["k"][i](operand), inverse)
        v = mul(matrices["v"][i](operand), inverse).reshape(count, model.kv_heads, model.head_dim)
        q = rotate(q.reshape(count, model.kv_heads, model.group, model.head_dim), rope[:, None, None])
        k = rotate(k.reshape(count, model.kv_heads, model.head_dim), rope[:, None])
        q_blocks, k_blocks, v_blocks = quantise(q, self.bits), quantise(k, KV_BITS), quantise(v, KV_BITS)
        for name, value, blocks in (("q", q, q_blocks), ("k", k, k_blocks), ("v", v, v_blocks)):
            self._note(name, i, value)
            self._note(f"{name}_blocks", i, blocks)
        self._keys[i].append(k_blocks)
        self._values[i].append(v_blocks)

        visible = np.arange(self.position + count) <= self.position + np.arange(count)[:, None]
        heads = []
        for h in range(model.kv_heads):
            queries = Blocks(*(part[:, h] for part in q_blocks))
            heads.append(attend(queries, self._keys[i].head(h), self._values[i].head(h), self.bits, visible))
        self._note("attend", i, heads)
        attention = np.stack([h.out for h in heads], axis=1).reshape(count, -1)
        self._note("attention", i, attention)
        operand = quantise(attention, self.bits)
        self._note("o_operand", i, operand)
        x = add(x, matrices["o"][i](operand))
        self._note("residual_attn", i, x)
        self._check(x, f"layer {i}, attention")
        return x

    def _feed_forward(self, i, layer, x):
        matrices = self._matrices
        operand, inverse = self._normed("ffn", i, x, layer.ffn_norm)
        gate = mul(matrices["gate_up"][2 * i](operand), inverse[:, None])
        up = mul(matrices["gate_up"][2 * i + 1](operand), inverse[:, None])
        glu = silu_mul(gate, up)
        operand = quantise(glu, self.bits)
        x = add(x, matrices["down"][i](operand))
        for name, value in (("gate", gate), ("up", up), ("glu", glu), ("down_operand", operand), ("residual", x)):
            self._note(name, i, value)
        self._check(x, f"layer {i}, feed-forward")
        return x

    def _check(self, x, where):
        if not np.isfinite(x).all():
            raise FloatingPointError(f"{where}: infinite or NaN; the accelerator would raise its error flag")
