"""Sum of squares in the law's order, and 1/rms from it: docs/numerics.md section 5."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK
from hw.vector.fp32 import Adder, Multiplier
from hw.vector.functions import InverseRoot
from hw.vector.pipe import delay, delay_valid, groups

__all__ = ["InverseRms", "SumOfSquares"]


class SumOfSquares(Component):
    """32 partial sums of squares, folded in halves after the ``last`` group.

    Takes a group a clock; the next record may start after ``done``. ``done`` is high for one clock, with the sum in
    ``o``. Lane l keeps the partial sums l, l + lanes, ...: folds wider than the lanes stay inside a lane, the last ones
    go across.
    """

    def __init__(self, lanes):
        if lanes > 4:
            raise ValueError(f"{lanes} lanes come back to a partial sum before the adder has it; the most is 4")
        self._lanes = lanes
        super().__init__({"i": In(groups(lanes)), "done": Out(1), "o": Out(32), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        lanes, depth = self._lanes, BLOCK // self._lanes
        square_valid = delay_valid(m, self.i.valid, Multiplier.LATENCY, "square_valid")
        square_last = delay_valid(m, self.i.valid & self.i.last, Multiplier.LATENCY, "square_last")

        # Accumulation: partial sum ``index``, which is 0 in the first round.
        index, first = Signal(range(depth)), Signal(init=1)
        with m.If(square_valid):
            m.d.sync += [index.eq(index + 1), first.eq(first & (index != depth - 1))]

        # Folding: pairs (place, place + half) of each lane; then, with ``half`` 0, lanes ``stride`` apart.
        folding, final = Signal(), Signal()
        half, stride = Signal(range(depth)), Signal(range(max(2, lanes)))
        place, wait = Signal(range(depth)), Signal(range(Adder.LATENCY + 1))
        step = Signal()
        m.d.comb += step.eq(folding & (wait == 0))

        def level(next_half, next_stride):
            """The next level starts when the adder has written the first result that it needs."""
            late = Adder.LATENCY + 1 - max(1, next_half)
            return [half.eq(next_half), stride.eq(next_stride), place.eq(0), wait.eq(max(0, late))]

        halves = [depth >> n for n in range(1, depth.bit_length())]
        strides = [lanes >> n for n in range(1, lanes.bit_length())]
        levels = [(h, 0) for h in halves] + [(0, s) for s in strides]
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(square_last):
            m.d.sync += [folding.eq(1), first.eq(0), *level(*levels[0])]
        with m.Elif(step):
            m.d.sync += place.eq(place + 1)
            for (h, s), following in zip(levels, [*levels[1:], None], strict=True):
                with m.If((half == h) & (stride == s) & (place == max(1, h) - 1)):
                    if following is None:
                        m.d.comb += final.eq(1)
                        m.d.sync += [folding.eq(0), first.eq(1)]
                    else:
                        m.d.sync += level(*following)

        address = Signal(range(depth))
        m.d.comb += address.eq(Mux(folding, place, index))
        written = delay(m, address, Adder.LATENCY, "address")
        write = delay_valid(m, square_valid | step, Adder.LATENCY, "write")

        own, far = [], []
        adders, errors = [], Signal(2 * lanes)
        for n in range(lanes):
            m.submodules[f"square_{n}"] = square = Multiplier()
            m.submodules[f"sum_{n}"] = adder = Adder()
            m.submodules[f"partial_{n}"] = partial = Memory(shape=32, depth=depth, init=[])
            store = partial.write_port()
            near, other = partial.read_port(domain="comb"), partial.read_port(domain="comb")
            m.d.comb += [
                square.valid.eq(self.i.valid), square.a.eq(self.i.values[n]), square.b.eq(self.i.values[n]),
                store.addr.eq(written), store.data.eq(adder.o), store.en.eq(write),
                near.addr.eq(address), other.addr.eq(place + half),
                adder.valid.eq(square_valid | step),
                adder.a.eq(Mux(first, 0, near.data)),
                errors[2 * n].eq(square.error), errors[2 * n + 1].eq(adder.error),
            ]
            adders.append((adder, square))
            own.append(near.data)
            far.append(other.data)
        for n, (adder, square) in enumerate(adders):
            partner = far[n]
            for s in strides:
                if n < s:
                    partner = Mux(stride == s, own[n + s], partner)
            m.d.comb += adder.b.eq(Mux(folding, partner, square.o))
        m.d.comb += [
            self.o.eq(adders[0][0].o),
            self.done.eq(delay_valid(m, final, Adder.LATENCY, "final")),
            self.error.eq(errors.any()),
        ]
        return m


class InverseRms(Component):
    """1/rms of each record of groups: rsqrt(RN(RN(ss * ``reciprocal``) + ``eps``)).

    ``done`` is high for one clock when it is known. From the next clock on ``inverse`` holds it, and two clocks later
    ``query`` holds RN(``inverse`` * ``query_scale``); both stay until the next record's.
    """

    def __init__(self, lanes):
        self._lanes = lanes
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

    def elaborate(self, platform):
        m = Module()
        m.submodules.squares = squares = SumOfSquares(self._lanes)
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
