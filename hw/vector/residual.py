"""The residual stream: its memory, the norm weights, and what leaves them for the quantiser and the norm."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import BEAT
from hw.vector.fp32 import Adder, Multiplier
from hw.vector.pipe import delay_valid, groups

__all__ = ["Residual"]

MINUS_ZERO = 1 << 31
"""Neutral element of addition, for zeros of either sign."""


class Residual(Component):
    """x_i = RN(x_i + y_i) in place, then RN(x_i * g_i).

    Records are whole vectors, in element order; one may start when the one before has left. Takes a group a clock.
    Latency Adder.LATENCY to ``x`` and ``added``, and LATENCY to ``o``.

    Members: ``i``, groups y; ``embed``, high beside groups that replace x instead of being added; ``slot``, the norm
    weights to use, stable for a record and four clocks before it; ``keep``, stable for a record: the new residual stays
    inside, and ``added`` is a pulse with its last group; ``load``: beats of eight weights, written to slot
    ``load_slot`` at ``load_beat``; ``x``, the new residual; ``o``, the product.
    """

    LATENCY = Adder.LATENCY + Multiplier.LATENCY

    def __init__(self, config: Config):
        self._lanes = config.lanes
        self._hidden = config.max_hidden
        self._beats = config.max_hidden * 32 // BEAT
        super().__init__({
            "i": In(groups(config.lanes)),
            "embed": In(1),
            "slot": In(1),
            "keep": In(1),
            "added": Out(1),
            "load": In(1),
            "load_slot": In(1),
            "load_beat": In(range(self._beats)),
            "load_data": In(BEAT),
            "x": Out(groups(config.lanes)),
            "o": Out(groups(config.lanes)),
            "error": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        lanes, groups_a_vector = self._lanes, self._hidden // self._lanes
        a_beat = BEAT // 32 // lanes  # groups in a beat
        part = a_beat.bit_length() - 1
        m.submodules.memory = memory = Memory(shape=ArrayLayout(32, lanes), depth=groups_a_vector, init=[])
        old, new = memory.read_port(), memory.write_port()
        rows = 1 << (self._beats - 1).bit_length()
        shape = ArrayLayout(ArrayLayout(32, lanes), a_beat)
        m.submodules.weights = weights = Memory(shape=shape, depth=2 * rows, init=[])
        weight, load = weights.read_port(), weights.write_port()

        def counter(valid, last, name):
            """Group index of the vector, and what it will be in the next clock."""
            index = Signal(range(groups_a_vector), name=name)
            following = Signal(range(groups_a_vector), name=f"{name}_following")
            m.d.comb += following.eq(Mux(valid, Mux(last, 0, index + 1), index))
            m.d.sync += index.eq(following)
            return index, following

        _, reading = counter(self.i.valid, self.i.last, "reading")
        summed = delay_valid(m, self.i.valid, Adder.LATENCY, "summed")
        index, _ = counter(summed, self.x.last, "index")
        # The weights go through a register ahead of the multipliers: their counter runs a clock before the sums.
        ahead = Adder.LATENCY - 1
        soon, following = counter(delay_valid(m, self.i.valid, ahead, "soon_valid"),
                                  delay_valid(m, self.i.valid & self.i.last, ahead, "soon_last"), "soon")
        beat = Signal(range(rows))
        m.d.comb += [
            old.addr.eq(reading), old.en.eq(1),
            new.addr.eq(index), new.data.eq(self.x.values), new.en.eq(summed),
            beat.eq(following >> part), weight.addr.eq(Cat(beat, self.slot)), weight.en.eq(1),
            load.addr.eq(Cat(self.load_beat, self.load_slot)), load.data.eq(self.load_data), load.en.eq(self.load),
            self.x.valid.eq(summed & ~self.keep),
            self.added.eq(self.x.last & self.keep),
            self.x.last.eq(delay_valid(m, self.i.valid & self.i.last, Adder.LATENCY, "x_last")),
            self.o.valid.eq(delay_valid(m, self.x.valid, Multiplier.LATENCY, "o_valid")),
            self.o.last.eq(delay_valid(m, self.x.valid & self.x.last, Multiplier.LATENCY, "o_last")),
        ]
        g = Signal(ArrayLayout(32, lanes))
        m.d.sync += g.eq(weight.data[soon[:part]])
        errors = Signal(2 * lanes)
        for n in range(lanes):
            m.submodules[f"add_{n}"] = add = Adder()
            m.submodules[f"weigh_{n}"] = weigh = Multiplier()
            m.d.comb += [
                add.valid.eq(self.i.valid), add.a.eq(self.i.values[n]),
                add.b.eq(Mux(self.embed, Const(MINUS_ZERO, 32), old.data[n])),
                self.x.values[n].eq(add.o),
                weigh.valid.eq(self.x.valid), weigh.a.eq(add.o), weigh.b.eq(g[n]),
                self.o.values[n].eq(weigh.o),
                errors[2 * n].eq(add.error), errors[2 * n + 1].eq(weigh.error),
            ]
        m.d.comb += self.error.eq(errors.any())
        return m
