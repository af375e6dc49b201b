"""AXI4 memory port: the host's way to all channels' memory."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config
from hw.fetch.reader import host_read_signature
from hw.host.axi import axi4_signature
from hw.host.memory_read import MemoryRead
from hw.host.memory_write import MemoryWrite
from hw.interfaces import write_signature

__all__ = ["MemoryPort"]


class MemoryPort(Component):
    """AXI4 slave of 32 bytes: INCR and FIXED bursts; narrow, unaligned and partly strobed ones too.

    The channels follow each other in the address map: channel = address div ``channel_bytes``, beat = the rest div 32.
    Outside the memory the answer is DECERR. WRAP bursts are not built: SLVERR, as for a burst across 4 KB, FIXED
    of more than 16 transfers or transfers beyond 32 bytes; nothing of a refused burst is written. Nothing hangs.

    Memory has no masked writes: a beat that is written in part is read first, when the channel's writes are in memory
    (:class:`hw.host.memory_write.MemoryWrite`). Whole beats stream.

    A read that is issued after a write's BRESP returns the new data, and so does a program that is started then. Reads
    wait for all writes of their channel, also those of a program; they go through the readers, between records of a
    running program, and wait while the program holds all credits.

    Members: ``axi``; ``write`` and ``read``, one a channel; ``restart``: the readers are being reset, and have no beat
    under way.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "write": Out(write_signature()).array(config.channels),
            "read": Out(host_read_signature()).array(config.channels),
            "restart": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer = writer = MemoryWrite(self._config)
        m.submodules.reader = reader = MemoryRead(self._config)
        m.d.comb += [
            reader.restart.eq(self.restart), writer.restart.eq(self.restart),
            reader.hold.eq(writer.reading), writer.hold.eq(reader.reading),
        ]
        for path, member, value in axi4_signature().flatten(self.axi):
            (name,) = path
            half = writer if name.startswith(("aw", "w", "b")) else reader
            inner = getattr(half.axi, name)
            m.d.comb += inner.eq(value) if member.flow is Out else value.eq(inner)
        for n, (write, read) in enumerate(zip(self.write, self.read, strict=True)):
            connect(m, writer=writer.write[n], port=flipped(write))
            halves = (reader.read[n], writer.read[n])
            for half in halves:
                m.d.comb += [half.command.ready.eq(read.command.ready), half.valid.eq(read.valid),
                             half.data.eq(read.data)]
            m.d.comb += [
                read.command.valid.eq(halves[0].command.valid | halves[1].command.valid),
                read.command.payload.eq(Mux(writer.reading, halves[1].command.payload, halves[0].command.payload)),
                reader.idle[n].eq(write.idle),
                read.flush.eq(writer.flush[n] | reader.read[n].flush),
            ]
        return m
