"""Bench of the arithmetic units: operands with gaps through every unit at once, against the golden model."""

import random

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from sim.bench import bench_args
from sim.golden import fp32, functions
from sim.streams import start

SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800000, 0x00800001, 0x00FFFFFF, 0x01000000,
           0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x4B800000, 0x4B7FFFFF, 0x4B000001, 0x33800000, 0xB3800000,
           0x33800001, 0x34000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F000000, 0x20000000, 0x1FFFFFFF, 0x5F800000, 0x42FC0000,
           0xC2FC0000, 0xC2FBFFFF, 0x42FE0000, 0xC3000000, 0x36800000, 0x37000000, 0x36FFFFFF, 0xB7C00000]
"""Zeros, the flush border, ones, 2^24 (ties), the largest values, square roots of the flush border, limits of exp2."""


def pairs(rng, count):
    """Bit patterns (a, b): all pairs of special ones, near and far magnitudes, cancellations, ties, tiny products."""
    cases = [(a, b) for a in SPECIAL for b in SPECIAL]
    while len(cases) < count:
        a = rng.getrandbits(32)
        a = a & ~(0xFF << 23) | rng.randint(0, 254) << 23
        exponent = a >> 23 & 0xFF
        kind = rng.randrange(6)
        if kind == 0:
            b_exponent = rng.randint(0, 254)
        elif kind in (1, 2):
            b_exponent = exponent + rng.randint(-27, 27)
        elif kind == 3:
            b_exponent = 127 - exponent + rng.randint(-1, 2)  # products near 2^-126
        elif kind == 4:
            b_exponent = exponent + rng.randint(-1, 1)
        else:
            b_exponent = rng.randint(120, 134)
        one = 1 << rng.randrange(23)
        fraction = rng.choice([rng.getrandbits(23), one, (1 << 23) - one, a & 0x7FFFFF])
        b = rng.getrandbits(1) << 31 | min(max(b_exponent, 0), 254) << 23 | fraction
        cases.append((a, b) if rng.getrandbits(1) else (b, a))
    return np.array(cases, np.uint32)


def integers(rng, count, width):
    """(value, exponent) of all lengths, with ties of the rounding and results round 2^-126."""
    limit = 1 << (width - 1)
    cases = [(v, e) for v in (0, 1, -1, limit - 1, -limit, 1 - limit) for e in (-400, -150, -149, -127, -126, 0, 60)]
    while len(cases) < count:
        length = rng.randrange(1, width)
        value = rng.getrandbits(length) | 1 << (length - 1)
        if rng.getrandbits(1) and length > 25:
            value = value >> (length - 24) << (length - 24) | 1 << (length - 25)  # a tie
            value += rng.choice([0, 0, 1, -1])
        exponent = rng.randint(-90, 40) if rng.getrandbits(1) else -126 - length + rng.randint(-2, 3)
        cases.append((-value if rng.getrandbits(1) else value, exponent))
    return np.array(cases, np.int64)


class Monitor:
    """Collects results of one unit, *latency* clocks behind its operands."""

    def __init__(self, output, latency):
        self.output, self.latency = output, latency
        self.bits, self.errors = [], []

    def sample(self, clock, issued):
        if issued.get(clock - self.latency):
            self.bits.append(int(self.output.value))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def equals_golden(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    count = args["count"]
    ab, numbers = pairs(rng, count), integers(rng, count, args["width"])
    positive = ab[:, 0] & 0x7FFFFFFF
    monitors = {name: Monitor(getattr(dut, f"{name}__o"), latency) for name, latency in args["latency"].items()}
    errors = {name: [] for name in ("add", "mul", "fp", "rcp", "rsqrt")}
    await start(dut, valid=0)
    issued, clock, sent, last = {}, 0, 0, 0
    while sent < count or clock < last + 8:
        go = sent < count and rng.random() < 0.9
        if go:
            dut.a.value, dut.b.value = int(ab[sent, 0]), int(ab[sent, 1])
            dut.value.value = int(numbers[sent, 0]) & (1 << args["width"]) - 1
            dut.exponent.value = int(numbers[sent, 1]) & 0xFFF
            issued[clock], last = True, clock
            sent += 1
        dut.valid.value = go
        await RisingEdge(dut.clk)
        for name, monitor in monitors.items():
            monitor.sample(clock, issued)
            if name in errors and issued.get(clock - monitor.latency):
                errors[name].append(int(getattr(dut, f"{name}__error").value))
            elif name in errors:
                assert not getattr(dut, f"{name}__error").value, f"{name}: error without a valid result"
        clock += 1
    a, b, x = fp32.from_bits(ab[:, 0]), fp32.from_bits(ab[:, 1]), fp32.from_bits(positive)
    usable = positive >= 0x00800000
    with np.errstate(over="ignore", divide="ignore"):
        expected = {
            "add": (fp32.add(a, b), None),
            "mul": (fp32.mul(a, b), None),
            "fp": (fp32.fp(numbers[:, 0], numbers[:, 1]), None),
            "rcp": (functions.rcp(np.where(usable, x, 1)), usable),
            "rsqrt": (functions.rsqrt(np.where(usable, x, 1)), usable),
            "exp2": (functions.exp2(a), None),
        }
    for name, (values, mask) in expected.items():
        finite = np.isfinite(values) if mask is None else mask
        got = np.array(monitors[name].bits, np.uint32)
        want = fp32.to_bits(values)
        assert len(got) == count
        wrong = np.flatnonzero((got != want) & finite)
        assert not wrong.size, (f"{name}: {wrong.size} wrong; first {ab[wrong[0]]} {numbers[wrong[0]]}: "
                                f"{got[wrong[0]]:#x}, golden {want[wrong[0]]:#x}")
        if name in errors:
            assert np.array_equal(np.array(errors[name], bool), ~finite), f"{name}: error flag"
        cocotb.log.info("%s: %d results, %d not finite", name, count, (~finite).sum())
