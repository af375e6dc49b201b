"""Rotary position embedding: docs/numerics.md section 6."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import BEAT, NewestKind
from hw.vector.fp32 import Adder, Multiplier
from hw.vector.pipe import delay, delay_valid, groups
from hw.vector.silu import ONE

__all__ = ["Rope", "RotatedLane"]

ANGLE = StructLayout({"cos": 32, "sin": 32})


class RotatedLane(Component):
    """The pairs of one lane: (a, b) given while ``pair`` is high, (a c - b s) and then (a s + b c) out, one clock
    apart.

    Inputs are held by the user for one more clock (``pair`` is high at most every other clock; ``again`` is ``pair`` a
    clock later). Latency of the first result: LATENCY.
    """

    LATENCY = Multiplier.LATENCY + Adder.LATENCY

    pair: In(1)
    again: In(1)
    a: In(32)
    b: In(32)
    angle: In(ANGLE)
    o: Out(32)
    error: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.left = left = Multiplier()
        m.submodules.right = right = Multiplier()
        m.submodules.sum = total = Adder()
        minus = delay(m, self.pair, left.LATENCY, "minus")
        busy = Signal()
        m.d.comb += [
            busy.eq(self.pair | self.again),
            left.valid.eq(busy), right.valid.eq(busy), total.valid.eq(delay_valid(m, busy, left.LATENCY, "valid")),
            left.a.eq(self.a), left.b.eq(Mux(self.pair, self.angle.cos, self.angle.sin)),
            right.a.eq(self.b), right.b.eq(Mux(self.pair, self.angle.sin, self.angle.cos)),
            total.a.eq(left.o), total.b.eq(Cat(right.o[:31], right.o[31] ^ minus)),
            self.o.eq(total.o),
            self.error.eq(left.error | right.error | total.error),
        ]
        return m


class Rope(Component):
    """Rotates each head: groups of ``lanes`` even elements and groups of as many odd ones come in turn, and leave so.

    Latency from the odd group in to the even group out :attr:`RotatedLane.LATENCY`, the odd group one clock later;
    takes a group a clock. Groups of kind VALUE are not rotated (a zero may lose its sign) and take as long. Records
    have an even number of groups.

    Members: ``i``, ``kind`` beside it; ``o``, ``o_kind`` beside it; ``head_blocks``, head width / 32; ``load``: beats
    of cos and sin, pair by pair (c0, s0, c1, s1, ...), written at ``load_beat`` while ``load`` is high.
    """

    LATENCY = RotatedLane.LATENCY

    def __init__(self, config: Config):
        self._lanes = config.lanes
        self._beats = config.max_head_dim * 32 // BEAT
        super().__init__({
            "i": In(groups(config.lanes)),
            "kind": In(NewestKind),
            "head_blocks": In(range(config.head_blocks + 1)),
            "load": In(1),
            "load_beat": In(range(self._beats)),
            "load_data": In(BEAT),
            "o": Out(groups(config.lanes)),
            "o_kind": Out(NewestKind),
            "error": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._lanes
        a_beat = BEAT // ANGLE.size // lanes  # groups of angles
        part = a_beat.bit_length() - 1
        shape = ArrayLayout(ArrayLayout(ANGLE, lanes), a_beat)
        m.submodules.memory = memory = Memory(shape=shape, depth=self._beats, init=[])
        write, read = memory.write_port(), memory.read_port()

        second, pair = Signal(), Signal()
        again = delay_valid(m, pair, 1, "again")
        index, following = Signal(range(self._beats * a_beat)), Signal(range(self._beats * a_beat))
        last_pair = Signal(range(self._beats * a_beat))
        m.d.comb += [
            pair.eq(self.i.valid & second),
            last_pair.eq(self.head_blocks * (16 // lanes) - 1),
            following.eq(Mux(pair, Mux(index == last_pair, 0, index + 1), index)),
            write.addr.eq(self.load_beat), write.data.eq(self.load_data), write.en.eq(self.load),
            read.addr.eq(following >> part), read.en.eq(1),
        ]
        m.d.sync += index.eq(following)
        a, b = Signal(ArrayLayout(32, lanes), reset_less=True), Signal(ArrayLayout(32, lanes), reset_less=True)
        with m.If(self.i.valid):
            m.d.sync += second.eq(~second)
            with m.If(second):
                m.d.sync += b.eq(self.i.values)
            with m.Else():
                m.d.sync += a.eq(self.i.values)

        unit_angle = Const(ONE, ANGLE.size)
        angles, kept = Signal(ArrayLayout(ANGLE, lanes)), Signal(ArrayLayout(ANGLE, lanes), reset_less=True)
        with m.If(self.kind == NewestKind.VALUE):
            m.d.comb += Cat(angles).eq(Cat(*[unit_angle] * lanes))
        with m.Else():
            m.d.comb += angles.eq(read.data[index[:part]])
        kind, kept_kind = Signal(NewestKind), Signal(NewestKind, reset_less=True)
        m.d.comb += kind.eq(Mux(pair, self.kind, kept_kind))
        m.d.sync += [kept.eq(angles), kept_kind.eq(self.kind)]
        errors = Signal(lanes)
        for n in range(lanes):
            m.submodules[f"lane_{n}"] = lane = RotatedLane()
            m.d.comb += [
                lane.pair.eq(pair), lane.again.eq(again),
                lane.a.eq(a[n]), lane.b.eq(Mux(pair, self.i.values[n], b[n])),
                lane.angle.eq(Mux(pair, angles[n], kept[n])),
                self.o.values[n].eq(lane.o), errors[n].eq(lane.error),
            ]
        m.d.comb += [
            self.o.valid.eq(delay_valid(m, pair | again, self.LATENCY, "valid")),
            self.o_kind.eq(delay(m, kind, self.LATENCY, "kind")),
            self.o.last.eq(delay_valid(m, pair & self.i.last, self.LATENCY + 1, "last")),
            self.error.eq(errors.any()),
        ]
        return m
