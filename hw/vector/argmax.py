"""Index of the largest logit; ties, and zeros of either sign, go to the lowest index."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Component, In, Out

from hw.vector.pipe import delay, delay_valid

__all__ = ["ArgMax"]

LOWEST = -(1 << 31)


class ArgMax(Component):
    """Takes groups of ``lanes`` logits of rising index, of which the first ``count`` are real; one group a clock.

    ``done`` is high for one clock, LATENCY clocks after the ``last`` group, with ``index``. The next record may follow
    at once.
    """

    LATENCY = 3

    def __init__(self, lanes, index_bits):
        self._lanes = lanes
        super().__init__({
            "valid": In(1),
            "last": In(1),
            "count": In(range(lanes + 1)),
            "values": In(ArrayLayout(32, lanes)),
            "done": Out(1),
            "index": Out(index_bits),
        })

    def elaborate(self, platform):
        m = Module()
        # Signed keys in the order of the logits: magnitude, negated below zero.
        keys = []
        for n in range(self._lanes):
            key = Signal(signed(32), name=f"key_{n}", reset_less=True)
            magnitude = self.values[n][:31]
            m.d.sync += key.eq(Mux(self.count > n, Mux(self.values[n][31], -magnitude, magnitude), LOWEST))
            keys.append((key, Const(n, range(max(2, self._lanes)))))
        while len(keys) > 1:
            keys = [self._larger(m, keys[n], keys[n + 1], f"{len(keys)}_{n}") for n in range(0, len(keys), 2)]
        key, lane = (delay(m, value, 1, name) for value, name in zip(keys[0], ("group_key", "group_lane"), strict=True))
        valid = delay_valid(m, self.valid, 2, "valid")
        last = delay_valid(m, self.valid & self.last, 2, "last")

        base = Signal(len(self.index))
        best = Signal(signed(32), init=LOWEST)  # below any logit
        index = Signal(len(self.index))
        better = Signal()
        m.d.comb += [better.eq(valid & (key > best)), self.index.eq(index)]
        with m.If(valid):
            m.d.sync += base.eq(Mux(last, 0, base + self._lanes))
        with m.If(better | last):
            m.d.sync += best.eq(Mux(last, LOWEST, key))
        with m.If(better):
            m.d.sync += index.eq(base + lane)
        m.d.sync += self.done.eq(last)
        return m

    def _larger(self, m, left, right, name):
        """The later (key, lane) only if strictly larger."""
        later = Signal(name=f"later_{name}")
        key, lane = Signal(signed(32), name=f"key_{name}"), Signal(range(max(2, self._lanes)), name=f"lane_{name}")
        m.d.comb += [
            later.eq(right[0] > left[0]),
            key.eq(Mux(later, right[0], left[0])),
            lane.eq(Mux(later, right[1], left[1])),
        ]
        return key, lane
