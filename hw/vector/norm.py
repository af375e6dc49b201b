"""Sum of squares in the law's order, and 1/rms from it: docs/numerics.md section 5."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK
from hw.vector.fp32 import Adder, Multiplier
from hw.vector.functions import InverseRoot
from hw.vector.pipe import delay, delay_valid, groups

__all__ = ["InverseRms", "SumOfSquares"]


class FoldOrder(Component):
    """Which partial sums to add in each clock of a fold, from the clock after ``start``.

    Lane l keeps the partial sums l, l + lanes, ...: levels wider than the lanes stay inside a lane and add ``place +
    half`` to ``place``; then ``half`` is 0 and lane l takes the first sum of lane l + ``stride``. A level starts when
    the first results that it needs are written. ``final`` is high with the last ``step``, :attr:`latency` clocks after
    ``start``.
    """

    def __init__(self, lanes):
        halves = [BLOCK >> n for n in range(1, BLOCK.bit_length())]
        self._levels = [(half // lanes, 0) if half >= lanes else (0, half) for half in halves]
        super().__init__({
            "start": In(1),
            "busy": Out(1),
            "step": Out(1),
            "place": Out(range(BLOCK // lanes)),
            "half": Out(range(BLOCK // lanes)),
            "stride": Out(range(max(2, lanes))),
            "final": Out(1),
        })

    @staticmethod
    def _wait(half):
        return max(0, Adder.LATENCY + 1 - max(1, half))

    @property
    def latency(self):
        return sum(self._wait(half) + max(1, half) for half, _ in self._levels)

    def elaborate(self, platform):
        m = Module()
        wait = Signal(range(Adder.LATENCY + 1))
        m.d.comb += self.step.eq(self.busy & (wait == 0))

        def enter(half, stride):
            return [self.half.eq(half), self.stride.eq(stride), self.place.eq(0), wait.eq(self._wait(half))]

        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), *enter(*self._levels[0])]
        with m.Elif(self.step):
            m.d.sync += self.place.eq(self.place + 1)
            for (half, stride), following in zip(self._levels, [*self._levels[1:], None], strict=True):
                with m.If((self.half == half) & (self.stride == stride) & (self.place == max(1, half) - 1)):
                    if following is None:
                        m.d.comb += self.final.eq(1)
                        m.d.sync += self.busy.eq(0)
                    else:
                        m.d.sync += enter(*following)
        return m


class SumOfSquares(Component):
    """32 partial sums of squares, folded in halves after the ``last`` group.

    Takes a group a clock; the next record may start after ``done``. ``done`` is high for one clock, with the sum in
    ``o``, :attr:`latency` clocks after ``last``.
    """

    def __init__(self, lanes):
        if lanes > 4:
            raise ValueError(f"{lanes} lanes come back to a partial sum before the adder has it; the most is 4")
        self._lanes = lanes
        self._order = FoldOrder(lanes)
        super().__init__({"i": In(groups(lanes)), "done": Out(1), "o": Out(32), "error": Out(1)})

    @property
    def latency(self):
        return Multiplier.LATENCY + self._order.latency + Adder.LATENCY

    def elaborate(self, platform):
        m = Module()
        lanes, depth = self._lanes, BLOCK // self._lanes
        m.submodules.order = order = self._order
        valid = delay_valid(m, self.i.valid, Multiplier.LATENCY, "valid")
        last = delay_valid(m, self.i.valid & self.i.last, Multiplier.LATENCY, "last")

        # The first round adds to 0.
        index, first = Signal(range(depth)), Signal(init=1)
        address = Signal(range(depth))
        m.d.comb += [order.start.eq(last), address.eq(Mux(order.busy, order.place, index))]
        with m.If(valid):
            m.d.sync += [index.eq(index + 1), first.eq(first & (index != depth - 1) & ~last)]
        with m.If(order.final):
            m.d.sync += first.eq(1)
        written = delay(m, address, Adder.LATENCY, "written")
        write = delay_valid(m, valid | order.step, Adder.LATENCY, "write")

        units, near, far = [], [], []
        errors = Signal(2 * lanes)
        for n in range(lanes):
            m.submodules[f"square_{n}"] = square = Multiplier()
            m.submodules[f"sum_{n}"] = adder = Adder()
            m.submodules[f"partial_{n}"] = partial = Memory(shape=32, depth=depth, init=[])
            store, own = partial.write_port(), partial.read_port(domain="comb")
            other = partial.read_port(domain="comb")
            units.append((square, adder))
            near.append(own.data)
            far.append(other.data)
            m.d.comb += [
                square.valid.eq(self.i.valid), square.a.eq(self.i.values[n]), square.b.eq(self.i.values[n]),
                store.addr.eq(written), store.data.eq(adder.o), store.en.eq(write),
                own.addr.eq(address), other.addr.eq(order.place + order.half),
                errors[2 * n].eq(square.error), errors[2 * n + 1].eq(adder.error),
            ]
        for n, (square, adder) in enumerate(units):
            partner, joins = far[n], order.half != 0
            for stride in (1, 2):
                if n < stride < lanes:
                    across = order.stride == stride
                    partner, joins = Mux(across, near[n + stride], partner), joins | across
            m.d.comb += [
                adder.valid.eq(valid | (order.step & joins)),
                adder.a.eq(Mux(first, 0, near[n])),
                adder.b.eq(Mux(order.busy, partner, square.o)),
            ]
        m.d.comb += [
            self.o.eq(units[0][1].o),
            self.done.eq(delay_valid(m, order.final, Adder.LATENCY, "final")),
            self.error.eq(errors.any()),
        ]
        return m


class InverseRms(Component):
    """1/rms of each record of groups: rsqrt(RN(RN(ss * ``reciprocal``) + ``eps``)).

    ``done`` is high for one clock when it is known, :attr:`latency` clocks after ``last``. From the next clock on
    ``inverse`` holds it, and two clocks later ``query`` holds RN(``inverse`` * ``query_scale``); both stay until the
    next record's.
    """

    def __init__(self, lanes):
        self._squares = SumOfSquares(lanes)
        super().__init__({
            "i": In(groups(lanes)),
            "reciprocal": In(32),
            "eps": In(32),
            "query_scale": In(32),
            "done": Out(1),
            "inverse": Out(32),
            "query": Out(32),
            "error": Out(1),
        })

    @property
    def latency(self):
        return self._squares.latency + Multiplier.LATENCY + Adder.LATENCY + InverseRoot.LATENCY

    def elaborate(self, platform):
        m = Module()
        m.submodules.squares = squares = self._squares
        m.submodules.product = product = Multiplier()
        m.submodules.plus = plus = Adder()
        m.submodules.root = root = InverseRoot()
        mean = delay_valid(m, squares.done, Multiplier.LATENCY, "mean")
        argument = delay_valid(m, mean, Adder.LATENCY, "argument")
        inverse = delay_valid(m, argument, InverseRoot.LATENCY, "inverse_valid")
        query = delay_valid(m, inverse, Multiplier.LATENCY, "query_valid")
        m.d.comb += [
            squares.i.valid.eq(self.i.valid), squares.i.last.eq(self.i.last), squares.i.values.eq(self.i.values),
            product.valid.eq(squares.done | inverse),
            product.a.eq(Mux(inverse, root.o, squares.o)),
            product.b.eq(Mux(inverse, self.query_scale, self.reciprocal)),
            plus.valid.eq(mean), plus.a.eq(product.o), plus.b.eq(self.eps),
            root.valid.eq(argument), root.x.eq(plus.o),
            self.done.eq(inverse),
            self.error.eq(squares.error | product.error | plus.error | root.error),
        ]
        with m.If(inverse):
            m.d.sync += self.inverse.eq(root.o)
        with m.If(query):
            m.d.sync += self.query.eq(product.o)
        return m
