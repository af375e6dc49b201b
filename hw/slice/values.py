"""The V phase: P.V sums in an accumulator a lane, and their way out."""

from amaranth.hdl import Array, Cat, Const, MemoryData, MemoryInstance, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.interfaces import SUM_BITS, Geometry, PartialItem
from hw.slice.pool import product_bits
from hw.slice.walk import place_layout

__all__ = ["LaneSums"]


class LaneSums(Component):
    """Adds weighted V blocks, lane by lane, for every row, pass and block of two heads; sends one out while the other adds.

    No stall in adding: one block a clock. A head's items begin 3 clocks after its last products; then one item a clock.

    Members: ``begin``, the first products of a head are on their way (only while ``free``); ``occupied``, halves that hold a head; ``valid`` with ``place`` in the walk,
    ``last`` of the head and ``products[row][lane]``; ``partial``; ``sum_address``, ``sums``: the softmax sums, combinational.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "geometry": In(Geometry(config)),
            "begin": In(1), "free": Out(1), "occupied": Out(2),
            "valid": In(1), "place": In(place_layout(config)), "last": In(1),
            "products": In(signed(product_bits(config))).array(config.pool_rows, BLOCK),
            "sum_address": Out(StructLayout({"pass_": range(max(2, config.max_passes)), "half": 1})),
            "sums": In(SUM_BITS).array(config.v_kv),
            "partial": Out(stream.Signature(PartialItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        begun, adding, sending = Signal(), Signal(), Signal()  # halves: of the next head, in the lanes, on the way out
        busy, complete = Signal(2), Signal(2)
        sent = Signal()
        m.d.comb += [self.free.eq(~busy.bit_select(begun, 1)), self.occupied.eq(busy)]
        m.d.sync += [begun.eq(begun ^ self.begin), adding.eq(adding ^ (self.valid & self.last)), sending.eq(sending ^ sent)]
        for n in range(2):
            with m.If(self.begin & (begun == n)):
                m.d.sync += busy[n].eq(1)
            with m.Elif(sent & (sending == n)):
                m.d.sync += busy[n].eq(0)
            with m.If(self.valid & self.last & (adding == n)):
                m.d.sync += complete[n].eq(1)
            with m.Elif(sent & (sending == n)):
                m.d.sync += complete[n].eq(0)
        ready = Signal()
        m.d.comb += ready.eq(complete.bit_select(sending, 1))
        block, pass_ = Signal.like(self.place.block), Signal.like(self.place.pass_)
        row, fetch = Signal(range(max(2, self._config.v_kv))), Signal()
        stored = [self._lanes(m, n, Cat(self.place.block, self.place.pass_, adding), Cat(block, pass_, sending),
                              fetch & (row == n)) for n in range(self._config.v_kv)]
        self._send(m, stored, ready, sending, sent, fetch, block, pass_, row)
        return m

    def _lanes(self, m, row, address, read_address, read_enable):
        """Accumulators of one row; returns the lanes that the last read found, latency 1."""
        results = []
        for lane in range(BLOCK):
            data = MemoryData(shape=signed(SUM_BITS), depth=1 << len(address), init=[])
            m.submodules[f"lane_{row}_{lane}"] = memory = MemoryInstance(data=data)
            before, total, result = (Signal(signed(SUM_BITS), name=f"{name}_{row}_{lane}") for name in ("before", "total", "result"))
            memory.read_port(domain="comb", addr=address, data=before, en=Const(1), transparent_for=())
            memory.write_port(domain="sync", addr=address, data=total, en=self.valid)
            memory.read_port(domain="sync", addr=read_address, data=result, en=read_enable, transparent_for=())
            m.d.comb += total.eq(Mux(self.place.first, 0, before) + self.products[row][lane])
            results.append(result)
        return results

    def _send(self, m, stored, ready, sending, sent, fetch, block, pass_, row):
        """Read blocks of each query head in turn, and shift their lanes out behind the head's softmax sum."""
        config, geometry = self._config, self.geometry
        lanes = config.lanes
        fetched, finished = Signal(), Signal()  # a block is read; all blocks of the head are read
        fetched_row = Signal.like(row)
        heads = Signal(range(config.max_group + 1))  # query heads read
        shift = [Signal(signed(SUM_BITS), name=f"shift_{n}", reset_less=True) for n in range(BLOCK)]
        left = Signal(range(BLOCK // lanes + 1))  # items in the shift register
        load, taken = Signal(), Signal()
        m.d.comb += [
            fetch.eq(ready & ~finished & (~fetched | load)),
            load.eq(fetched & ((left == 0) | (taken & (left == 1) & ~self.partial.payload.is_sum))),
        ]
        with m.If(fetch):
            m.d.sync += [fetched.eq(1), fetched_row.eq(row), block.eq(block + 1)]
            with m.If(block == geometry.head_blocks - 1):
                m.d.sync += [block.eq(0), row.eq(row + 1), heads.eq(heads + 1)]
                with m.If(row == config.v_kv - 1):
                    m.d.sync += [row.eq(0), pass_.eq(pass_ + 1)]
                m.d.sync += finished.eq(heads == geometry.group - 1)
        with m.Elif(load):
            m.d.sync += fetched.eq(0)
        with m.If(load):
            m.d.sync += [register.eq(Array(row_lanes[n] for row_lanes in stored)[fetched_row])
                         for n, register in enumerate(shift)]
        with m.Elif(taken & ~self.partial.payload.is_sum):
            m.d.sync += [register.eq(shift[n + lanes] if n + lanes < BLOCK else 0) for n, register in enumerate(shift)]
        self._items(m, shift, left, load, taken, ready, sending, sent)
        with m.If(sent):
            m.d.sync += [finished.eq(0), pass_.eq(0), row.eq(0), heads.eq(0)]

    def _items(self, m, shift, left, load, taken, ready, sending, sent):
        """The partial stream: a softmax sum, then the blocks of its query head."""
        config, geometry = self._config, self.geometry
        in_head = Signal()  # the softmax sum of this query head is out
        block, heads = Signal.like(self.place.block), Signal(range(config.max_group + 1))
        pass_, row = Signal.like(self.place.pass_), Signal(range(max(2, config.v_kv)))
        item = self.partial.payload
        m.d.comb += [
            self.sum_address.pass_.eq(pass_), self.sum_address.half.eq(sending),
            item.is_sum.eq(~in_head),
            self.partial.valid.eq(ready & (~in_head | (left != 0))),
            taken.eq(self.partial.valid & self.partial.ready),
            item.elements[0].eq(Mux(in_head, shift[0], Array(self.sums)[row])),
            *(item.elements[n].eq(Mux(in_head, shift[n], 0)) for n in range(1, config.lanes)),
        ]
        with m.If(load):
            m.d.sync += left.eq(BLOCK // config.lanes)
        with m.Elif(taken & in_head):
            m.d.sync += left.eq(left - 1)
        with m.If(taken):
            with m.If(~in_head):
                m.d.sync += in_head.eq(1)
            with m.Elif(left == 1):
                m.d.sync += block.eq(block + 1)
                with m.If(block == geometry.head_blocks - 1):
                    m.d.sync += [block.eq(0), in_head.eq(0), heads.eq(heads + 1), row.eq(row + 1)]
                    with m.If(row == config.v_kv - 1):
                        m.d.sync += [row.eq(0), pass_.eq(pass_ + 1)]
                    m.d.comb += sent.eq(heads == geometry.group - 1)
        with m.If(sent):
            m.d.sync += [heads.eq(0), row.eq(0), pass_.eq(0)]
