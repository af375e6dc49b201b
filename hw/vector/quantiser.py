"""Quantiser: groups of binary32 into blocks of 32 with a shared exponent, onto the operand bus (docs/numerics.md
section 2)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.interfaces import NewestKind, OperandBus
from hw.isa import Region
from hw.vector.fp32 import FLOAT
from hw.vector.pipe import delay, delay_valid, groups

__all__ = ["KV_BITS", "Quantiser"]

KV_BITS = 8
"""Mantissa bits of K and V."""

MOST_BITS = 16
"""Widest mantissa that the shifter covers."""


NOTHING = -32
"""Lift of an element without a mantissa: behind every block by more than the shifter's width."""

ELEMENT = StructLayout({"fraction": 23, "sign": 1, "lift": signed(9)})
"""An element as the banks hold it: ``lift`` is its exponent less the places that its mantissa has below 16 bits."""


def element(x, narrow, bits):
    """The fields of :data:`ELEMENT` of the binary32 *x*, with a mantissa of 8 bits if *narrow*, else of *bits*."""
    unused = Mux(narrow, MOST_BITS - KV_BITS, MOST_BITS - bits)
    return Cat(x.fraction, x.sign, Mux(x.exponent == 0, NOTHING, x.exponent - unused)[:9])


class Rounder(Component):
    """Mantissa of one element: x / 2^(block - lift + 9), rounded and saturated to ``bits`` bits.

    ``block`` is the block's exponent; ``narrow`` saturates to 8 bits (K and V) instead of ``bits``. Latency 2.
    """

    LATENCY = 2

    def __init__(self, bits):
        self._bits = bits
        super().__init__({"x": In(ELEMENT), "block": In(8), "narrow": In(1), "o": Out(signed(bits))})

    def elaborate(self, platform):
        m = Module()
        places = Signal(10)
        shifted = Signal(24 + MOST_BITS)
        kept, up = Signal(MOST_BITS, reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            # The widest mantissa keeps 15 of 24 bits; 16 further places leave none of them, nor one half.
            places.eq(self.block - self.x.lift),
            shifted.eq(Cat(self.x.fraction, 1) << MOST_BITS >> places[:4]),
        ]
        rest = 25
        seen = places[4:] == 0
        m.d.sync += [
            kept.eq(Mux(seen, shifted[rest:], 0)),
            up.eq(seen & shifted[rest - 1] & (shifted[rest] | (shifted[:rest - 1] != 0))),
        ]
        narrow = delay(m, self.narrow, 1, "narrow")
        rounded, magnitude = Signal(MOST_BITS), Signal(self._bits - 1)
        m.d.comb += [
            rounded.eq(kept + up),
            magnitude.eq(Mux(narrow & rounded[KV_BITS - 1], (1 << KV_BITS - 1) - 1,
                             Mux(rounded[self._bits - 1], (1 << self._bits - 1) - 1, rounded))),
        ]
        m.d.comb += self.o.eq(delay(m, Mux(delay(m, self.x.sign, 1, "sign"), -magnitude, magnitude), 1, "o"))
        return m


class BlockPlaces(Component):
    """Row and address of the blocks of an operand in order, one block each ``step``; ``last`` starts again.

    Queries: head by head, ``head_blocks`` blocks each; the heads of a group fill rows 0 to v_kv - 1 of one pass, then
    of the next. Other operands count their blocks.
    """

    def __init__(self, config: Config):
        self._config = config
        bus = OperandBus(config).members
        super().__init__({
            "step": In(1),
            "query": In(1),
            "last": In(1),
            "group": In(5),
            "head_blocks": In(4),
            "row": Out(bus["row"].shape),
            "address": Out(bus["address"].shape),
        })

    def elaborate(self, platform):
        m = Module()
        base, block = Signal.like(self.address), Signal(4)
        member = Signal(5)
        m.d.comb += self.address.eq(base + block)
        with m.If(self.step & self.last):
            m.d.sync += [base.eq(0), block.eq(0), member.eq(0), self.row.eq(0)]
        with m.Elif(self.step & ~self.query):
            m.d.sync += base.eq(base + 1)
        with m.Elif(self.step & (block != self.head_blocks - 1)):
            m.d.sync += block.eq(block + 1)
        with m.Elif(self.step):
            m.d.sync += [block.eq(0), member.eq(member + 1), self.row.eq(self.row + 1)]
            with m.If(member == self.group - 1):
                m.d.sync += member.eq(0)
            with m.If((member == self.group - 1) | (self.row == self._config.v_kv - 1)):
                m.d.sync += [self.row.eq(0), base.eq(base + self.head_blocks)]
        return m


class Quantiser(Component):
    """Collects 32 elements, finds their largest exponent, converts ``width`` elements a clock and broadcasts the block.

    Takes a group of ``lanes`` a clock, no back-pressure. Latency from a block's last group to the block on the bus:
    :attr:`latency` clocks.

    Members: ``i``, groups; ``kind`` and ``region`` beside them (``region`` counts for NewestKind.OPERAND); ``v_kv``
    heads share a pass; ``group`` and ``head_blocks`` of the model; ``bus``; ``largest``, the largest exponent of the
    last complete operand of each region, from the clock after its ``last`` block was on the bus.
    """

    def __init__(self, config: Config, width=16):
        rows = BLOCK // width
        if config.lanes > width or BLOCK % width or rows < 2 or rows + Rounder.LATENCY > BLOCK // config.lanes:
            raise ValueError(f"a quantiser of {width} elements a clock does not keep up with {config.lanes} lanes")
        self._config = config
        self._width = width
        super().__init__({
            "i": In(groups(config.lanes)),
            "kind": In(NewestKind),
            "region": In(Region),
            "group": In(5),
            "head_blocks": In(4),
            "bus": Out(OperandBus(config)),
            "largest": Out(ArrayLayout(8, len(Region))),
        })

    @property
    def latency(self):
        return BLOCK // self._width + Rounder.LATENCY + 1

    def elaborate(self, platform):
        m = Module()
        lanes, width, bits = self._config.lanes, self._width, self._config.mantissa_bits
        rows = BLOCK // width

        # Collect: element e goes to bank e mod width, row e div width; the largest exponent runs along.
        place = Signal(range(BLOCK // lanes))
        complete = Signal()
        largest, running = self.i.values[0][23:31], Signal(8)
        for n in range(lanes - 1):
            following = Signal(8, name=f"largest_{n + 1}")
            other = self.i.values[n + 1][23:31]
            m.d.comb += following.eq(Mux(other > largest, other, largest))
            largest = following
        so_far = Signal(8)
        m.d.comb += [
            so_far.eq(Mux((place != 0) & (running > largest), running, largest)),
            complete.eq(self.i.valid & (place == BLOCK // lanes - 1)),
        ]
        exponent = Signal(8)
        with m.If(self.i.valid):
            m.d.sync += [place.eq(place + 1), running.eq(so_far)]
        about = Signal(StructLayout({"kind": NewestKind, "region": Region, "last": 1}))
        with m.If(complete):
            m.d.sync += [
                exponent.eq(so_far),
                about.kind.eq(self.kind), about.region.eq(self.region), about.last.eq(self.i.last),
            ]

        # Convert: one row of the banks a clock, always ahead of the next block's first elements.
        row, busy = Signal(range(max(2, rows))), Signal()
        with m.If(complete):
            m.d.sync += [busy.eq(1), row.eq(0)]
        with m.Elif(busy):
            m.d.sync += row.eq(row + 1)
            with m.If(row == rows - 1):
                m.d.sync += busy.eq(0)
        # A row is read the clock before its turn, the first with the block's last group.
        narrow, narrow_block, ahead = Signal(), Signal(), Signal.like(row)
        m.d.comb += [
            narrow.eq((self.kind == NewestKind.KEY) | (self.kind == NewestKind.VALUE)),
            ahead.eq(Mux(busy, row + 1, 0)),
        ]
        with m.If(complete):
            m.d.sync += narrow_block.eq(narrow)
        entering = [element(FLOAT(value), narrow, bits) for value in self.i.values]
        converted = []
        for n in range(width):
            m.submodules[f"bank_{n}"] = bank = Memory(shape=ELEMENT, depth=rows, init=[])
            m.submodules[f"rounder_{n}"] = rounder = Rounder(bits)
            write, read = bank.write_port(), bank.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(place // (width // lanes)), Cat(write.data).eq(entering[n % lanes]),
                write.en.eq(self.i.valid & (place % (width // lanes) == n // lanes)),
                read.addr.eq(ahead), Cat(rounder.x).eq(delay(m, Cat(read.data), 1, f"element_{n}")),
                rounder.block.eq(exponent), rounder.narrow.eq(narrow_block),
            ]
            converted.append(rounder.o)

        # Assemble: rows enter at the top, so that the first ends at the bottom.
        rounded = delay_valid(m, busy, Rounder.LATENCY, "rounded")
        fresh = delay_valid(m, busy & (row == 0), Rounder.LATENCY, "fresh")
        ready = delay_valid(m, busy & (row == rows - 1), Rounder.LATENCY, "ready")
        mantissas, total = Signal(BLOCK * bits, reset_less=True), Signal(signed(bits + 5), reset_less=True)
        with m.If(rounded):
            m.d.sync += [
                mantissas.eq(Cat(mantissas, *converted)[width * bits:]),
                total.eq(Mux(fresh, 0, total) + sum(converted)),
            ]
        m.d.sync += self.bus.valid.eq(ready)
        m.d.comb += [Cat(self.bus.mantissas).eq(mantissas), self.bus.sum.eq(total)]
        with m.If(ready):
            m.d.sync += [
                self.bus.kind.eq(about.kind), self.bus.region.eq(about.region), self.bus.last.eq(about.last),
                self.bus.exponent.eq(exponent),
            ]
        m.submodules.places = places = BlockPlaces(self._config)
        m.d.comb += [
            places.step.eq(ready), places.query.eq(about.kind == NewestKind.QUERY), places.last.eq(about.last),
            places.group.eq(self.group), places.head_blocks.eq(self.head_blocks),
        ]
        with m.If(ready):
            m.d.sync += [self.bus.address.eq(places.address), self.bus.row.eq(places.row)]
        self._keep_largest(m, ready & (about.kind == NewestKind.OPERAND), about.region, about.last, exponent)
        return m

    def _keep_largest(self, m, block, region, last, exponent):
        running, so_far = Signal(8), Signal(8)
        m.d.comb += so_far.eq(Mux(exponent > running, exponent, running))
        with m.If(block):
            m.d.sync += running.eq(Mux(last, 0, so_far))
            with m.If(last):
                m.d.sync += self.largest[Value.cast(region)].eq(so_far)
