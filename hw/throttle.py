"""Random stalls in a stream, to show that no result depends on timing."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect

__all__ = ["Throttle", "link"]


class Throttle(Component):
    """Passes a stream on, but holds items back: in 5 of 8 clocks, pseudo-randomly, no new item is offered.

    An item that has been offered stays. Latency 0 otherwise. ``seed`` (1 to 65535) starts a 16-bit Fibonacci shift
    register with taps 16, 15, 13, 4; ``salt`` makes equal modules differ.
    """

    def __init__(self, shape, seed):
        if not 1 <= seed <= 0xFFFF:
            raise ValueError(f"throttle seed is {seed}; it must be 1 to 65535")
        self._seed = seed
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "salt": In(3)})

    def elaborate(self, platform):
        m = Module()
        state = Signal(16, init=self._seed)
        offered, open_ = Signal(), Signal()
        m.d.sync += state.eq(Cat(state[15] ^ state[14] ^ state[12] ^ state[3], state[:15]))
        m.d.comb += [
            open_.eq(offered | ((state[5:8] ^ self.salt) < 3)),
            self.o.valid.eq(self.i.valid & open_),
            self.o.payload.eq(self.i.payload),
            self.i.ready.eq(self.o.ready & open_),
        ]
        m.d.sync += offered.eq(self.o.valid & ~self.o.ready)
        return m


def link(m, source, sink, seed=0, salt=0):
    """Connect two streams; with a *seed* above 0, through a :class:`Throttle`."""
    if not seed:
        connect(m, source, sink)
        return
    stage = Throttle(source.signature.members["payload"].shape, seed)
    m.submodules += stage
    m.d.comb += stage.salt.eq(salt)
    connect(m, source, stage.i)
    connect(m, stage.o, sink)
