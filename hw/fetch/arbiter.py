"""Write arbiter: several writers on one channel's write port."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.interfaces import write_signature

__all__ = ["WriteArbiter"]


class WriteArbiter(Component):
    """Merges ``count`` write ports; of two in the same clock the lower number goes first.

    Latency one clock, a beat a clock.

    ``idle`` of every writer is low while any accepted beat is on its way.

    Members: ``i``, the writers; ``o``, to the controller.
    """

    def __init__(self, count):
        self._count = count
        super().__init__({"i": In(write_signature()).array(count), "o": Out(write_signature())})

    def elaborate(self, platform):
        m = Module()
        room, idle = Signal(), Signal()
        m.d.comb += [
            room.eq(~self.o.beats.valid | self.o.beats.ready),
            idle.eq(self.o.idle & ~self.o.beats.valid),
        ]
        with m.If(room):
            m.d.sync += self.o.beats.valid.eq(0)
        wanted = Signal(self._count)
        for n, port in enumerate(self.i):
            m.d.comb += [
                wanted[n].eq(port.beats.valid),
                port.idle.eq(idle),
                port.beats.ready.eq(room & ~wanted[:n].any()),
            ]
            with m.If(port.beats.valid & port.beats.ready):
                m.d.sync += [self.o.beats.valid.eq(1), self.o.beats.payload.eq(port.beats.payload)]
        return m
