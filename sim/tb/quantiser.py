"""Bench of the quantiser: operands of awkward blocks with random gaps, against the golden blocks."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from hw.interfaces import NewestKind
from hw.isa import Region
from sim.bench import bench_args
from sim.golden import block, fp32
from sim.streams import signed, start

FIELDS = ("kind", "region", "row", "address", "last", "exponent", "sum", "mantissas")


def awkward_block(rng, bits):
    """32 bit patterns: spread exponents, ties, values that saturate, zeros, subnormals, the extremes."""
    top = rng.choice([1, 2, 10, 127, 200, 254])
    kind = rng.randrange(6)
    block_bits = []
    for _ in range(32):
        below = rng.choice([0, 0, 1, 2, 5, bits - 2, bits - 1, bits, bits + 1, 24, 40, 300])
        exponent = max(0, top - (0 if kind == 0 else below))
        kept = max(0, bits - 2 - (top - exponent))  # fraction bits above the block's last place
        fraction = rng.choice([
            rng.getrandbits(23),
            0x7FFFFF,  # saturates with the largest exponent
            (rng.getrandbits(kept) if kept else 0) << (23 - kept) | 1 << (22 - kept) if kept < 23 else 0,  # a tie
            0,
        ])
        sign = rng.getrandbits(1) if kind != 1 else 0
        block_bits.append(sign << 31 | exponent << 23 | fraction & 0x7FFFFF)
    if kind == 2:
        block_bits = [word & 0x807FFFFF for word in block_bits]  # zeros and subnormals only
    if kind == 3:
        block_bits = [word & 1 << 31 | (top << 23 | 0x7FFFFF) for word in block_bits]  # all saturate
    return block_bits


def expected_blocks(operand, args):
    """OperandBus values of one operand in order."""
    kind = NewestKind[operand["kind"]]
    bits = args["bits"] if kind in (NewestKind.OPERAND, NewestKind.QUERY) else block.KV_BITS
    blocks = block.quantise(fp32.from_bits(np.array(operand["words"], np.uint32)), bits)
    passes = -(-args["group"] // args["v_kv"])
    for n in range(blocks.exponents.size):
        row, address = 0, n
        if kind is NewestKind.QUERY:
            head, part = divmod(n, args["head_blocks"])
            kv_head, member = divmod(head, args["group"])
            row = member % args["v_kv"]
            address = (kv_head * passes + member // args["v_kv"]) * args["head_blocks"] + part
        yield {"kind": kind.value, "region": operand["region"], "row": row, "address": address,
               "last": int(n == blocks.exponents.size - 1), "exponent": int(blocks.exponents[n]),
               "sum": int(blocks.sums[n]), "mantissas": blocks.mantissas[n].tolist()}


async def collect(dut, bits, blocks, largest):
    clock = 0
    while True:
        await RisingEdge(dut.clk)
        clock += 1
        if not dut.bus__valid.value:
            continue
        values = {name: int(getattr(dut, f"bus__{name}").value) for name in FIELDS}
        values["sum"] = signed(values["sum"], bits + 5)
        values["mantissas"] = [signed(values["mantissas"] >> (bits * n), bits) for n in range(32)]
        blocks.append((clock, values))
        largest.append(int(dut.largest.value))


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def equals_golden(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    lanes, bits = args["lanes"], args["bits"]
    heads = args["kv_heads"] * args["group"] * args["head_blocks"]
    operands = []
    for _ in range(args["operands"]):
        kind = rng.choice(["OPERAND", "OPERAND", "QUERY", "KEY", "VALUE"])
        count = {"OPERAND": rng.randint(1, 12), "QUERY": heads}.get(kind, args["kv_heads"] * args["head_blocks"])
        operands.append({"kind": kind, "region": rng.randrange(3) if kind == "OPERAND" else Region.QUERY.value,
                         "words": sum((awkward_block(rng, bits) for _ in range(count)), [])})

    got, largest = [], []
    await start(dut, i__valid=0, group=args["group"], head_blocks=args["head_blocks"])
    cocotb.start_soon(collect(dut, bits, got, largest))
    clock, ends = 0, []
    for operand in operands:
        words = operand["words"]
        for n in range(0, len(words), lanes):
            while rng.random() < args["gaps"]:
                dut.i__valid.value = 0
                await RisingEdge(dut.clk)
                clock += 1
            dut.i__valid.value = 1
            dut.i__last.value = int(n + lanes == len(words))
            dut.i__values.value = sum(word << (32 * k) for k, word in enumerate(words[n:n + lanes]))
            dut.kind.value, dut.region.value = NewestKind[operand["kind"]].value, operand["region"]
            await RisingEdge(dut.clk)
            clock += 1
            if (n + lanes) % 32 == 0:
                ends.append(clock)
    dut.i__valid.value = 0
    for _ in range(20):
        await RisingEdge(dut.clk)

    expected = [values for operand in operands for values in expected_blocks(operand, args)]
    for n, ((_, values), want) in enumerate(zip(got, expected, strict=False)):
        assert values == want, f"block {n}:\n{values}\ngolden\n{want}"
    assert len(got) == len(expected)
    assert [came - end for (came, _), end in zip(got, ends, strict=True)] == [args["latency"]] * len(ends)
    check_largest(got, largest)


def check_largest(got, largest):
    """The output changes with an operand's last block, to the largest exponent of its region."""
    running, known = {}, [0] * len(Region)
    for (_, values), output in zip(got, largest, strict=True):
        if values["kind"] == NewestKind.OPERAND.value:
            region = values["region"]
            running[region] = max(running.get(region, 0), values["exponent"])
            if values["last"]:
                known[region] = running.pop(region)
        assert [output >> (8 * n) & 0xFF for n in range(len(known))] == known
