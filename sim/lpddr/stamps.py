"""Times of last events, and the commands of a clock by kind."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.memory import Memory

__all__ = ["TIME_BITS", "Clock", "Kind", "Stamp", "StampTable"]

TIME_BITS = 32
"""Times are in CK, modulo 2**32; differences are taken modulo 2**32."""

_START = 1 << 30
"""Time at power-up: everything before is long ago."""


class Clock:
    """The running time; phase is bit 0. It goes on in reset, so that what tables hold from before stays in the past."""

    def __init__(self, m: Module):
        self._clock = Signal(TIME_BITS - 1, init=_START // 2, reset_less=True)
        m.d.sync += self._clock.eq(self._clock + 1)

    def time(self, late):
        return Cat(late, self._clock)


class Kind:
    """Commands of one kind in a clock. Two of them break a rule at once (tCCD_S, tPPD and so on): the first counts.

    ``present``; ``late``: it is in phase 1; ``first``: it is in phase 0; ``twice``; ``time`` in CK; operands with
    :meth:`pick`.
    """

    def __init__(self, m: Module, name, clock: Clock, first, second):
        self._m, self._name = m, name
        self.present, self.late, self.twice = (Signal(name=f"{name}_{n}") for n in ("present", "late", "twice"))
        self.first = Signal(name=f"{name}_first")
        self.time = Signal(TIME_BITS, name=f"{name}_time")
        m.d.comb += [
            self.first.eq(first), self.present.eq(first | second), self.late.eq(~first), self.twice.eq(first & second),
            self.time.eq(clock.time(self.late)),
        ]

    def pick(self, name, first, second):
        """The operand *first* or *second* of the phase that the command is in."""
        value = Signal.like(first, name=f"{self._name}_{name}")
        self._m.d.comb += value.eq(Mux(self.late, second, first))
        return value

    def after(self, other):
        """*other* is in phase 0 and this in phase 1: one CK between them."""
        return self.present & self.late & other.first


class Stamp:
    """Time of the last event of a kind, from the next clock on."""

    def __init__(self, m: Module, name, happens, time):
        self.value = Signal(TIME_BITS, name=name)
        with m.If(happens):
            m.d.sync += self.value.eq(time)

    def soon(self, time, limit):
        """The event is less than *limit* CK before *time*."""
        return (time - self.value)[:TIME_BITS] < limit


class StampTable:
    """A :class:`Stamp` for each of *depth* banks, pairs or groups."""

    def __init__(self, m: Module, name, depth, happens, index, time):
        self._m = m
        self._memory = Memory(shape=TIME_BITS, depth=depth, init=[])
        m.submodules[name] = self._memory
        port = self._memory.write_port()
        m.d.comb += [port.addr.eq(index), port.data.eq(time), port.en.eq(happens)]

    def age(self, time, index):
        """CK from the last event of *index* to *time*."""
        port = self._memory.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(index)
        return (time - port.data)[:TIME_BITS]

    def soon(self, time, index, limit):
        return self.age(time, index) < limit
