"""What the vector unit should do with the records of a few steps: golden results in the order of the blocks.

:func:`steps` makes up a model of the given shape, random row results and attention sums, and returns one
:class:`Task` a record, with the data to feed and the blocks, logits and token to expect.
"""

from dataclasses import dataclass, field

import numpy as np

from hw.interfaces import NewestKind
from hw.isa import Region, RowScale, VectorKind
from sim.golden import activation, attention, block, fp32, matrix, norm, rope
from sim.golden.block import BLOCK, KV_BITS

__all__ = ["Shape", "Task", "beats_of", "steps"]

SUM_BITS = 46


@dataclass(frozen=True)
class Shape:
    """A model and the unit that it runs on."""

    channels: int
    lanes: int
    v_kv: int
    mantissa_bits: int
    accumulator_bits: int
    hidden: int
    ffn: int
    kv_heads: int
    group: int
    head_blocks: int
    vocabulary: int
    router: int

    @property
    def head_width(self):
        return BLOCK * self.head_blocks

    @property
    def heads(self):
        return self.kv_heads * self.group


@dataclass
class Task:
    """One record: its fields, what to feed it with, and what comes of it."""

    kind: VectorKind
    count: int
    scale: RowScale = RowScale.ONE
    slot: int = 0
    weight_exponent: int = 0
    region: Region = Region.HIDDEN
    needs: int = 0  # operands that must have left before results can come
    results: list = field(default_factory=list)  # signed integers in row order, padded
    beats: list = field(default_factory=list)  # 256-bit integers, padded
    merged: list = field(default_factory=list)  # MergedItem values
    blocks: list = field(default_factory=list)  # OperandBus values
    logits: np.ndarray | None = None  # bits
    token: int | None = None


def emitted_order(width, lanes):
    """Natural index of each element of a head as the rows are laid out: even elements of 2 * lanes, then odd ones."""
    natural = np.arange(width).reshape(-1, lanes, 2)
    return natural.transpose(0, 2, 1).reshape(-1)


def padded(items, channels, filler):
    return [*items, *(filler() for _ in range(-len(items) % channels))]


def beats_of(values):
    """256-bit integers of eight binary32 each."""
    bits = fp32.to_bits(values).reshape(-1, 8).astype("<u4")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


class Steps:
    """State of the made-up model; each method returns the task of one record."""

    def __init__(self, shape, rng):
        self.shape, self.rng = shape, rng
        self.reciprocal = np.float32(1 / shape.hidden)
        self.eps = np.float32(10.0 ** rng.integers(-7, -3))
        self.query_scale = norm.query_scale(shape.head_width)
        self.norms = [None, None]
        self.row = self.residual = self.inverse = None
        self.largest = {}
        self.finished = 0  # operands so far, of all kinds
        self.produced = {}  # ``finished`` when a region's operand was complete

    def _beats(self, values):
        return padded(beats_of(values), self.shape.channels, lambda: int.from_bytes(self.rng.bytes(32), "little"))

    def _floats(self, count, spread=4.0):
        """Normal values times powers of two, with zeros, subnormals and the flush border among them."""
        values = (self.rng.standard_normal(count) * 2.0 ** self.rng.normal(0, spread, count)).astype(np.float32)
        special = np.array([0.0, -0.0, 1e-40, -1e-40, 2.0**-126, -(2.0**-126), 2.0**-125, 1.0, -1.0], np.float32)
        chosen = self.rng.random(count) < 0.1
        return np.where(chosen, self.rng.choice(special, count), values)

    def load_norm(self, slot):
        self.norms[slot] = self._floats(self.shape.hidden, 2.0)
        return Task(VectorKind.LOAD_NORM, self.shape.hidden, slot=slot, beats=self._beats(self.norms[slot]))

    def load_rope(self):
        angles = self.rng.uniform(0, 6.3, self.shape.head_width // 2)
        self.row = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1).astype(np.float32)
        self.row[self.rng.integers(self.row.size)] = 0
        return Task(VectorKind.LOAD_ROPE, self.row.size, beats=self._beats(self.row))

    def _operand(self, task, values, kind, region):
        shape = self.shape
        bits = KV_BITS if kind in (NewestKind.KEY, NewestKind.VALUE) else shape.mantissa_bits
        blocks = block.quantise(values, bits)
        order = emitted_order(BLOCK, shape.lanes) if kind in (NewestKind.QUERY, NewestKind.KEY) else np.arange(BLOCK)
        passes = -(-shape.group // shape.v_kv)
        for n in range(blocks.exponents.size):
            row, address = 0, n
            if kind is NewestKind.QUERY:
                head, part = divmod(n, shape.head_blocks)
                kv_head, member = divmod(head, shape.group)
                row = member % shape.v_kv
                address = (kv_head * passes + member // shape.v_kv) * shape.head_blocks + part
            task.blocks.append({
                "kind": kind.value, "region": region.value, "row": row, "address": address,
                "last": int(n == blocks.exponents.size - 1), "exponent": int(blocks.exponents[n]),
                "sum": int(blocks.sums[n]), "mantissas": [int(v) for v in blocks.mantissas[n][order]],
            })
        self.largest[region] = int(blocks.largest)
        self.finished += 1
        self.produced[region] = self.finished
        return task

    def _norm(self, task, slot):
        self.inverse = norm.inverse_rms(self.residual, self.eps)
        return self._operand(task, fp32.mul(self.residual, self.norms[slot]), NewestKind.OPERAND, Region.HIDDEN)

    def embed(self, slot):
        self.residual = self._floats(self.shape.hidden)
        task = Task(VectorKind.EMBED, self.shape.hidden, slot=slot, beats=self._beats(self.residual))
        return self._norm(task, slot)

    def _rows(self, kind, count, scale, region, slot=0):
        """(task, binary32 results in row order) of *count* rows of random accumulators of sane magnitude."""
        shape, rng = self.shape, self.rng
        task = Task(kind, count, scale, slot, int(rng.integers(8, 26)), region, self.produced[region])
        grid = self.largest[region] - 127 - (shape.mantissa_bits - 2)
        exponent = grid + task.weight_exponent - 25 - matrix.GUARD_BITS
        wanted = rng.standard_normal(count) * 2.0 ** rng.normal(0, 3, count)
        limit = 2.0 ** (shape.accumulator_bits - 2)
        accumulators = np.clip(np.ldexp(wanted, -exponent), -limit, limit).astype(np.int64)
        accumulators = np.where(rng.random(count) < 0.05, rng.integers(-1, 2, count), accumulators)
        filler = lambda: int(rng.integers(-(1 << 40), 1 << 40))  # noqa: E731
        task.results = padded([int(v) for v in accumulators], shape.channels, filler)
        y = matrix.row_results(accumulators, self.largest[region], task.weight_exponent, shape.mantissa_bits)
        if scale is RowScale.NORM:
            y = fp32.mul(y, self.inverse)
        elif scale is RowScale.NORM_QUERY:
            y = fp32.mul(y, fp32.mul(self.inverse, self.query_scale))
        return task, y

    def rotated(self, kind):
        """QUERY or KEY: the rows come permuted."""
        shape = self.shape
        heads, scale, newest = {
            VectorKind.QUERY: (shape.heads, RowScale.NORM_QUERY, NewestKind.QUERY),
            VectorKind.KEY: (shape.kv_heads, RowScale.NORM, NewestKind.KEY),
        }[kind]
        task, y = self._rows(kind, heads * shape.head_width, scale, Region.HIDDEN)
        natural = np.empty((heads, shape.head_width), np.float32)
        natural[:, emitted_order(shape.head_width, shape.lanes)] = y.reshape(heads, -1)
        return self._operand(task, rope.rotate(natural, self.row).reshape(-1), newest, Region.QUERY)

    def value(self):
        count = self.shape.kv_heads * self.shape.head_width
        task, y = self._rows(VectorKind.VALUE, count, RowScale.NORM, Region.HIDDEN)
        return self._operand(task, y, NewestKind.VALUE, Region.QUERY)

    def attention(self):
        shape, rng = self.shape, self.rng
        task = Task(VectorKind.ATTENTION, shape.heads * shape.head_width, region=Region.QUERY)
        exponents = rng.integers(100, 140, (shape.kv_heads, 1, shape.head_blocks))
        size = 2.0 ** rng.integers(0, SUM_BITS - 1, (shape.heads, 1, 1))
        sums = (rng.uniform(-1, 1, (shape.heads, shape.head_blocks, BLOCK)) * size).astype(np.int64)
        sums[rng.random(sums.shape) < 0.05] = 0
        totals = np.maximum(2.0 ** rng.uniform(16, SUM_BITS - 1, shape.heads), 65535).astype(np.int64)
        for head in range(shape.heads):
            ev = exponents[head // shape.group, 0]
            task.merged.append({"is_sum": 1, "exponent": int(rng.integers(256)), "elements": [int(totals[head])]})
            elements = sums[head].reshape(-1, shape.lanes)
            task.merged += [{"is_sum": 0, "exponent": int(ev[n * shape.lanes // BLOCK]), "elements": row}
                            for n, row in enumerate(elements.tolist())]
        out = attention.normalise(
            sums.reshape(shape.kv_heads, shape.group, shape.head_blocks, BLOCK),
            totals.reshape(shape.kv_heads, shape.group), exponents[:, 0])
        return self._operand(task, out.reshape(-1), NewestKind.OPERAND, Region.ATTENTION)

    def add_residual(self, slot, region):
        task, y = self._rows(VectorKind.RESIDUAL, self.shape.hidden, RowScale.ONE, region, slot)
        self.residual = fp32.add(self.residual, y)
        return self._norm(task, slot)

    def add(self, region):
        task, y = self._rows(VectorKind.ADD, self.shape.hidden, RowScale.ONE, region, int(self.rng.integers(2)))
        self.residual = fp32.add(self.residual, y)
        return task

    def router(self):
        return self._rows(VectorKind.ROUTER, self.shape.router, RowScale.ONE, Region.HIDDEN)[0]

    def experts(self):
        """Records of a feed-forward of three experts: rows of the next one's gate and up before those of down."""
        return [
            self.router(), self.glu(), self.glu(1), self.add(Region.FFN), self.glu(), self.add(Region.ATTENTION),
            self.add_residual(0, Region.FFN),
        ]

    def glu(self, slot=0):
        shape = self.shape
        task, y = self._rows(VectorKind.GLU, 2 * shape.ffn, RowScale.NORM, Region.HIDDEN, slot)
        pairs = y.reshape(-1, 2, shape.lanes)
        out = activation.silu_mul(pairs[:, 0], pairs[:, 1]).reshape(-1)
        return self._operand(task, out, NewestKind.OPERAND, Region.ATTENTION if slot else Region.FFN)

    def head(self):
        task, y = self._rows(VectorKind.HEAD, self.shape.vocabulary, RowScale.NORM, Region.HIDDEN)
        task.logits, task.token = fp32.to_bits(y), int(np.argmax(y))
        return task

    def hurried(self):
        """Records close behind others that they must not disturb."""
        return [
            self.embed(0), self.embed(1), self.load_norm(1), self.rotated(VectorKind.KEY), self.load_rope(),
            self.rotated(VectorKind.QUERY), self.add_residual(1, Region.ATTENTION), self.load_rope(),
            self.load_norm(1), self.embed(1), self.value(), self.attention(), self.glu(), self.glu(1),
            self.value(), self.router(), self.router(), self.head(), self.add(Region.ATTENTION), self.add(Region.FFN),
            self.load_norm(0), self.add(Region.FFN), self.add_residual(1, Region.FFN), self.head(), self.head(),
        ]

    def anything(self):
        """Any record after any other, as no program has them."""
        return self.rng.choice([
            self.load_rope, lambda: self.load_norm(0), lambda: self.load_norm(1), lambda: self.embed(1),
            lambda: self.rotated(VectorKind.QUERY), lambda: self.rotated(VectorKind.KEY), self.value, self.attention,
            lambda: self.add_residual(0, Region.ATTENTION), lambda: self.add_residual(1, Region.FFN),
            self.glu, lambda: self.glu(1), self.head, lambda: self.add(Region.FFN), self.router,
        ])()


def steps(shape, seed, count, layers, extra):
    """(constants, tasks): *count* steps of *layers* layers, every other one without a head, then records in no
    program's order, *extra* of them random."""
    model = Steps(shape, np.random.default_rng(seed))
    tasks = []
    for step in range(count):
        tasks += [model.load_rope(), model.load_norm(0), model.embed(0)]
        for _ in range(layers):
            tasks += [
                model.rotated(VectorKind.QUERY), model.rotated(VectorKind.KEY), model.value(),
                model.load_norm(1), model.load_norm(0), model.attention(),
                model.add_residual(1, Region.ATTENTION), *(
                    model.experts() if step == 1 else [model.glu(), model.add_residual(0, Region.FFN)]),
            ]
        if step % 2 == 0:
            tasks.append(model.head())
    tasks += model.hurried()
    tasks += [model.anything() for _ in range(extra)]
    constants = {name: int(fp32.to_bits(getattr(model, name))) for name in ("reciprocal", "eps", "query_scale")}
    return constants, tasks
