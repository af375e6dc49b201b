"""Reader: access records to chunks of a channel controller, beats to the prefetch FIFO."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from hw.config import Config
from hw.fetch.deliver import Delivery
from hw.fetch.fifo import prefetch_signature
from hw.fetch.kv import ENTRY_BITS, PageWalker, WalkJob
from hw.fetch.run import ChunkSplitter, Route, Tag
from hw.fork import Queue
from hw.interfaces import BEAT, ChunkCommand, Geometry, Position, ReaderRecord, chunk_read_signature
from hw.isa import AccessKind

__all__ = ["Reader", "Starved", "host_read_signature", "writer_link"]

RECORD_QUEUE = 4
"""Records that a reader holds, so that one reader's wait does not hold up the others at once."""

RUN_QUEUE = 32
"""Runs on their way through the controller; a run can be a single beat."""


def host_read_signature():
    """Reads of the host in one channel, seen from the host's port: chunks, answered in order, a beat a clock, no ready.

    ``flush`` asks for pending writes of the channel to be drained.
    """
    return Signature({
        "command": Out(stream.Signature(ChunkCommand)),
        "flush": Out(1),
        "valid": In(1),
        "data": In(BEAT),
    })


def writer_link():
    """Between the reader and the KV writer of a channel, seen from the reader. See :class:`Reader` for the protocol.

    ``page``: block table entry of the newest token in the layer whose table has come, with ``page_valid``.
    ``capture``: exponent beat into which the newest token's exponents go, with ``capture_valid``; a head's K, then V.
    ``completed``: layers whose beats the write port has taken, modulo 4. ``writing``: beats of a layer are coming.
    ``drained``: every beat that the write port took is in memory.
    """
    return Signature({
        "page_valid": Out(1),
        "page": Out(ENTRY_BITS),
        "capture_valid": Out(1),
        "capture": Out(BEAT),
        "completed": In(2),
        "writing": In(1),
        "drained": In(1),
    })


class Starved(enum.Enum, shape=2):
    """Why the reader asks for nothing."""

    NO = 0  # it asks, or has all it needs to
    PROGRAM = 1  # no record
    TABLE = 2  # the block table has not come yet
    WRITER = 3  # the KV writer has not finished the layer before


class Reader(Component):
    """Fetches what the access program names, running ahead as far as the controller takes commands.

    A record goes out as chunks, one a clock, also from page to page and from record to record; seven clocks from record
    to first chunk. Host reads go between records. A returned beat leaves in the clock in which it comes.

    KV records wait until their layer's table has come. KV_K of head 0 also waits for the KV writer.

    **Layers in step with the KV writer.** Number the layers of all steps 0, 1, 2 ... The reader counts a layer as
    started when it lets KV_K of head 0 go; the writer counts it as completed when the write port has taken its beats,
    in order. Layer n may start when n layers are completed, and the first layer of a step (the position has changed)
    when they are also drained. So

    * a step reads only what earlier steps wrote, and that is in memory; the writes of several layers of a step may
      gather in the controller's queue;
    * the writer needs one layer's store of captured exponent beats;
    * keys of layer n + 1 come to the writer only after layer n has started, when layer n - 1 is completed: two banks of
      newest blocks are enough, and two pages, since the table of layer n + 1 comes after the start of layer n;
    * started minus completed is -1, 0 or 1 (a channel that is not the owner completes n with the last value block,
      perhaps before it starts n, never before it started n - 1): two bits are enough.

    It cannot deadlock: completing layer n - 1 takes its table, its Q, K and V weights and its exponent beats, all
    earlier in this channel's stream than KV_K of layer n, their consumption by the slices, which depends on earlier
    beats only, and the taking and draining of writes, which needs no credit of this channel's reads but those of beats
    that were asked for before.

    ``memory.flush`` is up from the TABLE record of a step's first layer to KV_K of head 0, except while the writer has
    beats to write: the last layers' beats drain in one group under the weight stream. A writer that waits for
    exponent beats, which may be those of this KV_K, does not hold it down. It is also up with ``flush`` and
    ``host.flush``.

    **Steps that write what they compute.** The logits of a step wait for room in the write queue, the controller
    drains writes between read chunks, and a read chunk waits for the slice, which waits for the logits. ``bounded``,
    constant during a run, breaks this circle: only beats that have a place in the FIFO are asked for, in chunks of a
    quarter of it. The price is up to a quarter of the FIFO when the slice stops.

    Members: ``records``; ``memory``; ``fifo``; ``bounded``; ``flush``; ``host``; ``writer``; ``channel``, the number of
    this channel; ``geometry``; ``starved``; ``halt``: nothing more is asked for, until a reset; ``drained``: all that
    was asked for has come, and its credits are back; ``fault``: a block table entry names a page past the memory, which
    is not read; up until a reset.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "records": In(stream.Signature(ReaderRecord(config))),
            "memory": Out(chunk_read_signature()),
            "fifo": Out(prefetch_signature()),
            "bounded": In(1),
            "flush": In(1),
            "host": In(host_read_signature()),
            "writer": Out(writer_link()),
            "starved": Out(Starved),
            "halt": In(1),
            "drained": Out(1),
            "fault": Out(1),
        })

    def elaborate(self, platform):
        config = self._config
        m = Module()
        m.submodules.queue = queue = Queue(ReaderRecord(config), RECORD_QUEUE)
        m.submodules.walker = walker = PageWalker(config)
        m.submodules.splitter = splitter = ChunkSplitter(config)
        m.submodules.tags = tags = Queue(Tag, RUN_QUEUE)
        m.submodules.delivery = delivery = Delivery(config)
        connect(m, port=flipped(self.records), queue=queue.i)
        connect(m, walker=walker.runs, splitter=splitter.runs)
        connect(m, splitter=splitter.command, port=flipped(self.memory.command))
        connect(m, splitter=splitter.tags, tags=tags.i)
        connect(m, tags=tags.o, delivery=delivery.tags)
        connect(m, delivery=delivery.fifo, port=flipped(self.fifo))
        m.d.comb += [
            delivery.valid.eq(self.memory.valid),
            delivery.data.eq(self.memory.data),
            self.memory.credit.eq(delivery.credit),
            splitter.credit.eq(delivery.credit),
            splitter.bounded.eq(self.bounded),
            splitter.halt.eq(self.halt),
            self.drained.eq(splitter.drained),
            self.fault.eq(walker.fault),
            walker.geometry.eq(self.geometry),
            walker.table_valid.eq(delivery.table_valid),
            walker.table_line.eq(delivery.table_line),
            walker.table_data.eq(self.memory.data),
            self.host.valid.eq(delivery.host_valid),
            self.host.data.eq(self.memory.data),
            self.writer.page_valid.eq(delivery.table_last),
            self.writer.page.eq(delivery.page),
            self.writer.capture_valid.eq(delivery.capture_valid),
            self.writer.capture.eq(self.memory.data),
        ]
        job = Signal(WalkJob(config))
        empty = self._decode(m, queue.o.payload, job)
        self._dispatch(m, queue.o, job, empty, walker.jobs, delivery.table_last)
        return m

    def _decode(self, m, record, job):
        """The walk job of *record*; returns a signal that is high if it has no beat."""
        config = self._config
        page_shift = config.page_slots.bit_length() - 1
        position = record.position
        page = Signal(range(max(2, config.max_pages)))
        first_block = Signal(range(config.page_slots * 8))
        paged, empty = Signal(), Signal()
        m.d.comb += [
            page.eq(position.slot >> page_shift),
            first_block.eq(position.slot[:page_shift] * self.geometry.head_blocks),
            paged.eq((record.kind == AccessKind.KV_K) | (record.kind == AccessKind.KV_V)),
            job.paged.eq(paged),
            job.values.eq(record.kind == AccessKind.KV_V),
            job.head.eq(record.head),
            job.tokens.eq(position.slot + (self.channel < position.channel)),
            job.beat.eq(record.beat),
            job.tag.format.eq(record.format),
            job.tag.beats.eq(record.beats),
            job.tag.lane.eq(page[:3]),
            job.tag.capture.eq((self.channel == position.channel) & first_block[:5].any()),
            job.tag.capture_beat.eq(first_block >> 5),
            empty.eq(Mux(paged, job.tokens == 0, job.tag.beats == 0)),
        ]
        with m.Switch(record.kind):
            with m.Case(AccessKind.WEIGHTS):
                m.d.comb += job.tag.route.eq(Route.WEIGHTS)
            with m.Case(AccessKind.TABLE):
                m.d.comb += [job.tag.route.eq(Route.TABLE), job.tag.beats.eq((page >> 3) + 1)]
            with m.Case(AccessKind.KV_K):
                m.d.comb += [job.tag.route.eq(Route.KEYS), job.tag.scales.eq(self.geometry.exponent_beats << 1)]
        return empty

    def _dispatch(self, m, records, job, empty, jobs, table_come):
        """Releases records and host reads to the walker."""
        record = records.payload
        is_table, is_paged, starts_layer = Signal(), Signal(), Signal()
        table_due, flushing = Signal(), Signal()
        started, ahead = Signal(2), Signal(2)
        wait_table, wait_writer = Signal(), Signal()
        held, held_host, host = Signal(), Signal(), Signal()
        usable, take = Signal(), Signal()
        last_position = Signal(Position(self._config))
        same_step, drained = Signal(), Signal()
        m.d.comb += [
            is_table.eq(record.kind == AccessKind.TABLE),
            is_paged.eq(job.paged),
            starts_layer.eq((record.kind == AccessKind.KV_K) & (record.head == 0)),
            ahead.eq(started - self.writer.completed),
            wait_table.eq(records.valid & table_due & (is_table | is_paged)),
            same_step.eq(record.position == last_position),
            wait_writer.eq(records.valid & starts_layer & ((ahead == 1) | ~(same_step | drained))),
            usable.eq(records.valid & ~wait_table & ~wait_writer),
            # An offered job is held until it is taken, though a host read may come meanwhile.
            host.eq(Mux(held, held_host, self.host.command.valid)),
            jobs.valid.eq(host | (usable & ~empty)),
            self.host.command.ready.eq(host & jobs.ready),
            take.eq(usable & (empty | (~host & jobs.ready))),
            records.ready.eq(take),
            self.memory.flush.eq((flushing & ~self.writer.writing) | self.host.flush | self.flush),
        ]
        with m.If(host):
            m.d.comb += [
                jobs.payload.tag.route.eq(Route.HOST),
                jobs.payload.tag.beats.eq(self.host.command.payload.last + 1),
                jobs.payload.beat.eq(self.host.command.payload.beat),
            ]
        with m.Else():
            m.d.comb += jobs.payload.eq(job)
        m.d.sync += [held.eq(jobs.valid & ~jobs.ready), held_host.eq(host)]
        with m.If(take & is_table):
            m.d.sync += table_due.eq(1)
        with m.Elif(table_come):
            m.d.sync += table_due.eq(0)
        with m.If(take & starts_layer):
            m.d.sync += [started.eq(started + 1), last_position.eq(record.position), flushing.eq(0), drained.eq(0)]
        with m.Elif(((take & is_table) | wait_writer) & ~same_step):
            m.d.sync += [flushing.eq(1), drained.eq(wait_writer & (ahead != 1) & self.writer.drained)]

        with m.If(~records.valid):
            m.d.comb += self.starved.eq(Starved.PROGRAM)
        with m.Elif(wait_table):
            m.d.comb += self.starved.eq(Starved.TABLE)
        with m.Elif(wait_writer):
            m.d.comb += self.starved.eq(Starved.WRITER)
        return m
