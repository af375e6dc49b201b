"""The slice's KEYS and VALUES records against the golden model, one channel's tokens of one or more layers."""

import random
from dataclasses import dataclass

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from hw.config import BLOCK
from hw.interfaces import SCORE_BITS, SUM_BITS, MaximumItem, NewestKind
from hw.isa import Region, SliceKind
from sim.bench import bench_args
from sim.golden.attention import NO_SCORE, largest_scores, largest_values, numerators, scores, weighted_sums
from sim.golden.block import KV_BITS, Blocks
from sim.streams import pack, signed
from sim.tb.slice_bench import CONFIG, SliceBench, Taken
from sim.tb.slice_layout import exponent_beats, random_blocks

LIMIT = 60_000
CHANNEL = 1
BLOCKS = [blocks for blocks in (1, 2, 4) if blocks <= CONFIG.head_blocks]
GROUPS = sorted({1, CONFIG.v_kv, CONFIG.max_group})


@dataclass(frozen=True)
class Shape:
    """A model's attention, and this channel's part in it."""

    heads: int
    group: int
    blocks: int
    older: int
    owner: bool

    @property
    def passes(self):
        return -(-self.group // CONFIG.v_kv)

    @property
    def exponent_beats(self):
        return -(-CONFIG.page_slots * self.blocks // 32)

    @property
    def geometry(self):
        return {"kv_heads": self.heads, "group": self.group, "passes": self.passes, "head_blocks": self.blocks,
                "exponent_beats": self.exponent_beats}

    @property
    def position(self):
        """Position whose tokens before it fill ``older`` slots of channel CHANNEL."""
        if self.owner:
            return {"slot": self.older, "channel": CHANNEL}
        if self.older == 0:
            return {"slot": 0, "channel": 0}
        return {"slot": self.older - 1, "channel": CHANNEL + 1}


def join(parts):
    """Blocks of several tokens as one."""
    return Blocks(*(np.concatenate(rows) for rows in zip(*parts, strict=True)))


class Layer:
    """Random queries, keys and values of one layer, its beats, and what this channel must report."""

    def __init__(self, rng, shape, wild):
        self.rng, self.shape = rng, shape
        spread = (1, 254) if wild else (120, 128)
        tokens = shape.older + shape.owner
        self.queries = [random_blocks(rng, (1, shape.group, shape.blocks), CONFIG.mantissa_bits, spread)
                        for _ in range(shape.heads)]
        self.keys = [random_blocks(rng, (tokens, shape.blocks), KV_BITS, spread) for _ in range(shape.heads)]
        self.values = [random_blocks(rng, (tokens, shape.blocks), KV_BITS, (100, 130)) for _ in range(shape.heads)]
        self.spare = [random_blocks(rng, (shape.heads, shape.blocks), KV_BITS, spread) for _ in range(2)]
        seen = np.ones((1, tokens), bool)
        self.maxima, self.merged, self.partials = [], [], []
        for queries, keys, values in zip(self.queries, self.keys, self.values, strict=True):
            s = scores(queries, keys, CONFIG.mantissa_bits)
            own, exponents = largest_scores(s, seen), largest_values(values, seen)
            self.maxima.append((own[0], exponents[0]))
            above = rng.integers(0, 3, own.shape) * rng.integers(0, 5000, own.shape)
            elsewhere = rng.integers(-9, 9, own.shape) * 1000
            largest = np.where(own == NO_SCORE, elsewhere, np.minimum(own + above, -NO_SCORE))
            higher = np.minimum(exponents + rng.integers(0, 3, exponents.shape), 254)
            self.merged.append((largest[0], higher[0]))
            p = numerators(s, largest, seen)
            self.partials.append((p.sum(axis=-1)[0], weighted_sums(p, values, higher)[0]))

    def key_stream(self, head):
        """(scale beats, data beats) of KV_K, page by page."""
        shape, scales, data = self.shape, [], []
        for first in range(0, shape.older, CONFIG.page_slots):
            slots = slice(first, min(first + CONFIG.page_slots, shape.older))
            for kind in (self.keys, self.values):
                scales += exponent_beats(kind[head].exponents[slots], shape.exponent_beats, self.rng)
            data += mantissa_beats(self.keys[head].mantissas[slots])
        return scales, data

    def value_stream(self, head):
        """Data beats of KV_V."""
        return mantissa_beats(self.values[head].mantissas[:self.shape.older])

    def newest(self, kind, n):
        """The newest token's K or V of all heads, flat; something else if another channel owns it."""
        if not self.shape.owner:
            return flat(self.spare[n])
        return flat(join([Blocks(*(part[-1:] for part in blocks)) for blocks in kind]))

    def padded_maximum(self, scores_of_group, exponents):
        """Maximum items of a head, one a pass; rows beyond the group are what *scores_of_group* lacks."""
        items = []
        for first in range(0, self.shape.group, CONFIG.v_kv):
            row = [int(value) for value in scores_of_group[first:first + CONFIG.v_kv]]
            items.append({"score": row, "exponent": [int(e) for e in exponents]})
        return items


def mantissa_beats(mantissas):
    """Beats of blocks (tokens, blocks, 32) of signed bytes."""
    return [int.from_bytes(row.astype(np.int8).tobytes(), "little") for row in mantissas.reshape(-1, BLOCK)]


def flat(blocks):
    """Blocks with one leading axis."""
    return Blocks(blocks.mantissas.reshape(-1, BLOCK), blocks.exponents.reshape(-1), blocks.sums.reshape(-1))


def records(shape):
    """KEYS run one head ahead of VALUES."""
    order = []
    for head in range(shape.heads + 1):
        if head < shape.heads:
            order.append((SliceKind.KEYS, head))
        if head > 0:
            order.append((SliceKind.VALUES, head - 1))
    return order


class Attention:
    """Runs layers through a bench and checks maxima and sums; stands in for the merge, which takes *delay* clocks."""

    def __init__(self, bench, rng, shape, layers, delay=20):
        self.bench, self.rng, self.shape, self.layers, self.delay = bench, rng, shape, layers, delay

    async def run(self):
        """All layers one after the other, then :meth:`check`."""
        for layer in self.layers:
            self.send(layer)
        merge = cocotb.start_soon(self.merge())
        for n, layer in enumerate(self.layers, 1):
            await self.operands(layer)
            await self.bench.partial.wait(n * self.items, LIMIT)
        await merge
        await ClockCycles(self.bench.dut.clk, 30)
        self.check()

    @property
    def items(self):
        """Partial items of a layer."""
        return self.shape.heads * self.shape.group * (1 + self.shape.blocks * BLOCK // CONFIG.lanes)

    def send(self, layer):
        """Queue the records and beats of *layer*."""
        bench, shape = self.bench, self.shape
        for kind, head in records(shape):
            first = kind is SliceKind.KEYS and head == 0
            record = {"kind": kind, "head": head, "region": Region.QUERY, "take_fence": first}
            bench.dispatch.send({"position": shape.position, "record": record})
            if kind is SliceKind.KEYS:
                scales, data = layer.key_stream(head)
                bench.scales.send(*scales)
                bench.data.send(*data)
            else:
                bench.data.send(*layer.value_stream(head))

    async def operands(self, layer):
        """Queries, then the newest K and V; K before the queries' end or after it."""
        shape, bench = self.shape, self.bench
        queries = flat(join(layer.queries))
        heads, places, blocks = np.indices((shape.heads, shape.group, shape.blocks)).reshape(3, -1)
        addresses = (heads * shape.passes + places // CONFIG.v_kv) * shape.blocks + blocks
        await bench.operand.send(NewestKind.QUERY, Region.QUERY, queries, addresses, rows=places % CONFIG.v_kv)
        await ClockCycles(bench.dut.clk, 1 + int(self.rng.integers(10 * self.delay)))
        for kind, of_layer, n in ((NewestKind.KEY, layer.keys, 0), (NewestKind.VALUE, layer.values, 1)):
            newest = layer.newest(of_layer, n)
            await bench.operand.send(kind, Region.HIDDEN, newest, range(len(newest.exponents)), bits=KV_BITS)

    async def merge(self):
        """Broadcast the maxima of all channels some time after this channel's."""
        dut, count = self.bench.dut, 0
        for layer in self.layers:
            for merged in layer.merged:
                items = layer.padded_maximum(*merged)
                for item in items:
                    count += 1
                    await self.bench.maximum.wait(count, LIMIT)
                    await ClockCycles(dut.clk, 1 + int(self.rng.integers(self.delay)))
                    dut.merged_maximum__valid.value = 1
                    dut.merged_maximum__item.value = pack(MaximumItem(CONFIG), item)
                    await ClockCycles(dut.clk, 1)
                    dut.merged_maximum__valid.value = 0

    def check(self):
        """Everything that came out, and that nothing is left."""
        shape, bench = self.shape, self.bench
        maxima = [item for layer in self.layers for own in layer.maxima for item in layer.padded_maximum(*own)]
        assert len(bench.maximum.items) == len(maxima)
        for n, (item, wanted) in enumerate(zip(bench.maximum.items, maxima, strict=True)):
            got = [signed(value, SCORE_BITS) for value in item["score"]][:len(wanted["score"])]
            assert got == wanted["score"], f"scores of maximum item {n}"
            unused = [0] * (CONFIG.head_blocks - shape.blocks)
            assert item["exponent"] == wanted["exponent"] + unused, f"exponents of item {n}"
        wanted = []
        for layer in self.layers:
            for total, sums in layer.partials:
                for q in range(shape.group):
                    wanted.append((1, int(total[q]), *[0] * (CONFIG.lanes - 1)))
                    lanes = sums[q].reshape(-1, CONFIG.lanes)
                    wanted += [(0, *(int(value) for value in pair)) for pair in lanes]
        got = [(item["is_sum"], *(signed(value, SUM_BITS) for value in item["elements"]))
               for item in bench.partial.items]
        assert not (bench.data.pending or bench.scales.pending or bench.dispatch.pending)
        assert len(got) == len(wanted)
        for n, pair in enumerate(zip(got, wanted, strict=True)):
            assert pair[0] == pair[1], f"item {n}"


async def attend(dut, shape, stall, layers=2, wild=False):
    seed = bench_args()["seed"]
    rng = np.random.default_rng(seed)
    bench = await SliceBench.create(dut, random.Random(seed), stall, channel=CHANNEL, geometry=shape.geometry,
                                    after_valid=stall > 0.5)
    await Attention(bench, rng, shape, [Layer(rng, shape, wild) for _ in range(layers)]).run()


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(blocks=BLOCKS, group=GROUPS, owner=[False, True])
async def shapes(dut, blocks, group, owner):
    """Head widths and groups, tokens over three pages, the last one partly filled."""
    await attend(dut, Shape(heads=3, group=group, blocks=blocks, older=37, owner=owner), 0.2)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(older=[0, 1, 16, 33], owner=[False, True], stall=[0.0, 0.75])
async def token_counts(dut, older, owner, stall):
    """No token, one, whole pages; without gaps and with many."""
    await attend(dut, Shape(heads=4, group=GROUPS[-1], blocks=BLOCKS[-1], older=older, owner=owner), stall, layers=3)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(blocks=BLOCKS)
async def extremes(dut, blocks):
    """Exponents over the whole range: scores saturate, and most numerators vanish."""
    await attend(dut, Shape(heads=3, group=GROUPS[-1], blocks=blocks, older=21, owner=True), 0.1, wild=True)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(group=GROUPS[1:])
async def one_beat_a_clock(dut, group):
    """Without gaps a KV beat is taken every ``passes`` clocks, but for the first exponents of each head."""
    seed = bench_args()["seed"]
    rng = np.random.default_rng(seed)
    shape = Shape(heads=4, group=group, blocks=BLOCKS[-1], older=40, owner=False)
    bench = await SliceBench.create(dut, random.Random(seed), 0.0, channel=CHANNEL, geometry=shape.geometry)
    taken = Taken(dut, "data")
    await Attention(bench, rng, shape, [Layer(rng, shape, False)], delay=1).run()
    beats = 2 * shape.heads * shape.older * shape.blocks
    assert len(taken.clocks) == beats
    lost = taken.clocks[-1] - taken.clocks[0] - (beats - 1) * shape.passes
    assert lost <= (shape.heads - 1) * (2 * shape.exponent_beats + 2), f"{lost} clocks lost"
