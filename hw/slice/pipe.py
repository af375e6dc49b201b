"""Pieces of the slice's free-running pipeline: delay lines, rounding shifts, room in a queue."""

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LANE", "WORD", "Credits", "added", "delayed", "extended", "round_shift", "rounded"]

LANE = signed(32)
"""Shape of codes, operands, products and their sums. Wider than the numbers, because a simulator has nothing to mask
at 32 bits (that is most of the pool's time); synthesis drops the copies of a sign bit.
"""

WORD = signed(64)
"""The same for numbers of more than 32 bits."""


def extended(value, shape=LANE):
    """*value*, narrower than *shape*, in *shape*. A sum with zero, because it is written as one extension rather
    than as a bit list.
    """
    return value + Const(0, signed(shape.width - 1))


def added(values, shape=LANE):
    """Sum of *values* of *shape* in *shape*, pairwise; they leave room for it."""
    while len(values) > 1:
        pairs = [values[n:n + 2] for n in range(0, len(values), 2)]
        values = [(pair[0] + pair[1])[:shape.width].as_signed() if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def delayed(m, value, clocks, name, *, reset=False):
    """*value* after *clocks* registers; with *reset* they start at 0 (for valid bits), without they keep data."""
    value = Value.cast(value)
    for n in range(clocks):
        register = Signal(value.shape(), reset_less=not reset, name=f"{name}_{n + 1}")
        m.d.sync += register.eq(value)
        value = register
    return value


def round_shift(m, value, shift, name):
    """*value* >> *shift* to nearest even in two steps: registers (floor, half, rest) one clock later, then
    :func:`rounded`.

    ``value`` is a Signal of at most 2^len(shift) bits; of a signed one, the bits that differ are one less than the
    largest shift.
    """
    width = 1 << len(shift)
    ones = Const((1 << width - 1) - 1, width)
    floor = Signal(value.shape(), name=f"{name}_floor", reset_less=True)
    half = Signal(name=f"{name}_half", reset_less=True)  # the highest bit that is lost
    rest = Signal(name=f"{name}_rest", reset_less=True)  # any bit below it
    m.d.sync += [
        floor.eq(value >> shift),
        half.eq((value & ((ones >> ~shift) ^ (ones >> ~shift >> 1))) != 0),
        rest.eq((value & (ones >> ~shift >> 1)) != 0),
    ]
    return floor, half, rest


def rounded(floor, half, rest):
    """The bit to add to *floor*."""
    return half & (rest | floor[0])


class Credits(Component):
    """Room in a queue at the end of a pipeline: ``free`` while fewer than ``depth`` items are promised or held.

    ``take`` promises an item, ``give`` frees one.
    """

    free: Out(1)
    take: In(1)
    give: In(1)

    def __init__(self, depth):
        self._depth = depth
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        used = Signal(range(self._depth + 1))
        m.d.sync += used.eq(used + self.take - self.give)
        m.d.comb += self.free.eq(used != self._depth)
        return m
