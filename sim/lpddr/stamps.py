"""Times of last events, seen by two command phases of one clock in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory

__all__ = ["TIME_BITS", "Stamp", "StampTable"]

TIME_BITS = 32
"""Times are in CK, modulo 2**32; differences are taken modulo 2**32."""


class Stamp:
    """Time of the last event of a kind. ``seen(phase)`` includes an event in an earlier phase of the same clock.

    Events of phase 0 are declared before ``seen(1)`` is used.
    """

    def __init__(self, m: Module, name, times, init=0):
        self._m = m
        self._name = name
        self._times = times
        self._value = Signal(TIME_BITS, name=name, init=init)
        self._first = None

    def event(self, phase, happens):
        with self._m.If(happens):
            self._m.d.sync += self._value.eq(self._times[phase])
        if phase == 0:
            self._first = happens

    def seen(self, phase):
        if phase == 0 or self._first is None:
            return self._value
        seen = Signal(TIME_BITS, name=f"{self._name}_seen")
        self._m.d.comb += seen.eq(Mux(self._first, self._times[0], self._value))
        return seen


class StampTable:
    """A :class:`Stamp` for each of *depth* banks or groups; one is read and one written in each phase."""

    def __init__(self, m: Module, name, times, depth):
        self._m = m
        self._name = name
        self._times = times
        self._memory = Memory(shape=TIME_BITS, depth=depth, init=[])
        m.submodules[name] = self._memory
        self._first = None

    def event(self, phase, happens, index):
        port = self._memory.write_port()
        self._m.d.comb += [port.addr.eq(index), port.data.eq(self._times[phase]), port.en.eq(happens)]
        if phase == 0:
            self._first = (happens, index)

    def seen(self, phase, index, name=""):
        port = self._memory.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(index)
        if phase == 0 or self._first is None:
            return port.data
        happened, where = self._first
        seen = Signal(TIME_BITS, name=f"{self._name}{name}_seen")
        self._m.d.comb += seen.eq(Mux(happened & (where == index), self._times[0], port.data))
        return seen

    def read(self, index):
        """The stored value, without this clock's events."""
        port = self._memory.read_port(domain="comb")
        self._m.d.comb += port.addr.eq(index)
        return port.data
