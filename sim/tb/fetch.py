"""The fetch side of a channel as one component, for benches: everything between its controller and its slice."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config
from hw.fetch.arbiter import WriteArbiter
from hw.fetch.fifo import PrefetchFifo
from hw.fetch.reader import Reader, Starved, host_read_signature
from hw.fetch.writer import KvWriter
from hw.interfaces import (
    BEAT,
    Geometry,
    OperandBus,
    Position,
    ReaderRecord,
    chunk_read_signature,
    write_signature,
)

__all__ = ["Fetch"]


class Fetch(Component):
    """Reader, prefetch FIFO, KV writer and write arbiter of one channel, connected as in :class:`hw.channel.Channel`.

    Members
    -------
    channel, geometry, bounded : constant during a run.
    flush : asks for pending writes to be drained.
    position : of the step being executed, for the KV writer.
    records : access records.
    operands : newest K and V.
    memory, write : the channel controller's ports.
    data, scales : beats to the slice.
    host_read, host_write, logit_write : other users of the channel. Writes go in the order KV writer, logits, host.
    starved : why the reader asks for nothing.
    idle : the KV writer has nothing left.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "geometry": In(Geometry(config)),
            "position": In(Position(config)),
            "records": In(stream.Signature(ReaderRecord(config))),
            "operands": In(OperandBus(config)),
            "bounded": In(1),
            "flush": In(1),
            "memory": Out(chunk_read_signature()),
            "write": Out(write_signature()),
            "data": Out(stream.Signature(BEAT)),
            "scales": Out(stream.Signature(BEAT)),
            "host_read": In(host_read_signature()),
            "host_write": In(write_signature()),
            "logit_write": In(write_signature()),
            "starved": Out(Starved),
            "idle": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader = reader = Reader(self._config)
        m.submodules.fifo = fifo = PrefetchFifo(self._config)
        m.submodules.writer = writer = KvWriter(self._config)
        m.submodules.arbiter = arbiter = WriteArbiter(3)
        for block in (reader, writer):
            m.d.comb += [block.channel.eq(self.channel), block.geometry.eq(self.geometry)]
        m.d.comb += [reader.bounded.eq(self.bounded), reader.flush.eq(self.flush), writer.position.eq(self.position)]
        m.d.comb += [self.starved.eq(reader.starved), self.idle.eq(writer.idle)]
        connect(m, records=flipped(self.records), reader=reader.records)
        connect(m, reader=reader.memory, memory=flipped(self.memory))
        connect(m, reader=reader.fifo, fifo=fifo.i)
        connect(m, fifo=fifo.data, data=flipped(self.data))
        connect(m, fifo=fifo.scales, scales=flipped(self.scales))
        connect(m, host=flipped(self.host_read), reader=reader.host)
        connect(m, operands=flipped(self.operands), writer=writer.operands)
        connect(m, reader=reader.writer, writer=writer.link)
        connect(m, writer=writer.write, arbiter=arbiter.i[0])
        connect(m, logits=flipped(self.logit_write), arbiter=arbiter.i[1])
        connect(m, host=flipped(self.host_write), arbiter=arbiter.i[2])
        connect(m, arbiter=arbiter.o, write=flipped(self.write))
        return m
