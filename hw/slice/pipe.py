"""Pieces of the slice's free-running pipeline: delay lines, rounding shifts, room in a queue."""

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Credits", "delayed", "round_shift"]


def delayed(m, value, clocks, name, *, reset=False):
    """*value* after *clocks* registers; with *reset* they start at 0 (for valid bits), without they keep data."""
    value = Value.cast(value)
    for n in range(clocks):
        register = Signal(value.shape(), reset_less=not reset, name=f"{name}_{n + 1}")
        m.d.sync += register.eq(value)
        value = register
    return value


def round_shift(m, value, shift, name):
    """(floor, up) of *value* >> *shift* rounded to nearest even: the result is floor + up. Combinational.

    ``value`` is a Signal of at most 2^len(shift) - 1 bits, sign included.
    """
    limit = (1 << len(shift)) - 1
    floor = Signal(value.shape(), name=f"{name}_shifted")
    up = Signal(name=f"{name}_round_up")
    below = Signal(limit, name=f"{name}_below")  # ones at the bits that the shift drops
    under = Signal(limit, name=f"{name}_under")  # the same without the highest of them
    lost = Signal(limit, name=f"{name}_lost")
    m.d.comb += [
        floor.eq(value >> shift),
        below.eq(Const((1 << limit) - 1, limit) >> ~shift),
        under.eq(below >> 1),
        lost.eq(value & below),
        up.eq((lost & (below ^ under)).any() & ((lost & under).any() | floor[0])),
    ]
    return floor, up


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
