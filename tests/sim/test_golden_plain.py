"""The whole law once more, element by element in Python numbers, against the golden model on a small llama.

Written from docs/numerics.md alone: integers are Python's, binary32 is a float32 scalar (nothing here comes near
2^-126), GGUF blocks are taken apart byte by byte.
"""

from fractions import Fraction
from math import cos, e, log2, sin, sqrt
from struct import unpack_from

import numpy as np
import pytest

from firmware.gguf_model import read_model
from hw import tables
from hw.isa import Format
from sim.golden.model import GoldenModel
from sim.random_model import RandomLlama, write_model

f32 = np.float32


def power(n):
    return Fraction(2) ** n


def rounded(x):
    """A fraction as binary32, rounded once."""
    if x == 0:
        return f32(0)
    unit = power(abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - 24)
    if abs(x) >= unit * 2**24:
        unit *= 2
    return f32(float(round(x / unit) * unit))  # at most 24 bits: both conversions are exact


def exponent_of(x):
    return int(np.frexp(x)[1]) + 126 if x else 0


def quantise(x, bits):
    """[(exponent, mantissas)] of a list of floats."""
    blocks = []
    for start in range(0, len(x), 32):
        part = x[start:start + 32]
        exponent = max(map(exponent_of, part))
        limit = 2 ** (bits - 1) - 1
        scaled = [round(Fraction(float(v)) * power(127 - exponent + bits - 2)) for v in part]
        blocks.append((exponent, [max(-limit, min(limit, v)) for v in scaled]))
    return blocks


def half(data, offset):
    """(ms, es) of the binary16 at *offset*."""
    pattern, = unpack_from("<H", data, offset)
    field = pattern >> 10 & 31
    mantissa = (pattern & 1023) + (1024 if field else 0)
    return (-mantissa if pattern & 0x8000 else mantissa), max(field, 1)


def take_apart(matrix):
    """Rows of blocks (codes, scale, minimum or None)."""
    def block(data):
        if matrix.format is Format.Q8_0:
            return list(unpack_from("32b", data, 2)), half(data, 0), None
        nibbles = data[-16:]
        codes = [b & 15 for b in nibbles] + [b >> 4 for b in nibbles]
        if matrix.format is Format.Q4_0:
            return [c - 8 for c in codes], half(data, 0), None
        return codes, half(data, 0), half(data, 2)

    return [[block(bytes(b)) for b in row] for row in matrix.raw]


def line(table, k, r):
    return table[k] + ((table[k + 1] - table[k]) * r + 2**14 >> 15)


def split(x):
    pattern = int(np.array(x, f32).view(np.uint32))
    return (pattern >> 23) - 127, pattern >> 15 & 255, pattern & 32767


def rcp(x):
    exponent, k, r = split(x)
    return rounded(line(tables.RCP, k, r) * power(-24 - exponent))


def rsqrt(x):
    exponent, k, r = split(x)
    table = tables.RSQRT_ODD if exponent % 2 else tables.RSQRT_EVEN
    return rounded(line(table, k, r) * power(-24 - exponent // 2))


def exp2(t):
    i, g = divmod(max(-126 << 16, min(126 << 16, round(Fraction(float(t)) * 2**16))), 2**16)
    return rounded(line(tables.EXP2, g >> 8, (g & 255) << 7) * power(i - 23))


def softmax_p(d):
    i, f = divmod(d, 4096)
    k, r = divmod(f, 32)
    y = 32 * tables.SOFTMAX[k] + (tables.SOFTMAX[k + 1] - tables.SOFTMAX[k]) * r
    return min(65535, round(Fraction(y) * power(i - 5)))


class PlainLlama:
    def __init__(self, model, bits):
        self.model, self.bits = model, bits
        self.rows, self.largest = {}, {}
        for role in ("q", "k", "v", "o", "gate_up", "down", "head"):
            apart = [take_apart(m) for m in model.role(role)]
            scales = [s for matrix in apart for row in matrix for _, *both in row for s in both if s is not None]
            self.largest[role] = max(exponent for _, exponent in scales)
            self.rows[role] = apart
        self.cache = [[] for _ in model.layers]

    def matrix(self, role, index, operand):
        emax, weight = max(x for x, _ in operand), self.largest[role]
        results = []
        for row in self.rows[role][index]:
            acc = 0
            for (codes, (ms, es), minimum), (exponent, x) in zip(row, operand, strict=True):
                dot = sum(c * v for c, v in zip(codes, x, strict=True))
                acc += round(dot * ms * power(12 - (emax - exponent) - (weight - es)))
                if minimum is not None:
                    mm, em = minimum
                    acc += round(sum(x) * mm * power(12 - (emax - exponent) - (weight - em)))
            results.append(rounded(acc * power(emax - 127 - (self.bits - 2) + weight - 25 - 12)))
        return results

    def normed(self, x, weights):
        sums = [f32(0)] * 32
        for i, v in enumerate(x):
            sums[i % 32] = sums[i % 32] + v * v
        while len(sums) > 1:
            half_way = len(sums) // 2
            sums = [sums[j] + sums[j + half_way] for j in range(half_way)]
        inverse = rsqrt(sums[0] * f32(1 / len(x)) + f32(self.model.eps))
        return quantise([v * g for v, g in zip(x, weights, strict=True)], self.bits), inverse

    def rotate(self, x, position):
        model, out = self.model, []
        for i in range(0, model.head_dim, 2):
            angle = position * model.rope_base ** (-i / model.head_dim)
            c, s, a, b = f32(cos(angle)), f32(sin(angle)), x[i], x[i + 1]
            out += [a * c - b * s, a * s + b * c]
        return out

    def score(self, query, key):
        total = 0
        for (eq, q), (ek, k) in zip(query, key, strict=True):
            dot = sum(a * b for a, b in zip(q, k, strict=True))
            total += round(dot * power(eq - 127 - (self.bits - 2) + ek - 127 - 6 + 12))
        return total

    def attend(self, query, tokens):
        s = [self.score(query, key) for key, _ in tokens]
        p = [softmax_p(v - max(s)) for v in s]
        scale, out = rcp(rounded(Fraction(sum(p)))), []
        for b in range(self.model.head_dim // 32):
            ev = max(value[b][0] for _, value in tokens)
            placed = [round(v * power(value[b][0] - ev)) for v, (_, value) in zip(p, tokens, strict=True)]
            for j in range(32):
                o = sum(v * value[b][1][j] for v, (_, value) in zip(placed, tokens, strict=True))
                out.append(rounded(o * power(ev - 133)) * scale)
        return out

    def step(self, token):
        model, width, bits = self.model, self.model.head_dim, self.bits
        position = len(self.cache[0])
        x = list(model.embedding.rows([token])[0])
        for i, layer in enumerate(model.layers):
            operand, inverse = self.normed(x, layer.attn_norm)
            scale = inverse * f32(log2(e) / sqrt(width))
            q = [y * scale for y in self.matrix("q", i, operand)]
            k = [y * inverse for y in self.matrix("k", i, operand)]
            v = [y * inverse for y in self.matrix("v", i, operand)]
            starts = range(0, len(k), width)
            keys = [quantise(self.rotate(k[h:h + width], position), 8) for h in starts]
            self.cache[i].append(list(zip(keys, [quantise(v[h:h + width], 8) for h in starts], strict=True)))
            attention = []
            for h in range(model.heads):
                query = quantise(self.rotate(q[h * width:(h + 1) * width], position), bits)
                attention += self.attend(query, [token[h // model.group] for token in self.cache[i]])
            x = [a + b for a, b in zip(x, self.matrix("o", i, quantise(attention, bits)), strict=True)]

            operand, inverse = self.normed(x, layer.ffn_norm)
            hidden = []
            for gate, up in zip(*(self.matrix("gate_up", 2 * i + n, operand) for n in (0, 1)), strict=True):
                a, b = gate * inverse, up * inverse
                hidden.append(a * rcp(f32(1) + exp2(a * f32(-log2(e)))) * b)
            x = [a + b for a, b in zip(x, self.matrix("down", i, quantise(hidden, bits)), strict=True)]
        operand, inverse = self.normed(x, model.output_norm)
        return np.array([y * inverse for y in self.matrix("head", 0, operand)], f32)


@pytest.mark.parametrize("llama, bits", [
    (RandomLlama(hidden=64, ffn=96, vocab=40, heads=3, kv_heads=1, layers=2, type="Q4_1", seed=11), 12),
    (RandomLlama(hidden=32, ffn=64, vocab=24, heads=2, kv_heads=2, head_dim=64, layers=1, type="Q8_0", tied=False,
                 types={"attn_v": "Q4_0"}, seed=12), 16),
])
def test_golden_equals_the_plain_law(tmp_path, llama, bits):
    model = read_model(write_model(tmp_path / "m.gguf", llama))
    plain, golden = PlainLlama(model, bits), GoldenModel(model, bits)
    for token in np.random.default_rng(llama.seed).integers(0, llama.vocab, 4):
        assert golden.step(token).tolist() == plain.step(token).tolist()
