"""One memory channel with everything that works on its stream; emitted once, instanced for every channel."""

from amaranth.hdl import Module, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from hw.config import Config
from hw.dram.causes import Cause
from hw.dram.controller import ChannelController
from hw.dram.interface import dfi_signature
from hw.fetch.arbiter import WriteArbiter
from hw.fetch.fifo import PrefetchFifo, scale_depth
from hw.fetch.reader import Reader, Starved, host_read_signature
from hw.fetch.writer import KvWriter
from hw.fork import Queue
from hw.interfaces import (
    BEAT,
    Geometry,
    MaximumItem,
    OperandBus,
    PartialItem,
    Position,
    ReaderRecord,
    SliceDispatch,
    accumulator_bits,
    write_signature,
)
from hw.slice.issue import Status
from hw.slice.numerators import merged_maximum_signature
from hw.slice.slice import Slice
from hw.throttle import Links
from hw.verilog import Shared

__all__ = ["Channel", "channel_status_signature"]

SLICE_QUEUE = 8
"""Slice records that wait in a channel, so that channels may drift apart."""


def channel_status_signature(config: Config):
    """What the counters and a bench see of a channel each clock."""
    return Signature({
        "ready": Out(1),  # memory initialised
        "cause": Out(Cause),
        "read_beat": Out(1),
        "write_beat": Out(1),
        "refreshed": Out(1),
        "starved": Out(Starved),
        "slice": Out(Status),
        "writer_idle": Out(1),  # newest K and V are in memory
        "data_level": Out(range(config.fifo_beats + 1)),  # beats in the prefetch FIFO
        "scale_level": Out(range(scale_depth(config) + 1)),
        "slice_idle": Out(1),  # no slice record, in hand or queued
        "left": Out(1),  # beats wait in the prefetch FIFO, or results of the slice, or operands that no record has used
        "fault": Out(1),  # a block table entry names a page past the memory
        "drained": Out(1),  # every read that was asked for has come, and left the FIFO
    })


class Channel(Component):
    """Controller, reader, prefetch FIFO, slice and KV writer of one channel.

    All channels are alike: ``channel`` is the number. Streams and broadcasts are those of the parts:
    :class:`hw.fetch.reader.Reader`, :class:`hw.slice.slice.Slice`, :class:`hw.fetch.writer.KvWriter`. ``halt`` and
    ``clear`` are those of :class:`hw.abort.Abort`: all but the controller and the beats under way is reset.

    *timing* replaces the preset's LPDDR5X timing. *stalls*, above 0, is the seed of random stalls in every stream (for
    tests).
    """

    def __init__(self, config: Config, timing=None, stalls=0):
        self._config = config
        self._timing = timing
        self._stalls = stalls
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "bounded": In(1),
            "flush": In(1),
            "halt": In(1),
            "clear": In(1),
            "position": In(Position(config)),
            "records": In(stream.Signature(ReaderRecord(config))),
            "dispatch": In(stream.Signature(SliceDispatch(config))),
            "operand": In(OperandBus(config)),
            "merged_maximum": In(merged_maximum_signature(config)),
            "results": Out(stream.Signature(signed(accumulator_bits(config)))),
            "vector": Out(stream.Signature(BEAT)),
            "maximum": Out(stream.Signature(MaximumItem(config))),
            "partial": Out(stream.Signature(PartialItem(config))),
            "host_read": In(host_read_signature()),
            "host_write": In(write_signature()),
            "logit_write": In(write_signature()),
            "dfi": Out(dfi_signature()),
            "status": Out(channel_status_signature(config)),
        })

    def elaborate(self, platform):
        config = self._config
        m = Module()
        m.submodules.controller = controller = ChannelController(config, self._timing)
        m.submodules.reader = reader = Shared(Reader(config), "headrace_reader", self.clear)
        m.submodules.fifo = fifo = PrefetchFifo(config)
        waiting = Queue(SliceDispatch(config), SLICE_QUEUE)
        m.submodules.queue = queue = Shared(waiting, "headrace_dispatch_queue", self.halt)
        m.submodules.slice = slice_ = Shared(Slice(config), "headrace_slice", self.halt)
        m.submodules.writer = writer = Shared(KvWriter(config), "headrace_kv_writer", self.halt)
        m.submodules.arbiter = arbiter = WriteArbiter(3)

        links = Links(m, self._stalls, self.channel)
        links.add(flipped(self.records), reader.records)
        connect(m, reader.memory, controller.read)
        connect(m, reader.fifo, fifo.i)
        links.add(fifo.data, slice_.data)
        links.add(fifo.scales, slice_.scales)
        links.add(flipped(self.dispatch), queue.i)
        links.add(queue.o, slice_.dispatch)
        connect(m, flipped(self.operand), slice_.operand)
        connect(m, flipped(self.merged_maximum), slice_.merged_maximum)
        for name in ("results", "vector", "maximum", "partial"):
            links.add(getattr(slice_, name), flipped(getattr(self, name)))

        connect(m, flipped(self.operand), writer.operands)
        connect(m, reader.writer, writer.link)
        connect(m, writer.write, arbiter.i[0])
        connect(m, flipped(self.logit_write), arbiter.i[1])
        connect(m, flipped(self.host_write), arbiter.i[2])
        connect(m, arbiter.o, controller.write)
        connect(m, flipped(self.host_read), reader.host)
        connect(m, controller.dfi, flipped(self.dfi))

        m.d.comb += [
            reader.channel.eq(self.channel), reader.geometry.eq(self.geometry),
            reader.bounded.eq(self.bounded), reader.flush.eq(self.flush),
            reader.halt.eq(self.halt), fifo.drop.eq(self.halt),
            slice_.channel.eq(self.channel), slice_.geometry.eq(self.geometry),
            writer.channel.eq(self.channel), writer.geometry.eq(self.geometry), writer.position.eq(self.position),
            self.status.ready.eq(controller.ready), self.status.cause.eq(controller.cause),
            self.status.read_beat.eq(controller.read_beat), self.status.write_beat.eq(controller.write_beat),
            self.status.refreshed.eq(controller.refreshed), self.status.starved.eq(reader.starved),
            self.status.slice.eq(slice_.status), self.status.writer_idle.eq(writer.idle),
            self.status.data_level.eq(fifo.data_level), self.status.scale_level.eq(fifo.scale_level),
            self.status.slice_idle.eq((queue.level == 0) & slice_.idle),
            self.status.left.eq(fifo.data.valid | fifo.scales.valid | slice_.results.valid | slice_.vector.valid
                                | slice_.maximum.valid | slice_.partial.valid | slice_.unused),
            self.status.fault.eq(reader.fault | writer.fault),
            self.status.drained.eq(reader.drained),
        ]
        return m
