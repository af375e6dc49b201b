"""Return side of the reader: where each beat goes."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fetch.fifo import prefetch_signature
from hw.fetch.kv import ENTRY_BITS, table_lines
from hw.fetch.run import Route, Tag
from hw.interfaces import BEAT
from hw.isa import Format

__all__ = ["Delivery"]

SUPERBLOCK_BEATS = {Format.Q4_0: 9, Format.Q4_1: 5, Format.Q8_0: 17}
"""Scale beat and data beats of a whole superblock."""


class Delivery(Component):
    """Routes returned beats by the tags of their runs. No latency: a beat leaves in the clock in which it comes.

    Beats that do not enter the prefetch FIFO are TABLE and HOST; their credits go back at once, one a clock beside
    the FIFO's.

    Members
    -------
    valid, data : beats from the controller; the tag of a beat's run is in ``tags`` by the time it comes.
    fifo : to the prefetch FIFO.
    table_valid, table_line, table_last : ``data`` is a line of the block table, or its last.
    page : with ``table_last``, the newest token's block table entry.
    capture_valid : ``data`` is an exponent beat that the KV writer merges into.
    host_valid : ``data`` answers the host.
    credit : credits to the controller, 0 to 2.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "valid": In(1),
            "data": In(BEAT),
            "tags": In(stream.Signature(Tag)),
            "fifo": Out(prefetch_signature()),
            "table_valid": Out(1),
            "table_line": Out(range(max(2, table_lines(config)))),
            "table_last": Out(1),
            "page": Out(ENTRY_BITS),
            "capture_valid": Out(1),
            "host_valid": Out(1),
            "credit": Out(2),
        })

    def elaborate(self, platform):
        m = Module()
        tag = self.tags.payload
        count = Signal(24)
        phase = Signal(range(max(SUPERBLOCK_BEATS.values())))
        last, wrap, exponents = Signal(), Signal(), Signal()
        m.d.comb += [
            last.eq(count == tag.beats - 1),
            self.tags.ready.eq(self.valid & last),
            exponents.eq(count < tag.scales),
            self.fifo.data.eq(self.data),
            self.table_line.eq(count),
            self.table_last.eq(self.table_valid & last),
            self.page.eq(self.data.word_select(tag.lane, ENTRY_BITS)),
        ]
        with m.Switch(tag.format):
            for kind, beats in SUPERBLOCK_BEATS.items():
                with m.Case(kind):
                    m.d.comb += wrap.eq(phase == beats - 1)
        with m.If(self.valid):
            m.d.sync += [count.eq(Mux(last, 0, count + 1)), phase.eq(Mux(last | wrap, 0, phase + 1))]

        aside = Signal()
        with m.If(self.valid):
            with m.Switch(tag.route):
                with m.Case(Route.DATA):
                    m.d.comb += self.fifo.valid.eq(1)
                with m.Case(Route.WEIGHTS):
                    m.d.comb += [self.fifo.valid.eq(1), self.fifo.scale.eq(phase == 0)]
                with m.Case(Route.KEYS):
                    m.d.comb += [
                        self.fifo.valid.eq(1),
                        self.fifo.scale.eq(exponents),
                        self.capture_valid.eq(tag.capture & (
                            (count == tag.capture_beat) | (count == tag.capture_beat + (tag.scales >> 1)))),
                    ]
                with m.Case(Route.TABLE):
                    m.d.comb += [self.table_valid.eq(1), aside.eq(1)]
                with m.Case(Route.HOST):
                    m.d.comb += [self.host_valid.eq(1), aside.eq(1)]

        owed = Signal(range(self._config.fifo_beats + 1))
        pay = Signal()
        m.d.comb += [
            pay.eq((owed != 0) & ~self.fifo.credit[1]),
            self.credit.eq(self.fifo.credit + pay),
        ]
        m.d.sync += owed.eq(owed + aside - pay)
        m.d.sync += Assert(~self.valid | self.tags.valid, "beat without a run")
        return m
