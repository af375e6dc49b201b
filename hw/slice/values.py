"""The V phase: P.V sums in an accumulator a lane."""

from amaranth.hdl import Cat, Const, MemoryData, MemoryInstance, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.interfaces import SUM_BITS, Geometry, PartialItem
from hw.slice.partial import PartialItems
from hw.slice.pipe import LANE
from hw.slice.walk import place_layout

__all__ = ["LaneSums"]


class LaneSums(Component):
    """Adds weighted V blocks, lane by lane, for every row, pass and block of two heads; sends one out while the other
    adds.

    No stall in adding: one block a clock. A head's items begin 1 clock after its last products, its P.V elements 3
    clocks; one item a clock. Stands still while ``active`` is low.

    Members: ``begin``, the first products of a head are on their way (only while ``free``); ``occupied``, halves that
    hold a head; ``valid`` with ``place`` in the walk, ``last`` of the head and ``products[row][lane]``;
    ``sum_address``, ``sums``: the softmax sums, combinational; ``partial``.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "active": In(1),
            "geometry": In(Geometry(config)),
            "begin": In(1),
            "free": Out(1),
            "occupied": Out(2),
            "valid": In(1),
            "place": In(place_layout(config)),
            "last": In(1),
            "products": In(LANE).array(config.pool_rows, BLOCK),
            "sum_address": Out(StructLayout({"pass_": range(max(2, config.max_passes)), "half": 1})),
            "sums": In(SUM_BITS).array(config.v_kv),
            "partial": Out(stream.Signature(PartialItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.items = items = PartialItems(self._config)
        begun, adding, sending = Signal(), Signal(), Signal()  # halves: of the next head, in the lanes, on the way out
        occupied, complete = Signal(2), Signal(2)
        finish = Signal()
        m.d.comb += [
            finish.eq(self.valid & self.last),
            self.free.eq(~occupied.bit_select(begun, 1)),
            self.occupied.eq(occupied),
        ]
        with m.If(self.active):
            m.d.sync += [begun.eq(begun ^ self.begin), adding.eq(adding ^ finish), sending.eq(sending ^ items.done)]
            for n in range(2):
                sent = items.done & (sending == n)
                m.d.sync += [
                    occupied[n].eq((occupied[n] & ~sent) | (self.begin & (begun == n))),
                    complete[n].eq((complete[n] & ~sent) | (finish & (adding == n))),
                ]
            m.d.comb += [
                items.geometry.eq(self.geometry),
                items.ready.eq(complete.bit_select(sending, 1)),
                items.sum.eq(self._of_row(m, self.sums, items.sum_row)),
                self.sum_address.pass_.eq(items.sum_pass),
                self.sum_address.half.eq(sending),
                self.partial.valid.eq(items.partial.valid),
                self.partial.payload.eq(items.partial.payload),
                items.partial.ready.eq(self.partial.ready),
            ]
            for row in range(self._config.v_kv):
                self._lanes(m, row, Cat(self.place.block, self.place.pass_, adding),
                            Cat(items.block, items.pass_, sending), items.fetch & (items.row == row), items.lanes[row])
        return m

    def _of_row(self, m, values, row):
        """The value of *row*."""
        chosen = Signal.like(values[0])
        for n, value in enumerate(values):
            with m.If(row == n):
                m.d.comb += chosen.eq(value)
        return chosen

    def _lanes(self, m, row, address, read_address, read_enable, results):
        """Accumulators of one row; ``results`` has the lanes that the last read found, latency 1."""
        for lane in range(BLOCK):
            data = MemoryData(shape=signed(SUM_BITS), depth=1 << len(address), init=[])
            m.submodules[f"lane_{row}_{lane}"] = memory = MemoryInstance(data=data)
            before, total = (Signal(signed(SUM_BITS), name=f"{name}_{row}_{lane}") for name in ("before", "total"))
            memory.read_port(domain="comb", addr=address, data=before, en=Const(1), transparent_for=())
            memory.write_port(domain="sync", addr=address, data=total, en=self.valid)
            memory.read_port(domain="sync", addr=read_address, data=results[lane], en=read_enable, transparent_for=())
            m.d.comb += total.eq(Mux(self.place.first, 0, before) + self.products[row][lane])
