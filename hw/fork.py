"""Stream plumbing shared by the blocks: a fork to many receivers and a short queue."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Fork", "Queue"]


class Fork(Component):
    """One stream to ``count`` receivers; each takes every item once, in its own time.

    The input is taken in the clock in which the last receiver takes it. Latency 0; one item a clock when all are ready.

    Members: ``i`` the input; ``o`` the outputs, an array of ``count`` streams.
    """

    def __init__(self, shape, count):
        self._count = count
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)).array(count)})

    def elaborate(self, platform):
        m = Module()
        done = Signal(self._count)
        took = Signal(self._count)
        for n, o in enumerate(self.o):
            m.d.comb += [
                o.valid.eq(self.i.valid & ~done[n]),
                o.payload.eq(self.i.payload),
                took[n].eq(done[n] | o.ready),
            ]
        m.d.comb += self.i.ready.eq(took.all())
        with m.If(self.i.valid):
            m.d.sync += done.eq(Mux(took.all(), 0, took))
        return m


class Queue(Component):
    """A short first-in first-out queue in registers or LUT RAM.

    An item is visible at the output in the clock after it is taken in; one item a clock.

    Parameters: ``shape`` of the payload; ``depth``, a power of two. Members: ``i``, ``o``; ``level``, the items held.
    """

    def __init__(self, shape, depth):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"queue depth is {depth}; it must be a power of two, 2 or more")
        self._shape = shape
        self._depth = depth
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(shape)),
            "level": Out(range(depth + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        write = memory.write_port()
        read = memory.read_port(domain="comb")
        head, tail = Signal(range(self._depth)), Signal(range(self._depth))
        push, pop = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != self._depth),
            self.o.valid.eq(self.level != 0),
            push.eq(self.i.valid & self.i.ready),
            pop.eq(self.o.valid & self.o.ready),
            write.addr.eq(tail), write.data.eq(self.i.payload), write.en.eq(push),
            read.addr.eq(head), self.o.payload.eq(read.data),
        ]
        m.d.sync += [tail.eq(tail + push), head.eq(head + pop), self.level.eq(self.level + push - pop)]
        return m
