"""P.V sums of a head on their way out, query head by query head."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.interfaces import SUM_BITS, Geometry, PartialItem

__all__ = ["PartialItems"]


class PartialItems(Component):
    """Makes the items of one head: for each query head its softmax sum, then its blocks' lanes. One item a clock.

    Members: ``ready``, a head is complete and stays; ``done``, its last item is taken; ``fetch``: read the lanes of
    ``row``, ``pass_`` and ``block``, which stand in ``lanes[row]`` from the next clock until that row's next fetch;
    ``sum_row``, ``sum_pass``: the softmax sum that ``sum`` must show, combinational; ``partial``.
    """

    def __init__(self, config: Config):
        self._config = config
        passes, rows = range(max(2, config.max_passes)), range(max(2, config.v_kv))
        super().__init__({
            "geometry": In(Geometry(config)),
            "ready": In(1),
            "done": Out(1),
            "fetch": Out(1),
            "row": Out(rows),
            "pass_": Out(passes),
            "block": Out(range(max(2, config.head_blocks))),
            "lanes": In(signed(SUM_BITS)).array(config.v_kv, BLOCK),
            "sum_row": Out(rows),
            "sum_pass": Out(passes),
            "sum": In(SUM_BITS),
            "partial": Out(stream.Signature(PartialItem(config))),
        })

    def elaborate(self, platform):
        m = Module()
        load, shift, fetched = Signal(), Signal(), Signal()
        left = Signal(range(BLOCK // self._config.lanes + 1))  # items in the shift register
        m.d.comb += load.eq(fetched & ((left == 0) | (shift & (left == 1))))
        row = self._fetch(m, load, fetched)
        lanes = self._shift(m, load, shift, row)
        self._items(m, load, shift, left, lanes)
        return m

    def _next_head(self, m, row, pass_):
        """The next query head: rows within a pass."""
        with m.If(row == self._config.v_kv - 1):
            m.d.sync += [row.eq(0), pass_.eq(pass_ + 1)]
        with m.Else():
            m.d.sync += row.eq(row + 1)

    def _fetch(self, m, load, fetched):
        """Read the next block as soon as the shift register takes the last one; returns the row that is read."""
        finished = Signal()  # all blocks of the head are read
        heads = Signal(range(self._config.max_group + 1))
        row = Signal.like(self.row)
        m.d.comb += self.fetch.eq(self.ready & ~finished & (~fetched | load))
        with m.If(self.fetch):
            m.d.sync += [fetched.eq(1), row.eq(self.row), self.block.eq(self.block + 1)]
            with m.If(self.block == self.geometry.head_blocks - 1):
                m.d.sync += [self.block.eq(0), heads.eq(heads + 1), finished.eq(heads == self.geometry.group - 1)]
                self._next_head(m, self.row, self.pass_)
        with m.Elif(load):
            m.d.sync += fetched.eq(0)
        with m.If(self.done):
            m.d.sync += [finished.eq(0), heads.eq(0), self.row.eq(0), self.pass_.eq(0)]
        return row

    def _shift(self, m, load, shift, row):
        """The block on its way out, next lanes first."""
        lanes = [Signal(signed(SUM_BITS), name=f"shift_{n}", reset_less=True) for n in range(BLOCK)]
        step = self._config.lanes
        with m.If(load):
            m.d.sync += [lane.eq(Array(of_row[n] for of_row in self.lanes)[row]) for n, lane in enumerate(lanes)]
        with m.Elif(shift):
            m.d.sync += [lane.eq(lanes[n + step]) for n, lane in enumerate(lanes[:-step])]
        return lanes

    def _items(self, m, load, shift, left, lanes):
        config, item = self._config, self.partial.payload
        in_head, taken = Signal(), Signal()  # the softmax sum of this query head is out
        block, heads = Signal.like(self.block), Signal(range(config.max_group + 1))
        m.d.comb += [
            item.is_sum.eq(~in_head),
            item.elements[0].eq(Mux(in_head, lanes[0], self.sum)),
            *(item.elements[n].eq(Mux(in_head, lanes[n], 0)) for n in range(1, config.lanes)),
            self.partial.valid.eq(self.ready & (~in_head | (left != 0))),
            taken.eq(self.partial.valid & self.partial.ready),
            shift.eq(taken & in_head),
        ]
        with m.If(load):
            m.d.sync += left.eq(BLOCK // config.lanes)
        with m.Elif(shift):
            m.d.sync += left.eq(left - 1)
        with m.If(taken & ~in_head):
            m.d.sync += in_head.eq(1)
        with m.If(shift & (left == 1)):
            m.d.sync += block.eq(block + 1)
            with m.If(block == self.geometry.head_blocks - 1):
                m.d.comb += self.done.eq(heads == self.geometry.group - 1)
                m.d.sync += [block.eq(0), in_head.eq(0), heads.eq(heads + 1)]
                self._next_head(m, self.sum_row, self.sum_pass)
        with m.If(self.done):
            m.d.sync += [heads.eq(0), self.sum_row.eq(0), self.sum_pass.eq(0)]
