"""KV fetch unit: block table of a layer and the walk over its pages."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fetch.run import Run, Tag, page_bits
from hw.interfaces import BEAT, Geometry
from hw.isa import ADDRESS_BITS

__all__ = ["ENTRY_BITS", "TABLE_LANES", "PageWalker", "WalkJob", "table_lines"]

TABLE_LANES = 8
"""Block table entries in a beat."""

ENTRY_BITS = 32
"""Bits of a block table entry: the number of a physical page."""


def table_lines(config: Config):
    """Beats of the block table of the longest sequence."""
    return -(-config.max_pages // TABLE_LANES)


def WalkJob(config: Config):  # noqa: N802
    """One run (``paged`` = 0: ``beat`` and ``tag`` as they are), or the runs of one KV head.

    Paged: ``tokens`` >= 1 tokens from logical page 0 on. K with the exponents of K and V, or (``values``) V.
    ``tag.beats`` is ignored; ``tag.capture`` applies to the last page.
    """
    return StructLayout({
        "paged": 1,
        "values": 1,
        "head": 6,
        "tokens": range(config.max_slots + 2),
        "beat": ADDRESS_BITS,
        "tag": Tag,
    })


class PageWalker(Component):
    """Turns jobs into runs, in order: one run a clock, across jobs too. Latency five clocks.

    A page of one KV head is contiguous: exponents of K, exponents of V, K, V (see :func:`hw.interfaces.Geometry`). The
    run of a page covers the tokens it holds, so a page without an older token is not read.

    The table buffer holds one layer's block table entries. The caller starts no paged job before its table is in the
    buffer. A run that would end past the memory is left out, and ``fault`` is up from then on.

    Members: ``jobs``, ``runs``; ``table_valid``/``table_line``/``table_data``: eight entries of 32 bits into the
    buffer; ``geometry``; ``fault``.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "geometry": In(Geometry(config)),
            "jobs": In(stream.Signature(WalkJob(config))),
            "runs": Out(stream.Signature(Run)),
            "table_valid": In(1),
            "table_line": In(range(max(2, table_lines(config)))),
            "table_data": In(BEAT),
            "fault": Out(1),
        })

    def elaborate(self, platform):
        config, geometry = self._config, self.geometry
        width = page_bits(config)
        m = Module()
        m.submodules.table = table = Memory(shape=ArrayLayout(ENTRY_BITS, TABLE_LANES),
                                            depth=max(2, table_lines(config)), init=[])
        write = table.write_port()
        line = table.read_port()
        m.d.comb += [
            write.en.eq(self.table_valid), write.addr.eq(self.table_line), write.data.as_value().eq(self.table_data)]

        advance = Signal()
        m.d.comb += advance.eq(~self.runs.valid | self.runs.ready)

        # Walk: the job at hand, a page a clock.
        job = Signal(WalkJob(config), reset_less=True)
        busy, last = Signal(), Signal()
        left = Signal(range(config.max_slots + 2), reset_less=True)
        page = Signal(range(max(2, table_lines(config)) * TABLE_LANES), reset_less=True)
        head_offset = Signal(20, reset_less=True)
        m.d.comb += [
            last.eq(~job.paged | (left <= config.page_slots)),
            self.jobs.ready.eq(~busy | (advance & last)),
            line.addr.eq(page[3:]),
            line.en.eq(advance),
        ]
        with m.If(self.jobs.ready):
            m.d.sync += busy.eq(self.jobs.valid)
        with m.If(self.jobs.ready & self.jobs.valid):
            m.d.sync += [
                job.eq(self.jobs.payload),
                left.eq(self.jobs.payload.tokens),
                page.eq(0),
                head_offset.eq(self.jobs.payload.head * geometry.head_beats),
            ]
        with m.Elif(advance):
            m.d.sync += [left.eq(left - config.page_slots), page.eq(page + 1)]

        # Fetch: the line arrives.
        values_offset = Signal(14, reset_less=True)
        fetch_valid, fetch_last, fetch_lane = Signal(), Signal(reset_less=True), Signal(3, reset_less=True)
        fetch_job = Signal(WalkJob(config), reset_less=True)
        fetch_tokens = Signal(range(config.page_slots + 1), reset_less=True)
        fetch_offset = Signal(21, reset_less=True)
        m.d.sync += values_offset.eq((geometry.exponent_beats << 1) + config.page_slots * geometry.head_blocks)
        with m.If(advance):
            m.d.sync += [
                fetch_valid.eq(busy),
                fetch_last.eq(last),
                fetch_lane.eq(page[:3]),
                fetch_job.eq(job),
                fetch_tokens.eq(Mux(last, left, config.page_slots)),
                fetch_offset.eq(head_offset + Mux(job.values, values_offset, 0)),
            ]

        # Entry: the page number.
        entry_valid = Signal()
        entry_paged, entry_keys = Signal(reset_less=True), Signal(reset_less=True)
        entry, entry_far = Signal(ENTRY_BITS, reset_less=True), Signal()
        entry_beat = Signal(ADDRESS_BITS + 1, reset_less=True)
        entry_tag = Signal(Tag, reset_less=True)
        entry_beats = Signal(range(config.page_slots * 8 + 1), reset_less=True)
        with m.If(advance):
            m.d.sync += [
                entry_valid.eq(fetch_valid),
                entry_paged.eq(fetch_job.paged),
                entry_keys.eq(~fetch_job.values),
                entry.eq(line.data[fetch_lane]),
                entry_beat.eq(Mux(fetch_job.paged, geometry.kv_base + fetch_offset, fetch_job.beat)),
                entry_tag.eq(fetch_job.tag),
                entry_tag.capture.eq(fetch_job.tag.capture & fetch_last),
                entry_beats.eq(fetch_tokens * geometry.head_blocks),
            ]

        # Place: the page's address. A page number of more than ``page_bits`` is past any memory.
        place_valid, place_far = Signal(), Signal(reset_less=True)
        place = Signal(width + len(geometry.page_beats), reset_less=True)
        place_beat = Signal(ADDRESS_BITS + 1, reset_less=True)
        place_tag = Signal(Tag, reset_less=True)
        with m.If(advance):
            m.d.sync += [
                place_valid.eq(entry_valid),
                place.eq(entry[:width] * geometry.page_beats),
                place_far.eq(entry_far),
                place_beat.eq(entry_beat),
                place_tag.eq(entry_tag),
            ]
            with m.If(entry_paged):
                m.d.sync += place_tag.beats.eq(entry_beats + Mux(entry_keys, entry_tag.scales, 0))
            with m.Else():
                m.d.sync += place.eq(0)

        end, past = Signal(len(place) + 2), Signal()
        m.d.comb += [
            entry_far.eq(entry_paged & entry[width:].any()),
            end.eq(place_beat + place + place_tag.beats),
            past.eq(place_valid & (place_far | (end > config.channel_beats))),
        ]
        with m.If(advance):
            m.d.sync += [
                self.runs.valid.eq(place_valid & ~past),
                self.runs.payload.beat.eq(place_beat + place),
                self.runs.payload.tag.eq(place_tag),
            ]
            with m.If(past):
                m.d.sync += self.fault.eq(1)
        return m
