"""Random stalls in a stream, to show that no result depends on timing."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect

__all__ = ["Links", "Throttle"]


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


class Links:
    """Connects streams in *m*; with *stalls* above 0, each through a :class:`Throttle` with a seed of its own."""

    def __init__(self, m, stalls=0, salt=0):
        self._m = m
        self._stalls = stalls
        self._salt = salt
        self._count = 0

    def add(self, source, sink):
        """Connect *source* to *sink*."""
        if not self._stalls:
            connect(self._m, source, sink)
            return
        self._count += 1
        seed = (self._stalls * 7919 + self._count * 257) % 0xFFFF + 1
        stage = Throttle(source.signature.members["payload"].shape, seed)
        self._m.submodules[f"throttle_{self._count}"] = stage
        self._m.d.comb += stage.salt.eq(self._salt)
        connect(self._m, source, stage.i)
        connect(self._m, stage.o, sink)
