"""Bench of a channel's fetch side over steps: block tables, pages of K and V, and the newest token written back.

The bench plays sequencer, slice and vector unit: it queues the access records of all steps at once, and brings the
newest K and V of a layer when the weights of its layer have been taken.
"""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from hw.interfaces import Geometry, NewestKind, Position, ReaderRecord, write_signature
from hw.isa import AccessKind, Format
from sim.bench import bench_args
from sim.streams import Sink, Source, pack, start
from sim.tb.kv_reference import KvCache, KvShape, Newest, bench_config
from sim.tb.reader import HostReader
from sim.tb.reader_memory import ChannelMemory

WEIGHTS_BEAT, WEIGHTS_BEATS = 1 << 12, 7  # two superblocks of Q4_1, the second short
VECTOR_BEAT, VECTOR_BEATS = 1 << 13, 3
HOST_BEAT = (1 << 13) + 256
WRITE = write_signature().members["beats"].signature.members["payload"].shape


class Operands:
    """Drives the operand bus: newest blocks among other traffic."""

    def __init__(self, dut, config, rng):
        self._dut, self._rng, self._bits = dut, rng, config.mantissa_bits
        dut.operands__valid.value = 0

    async def _beat(self, kind, address, last, block):
        dut, rng = self._dut, self._rng
        exponent, mantissas = block
        mask = (1 << self._bits) - 1
        dut.operands__valid.value = 1
        dut.operands__kind.value = kind.value
        dut.operands__address.value = address
        dut.operands__last.value = last
        dut.operands__exponent.value = exponent
        dut.operands__mantissas.value = sum((m & mask) << self._bits * n for n, m in enumerate(mantissas))
        await RisingEdge(dut.clk)
        dut.operands__valid.value = 0
        if rng.random() < 0.5:
            await ClockCycles(dut.clk, rng.randint(1, 4))

    async def newest(self, shape, newest):
        for kind, blocks in ((NewestKind.KEY, newest.keys), (NewestKind.VALUE, newest.values)):
            flat = [block for head in blocks for block in head]
            for address, block in enumerate(flat):
                await self._beat(kind, address, address == len(flat) - 1, block)
                if self._rng.random() < 0.2:
                    noise = (self._rng.getrandbits(8), [self._rng.randint(-128, 127) for _ in range(32)])
                    await self._beat(self._rng.choice([NewestKind.OPERAND, NewestKind.QUERY]), address, 1, noise)


def layer_records(shape, layer, position):
    """Access records of a layer, K one head ahead of V."""
    records = [{"kind": AccessKind.TABLE, "beat": KvCache.table_beat(layer)},
               {"kind": AccessKind.WEIGHTS, "format": Format.Q4_1, "beat": WEIGHTS_BEAT, "beats": WEIGHTS_BEATS}]
    for head in range(shape.kv_heads):
        records.append({"kind": AccessKind.KV_K, "head": head})
        if head:
            records.append({"kind": AccessKind.KV_V, "head": head - 1})
    records += [{"kind": AccessKind.KV_V, "head": shape.kv_heads - 1},
                {"kind": AccessKind.VECTOR, "beat": VECTOR_BEAT, "beats": VECTOR_BEATS}]
    return [{**record, "position": position} for record in records]


def layer_beats(cache, memory, layer, tokens):
    """What the slice must receive for a layer: scale beats with masks, data beats."""
    full = (1 << 256) - 1
    weights = [memory.beats.setdefault(WEIGHTS_BEAT + n, n + 1) for n in range(WEIGHTS_BEATS)]
    scales = [(weights[0], full), (weights[5], full)]
    data = weights[1:5] + weights[6:]
    heads = cache.shape.kv_heads
    for head in range(heads + 1):
        if head < heads:
            exponents, keys = cache.keys(layer, head, tokens)
            scales += exponents
            data += keys
        if head:
            data += cache.values(layer, head - 1, tokens)
    return scales, data + [memory.beats.setdefault(VECTOR_BEAT + n, n + 100) for n in range(VECTOR_BEATS)]


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def steps(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    channels, channel, first = args["channels"], args["channel"], args["first"]
    shape = KvShape(args["layers"], args["kv_heads"], args["head_blocks"], config.page_slots)
    slots = (first + args["steps"]) // channels + 1
    pages = -(-slots // shape.page_slots)
    physical = rng.sample(range(shape.layers * pages * 2), shape.layers * pages)
    cache = KvCache(shape, [physical[layer::shape.layers] for layer in range(shape.layers)])

    def older(token):
        return token // channels + (channel < token % channels)

    for layer in range(shape.layers):
        for slot in range(older(first)):
            cache.store(layer, slot, Newest.random(shape, rng))

    def readable(beat):
        return beat in cache.allowed or beat < 1 << 14

    memory = ChannelMemory(dut, rng, credits=config.fifo_beats, beats=dict(cache.beats), readable=readable,
                           stall=args["memory_stall"], lazy=args.get("lazy", True))
    records = Source(dut, "records", layout=ReaderRecord(config), stall=args["source_stall"], rng=rng)
    data = Sink(dut, "data", stall=args["sink_stall"], rng=rng)
    scales = Sink(dut, "scales", stall=args["sink_stall"], rng=rng)
    others = [Source(dut, f"{name}_write__beats", layout=WRITE, stall=0.95, rng=rng) for name in ("host", "logit")]
    operands = Operands(dut, config, rng)
    host = HostReader(dut, rng, 0.95)
    await start(dut, channel=channel, geometry=pack(Geometry(config), shape.geometry()))

    elsewhere = [{"beat": (1 << 20) + n, "data": rng.getrandbits(256)} for n in range(30)]
    for n, write in enumerate(elsewhere):
        others[n % 2].send(write)
    tokens = range(first, first + args["steps"])
    for token in tokens:
        position = {"slot": token // channels, "channel": token % channels}
        for layer in range(shape.layers):
            records.send(*layer_records(shape, layer, position))

    host_reads = [{"beat": HOST_BEAT + 8 * n, "last": rng.randrange(8)} for n in range(20)]
    host.source.send(*host_reads)

    want_data, want_scales = [], []
    for token in tokens:
        dut.position.value = pack(Position(config), {"slot": token // channels, "channel": token % channels})
        for layer in range(shape.layers):
            await data.wait(len(want_data) + 5)
            newest = Newest.random(shape, rng)
            layer_scales, layer_data = layer_beats(cache, memory, layer, older(token))
            want_scales += layer_scales
            want_data += layer_data
            await operands.newest(shape, newest)
            if token % channels == channel:
                cache.store(layer, token // channels, newest)
            await data.wait(len(want_data))
    await scales.wait(len(want_scales))
    assert data.items == want_data
    for n, (got, (want, mask)) in enumerate(zip(scales.items, want_scales, strict=True)):
        assert got & mask == want, f"scale beat {n}"

    for _ in range(1000):
        busy = host.source.pending + sum(source.pending for source in others)
        if dut.idle.value and dut.write__idle.value and not busy:
            break
        await RisingEdge(dut.clk)
        memory.drain_all = True
    await ClockCycles(dut.clk, 60)
    assert host.got == [memory.beats[r["beat"] + n] for r in host_reads for n in range(r["last"] + 1)]
    assert dut.idle.value, "the KV writer is not done"
    wrong = [beat for beat, value in cache.beats.items() if memory.beats.get(beat) != value]
    assert not wrong, f"{len(wrong)} of {len(cache.beats)} beats differ, first {wrong[0]:#x}"
    for write in elsewhere:
        assert memory.beats[write["beat"]] == write["data"]
    assert memory.credits == config.fifo_beats, "credits lost"
    owned = sum(token % channels == channel for token in tokens)
    per_head = 2 * shape.head_blocks + 2
    assert len(memory.written) == owned * shape.layers * shape.kv_heads * per_head + len(elsewhere)


@cocotb.test(timeout_time=20, timeout_unit="us")
async def page_rate(dut):
    """Pages and heads follow each other a chunk a clock."""
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    shape = KvShape(1, 2, 1, config.page_slots)
    pages = 14
    tokens = pages * shape.page_slots - 1
    cache = KvCache(shape, [rng.sample(range(100), pages)])
    for slot in range(tokens):
        cache.store(0, slot, Newest.random(shape, rng))
    memory = ChannelMemory(dut, rng, credits=config.fifo_beats, beats=cache.beats)
    records = Source(dut, "records", layout=ReaderRecord(config))
    data = Sink(dut, "data")
    Sink(dut, "scales")
    await start(dut, geometry=pack(Geometry(config), shape.geometry()), host_read__command__valid=0)
    position = {"slot": tokens, "channel": 0}
    records.send({"kind": AccessKind.TABLE, "beat": cache.table_beat(0), "position": position},
                 *({"kind": kind, "head": 0, "position": position} for kind in (AccessKind.KV_K, AccessKind.KV_V)))
    await data.wait(2 * tokens)
    clocks = [clock for clock, _, _ in memory.chunks[1:]]
    assert len(clocks) >= 2 * pages, "a page across 128 beats makes two chunks"
    assert clocks == list(range(clocks[0], clocks[0] + len(clocks)))
