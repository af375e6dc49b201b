"""Abort: brings the data path back to idle while the memory controllers go on."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Abort"]

CLEAR_CLOCKS = 8
"""Clocks of reset for the readers."""


class Abort(Component):
    """Empties and resets the data path; a run may start when ``busy`` is low again.

    ``halt`` is up all the time: slices, KV writers and all that is central are in reset, readers ask for nothing more,
    and FIFOs drop what comes. When every channel is ``drained``, so that each read that a controller took has been
    answered and all credits are back, ``clear`` resets the readers. Writes that a controller took are finished. A read
    of the host that was under way is asked for again.

    It takes as long as the longest read under way: some chunks, and a refresh.

    Members: ``start`` a pulse, ignored while ``busy``; ``drained``; ``halt``; ``clear``; ``busy``.
    """

    start: In(1)
    drained: In(1)
    halt: Out(1)
    clear: Out(1)
    busy: Out(1)

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(CLEAR_CLOCKS))
        m.d.comb += self.busy.eq(self.halt)
        with m.If(~self.halt):
            m.d.sync += self.halt.eq(self.start)
        with m.Elif(~self.clear):
            m.d.sync += [self.clear.eq(self.drained), left.eq(CLEAR_CLOCKS - 1)]
        with m.Else():
            m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.d.sync += [self.halt.eq(0), self.clear.eq(0)]
        return m
