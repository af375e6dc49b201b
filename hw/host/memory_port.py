"""AXI4 memory port: the host's way to all channels' memory."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config
from hw.fetch.reader import host_read_signature
from hw.host.axi import axi4_signature
from hw.host.memory_read import MemoryRead
from hw.host.memory_write import MemoryWrite
from hw.interfaces import write_signature

__all__ = ["MemoryPort"]


class MemoryPort(Component):
    """AXI4 slave: whole aligned beats of 32 bytes, INCR bursts inside 4 KB.

    The channels follow each other in the address map: channel = address div ``channel_bytes``, beat = the rest div 32.
    Outside the memory the answer is DECERR. Bursts other than INCR, narrower or unaligned beats, bursts across 4 KB and
    write beats with partial strobes are not built: SLVERR, and nothing of a refused burst is written (of a burst with
    some partial beats, the whole ones are). Nothing hangs.

    A read that is issued after a write's BRESP returns the new data, and so does a program that is started then. Reads
    wait for all writes of their channel, also those of a program; they go through the readers, between records of a
    running program, and wait while the program holds all credits.

    Members: ``axi``; ``write`` and ``read``, one a channel.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "write": Out(write_signature()).array(config.channels),
            "read": Out(host_read_signature()).array(config.channels),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.writer = writer = MemoryWrite(self._config)
        m.submodules.reader = reader = MemoryRead(self._config)
        for path, member, value in axi4_signature().flatten(self.axi):
            (name,) = path
            half = writer if name.startswith(("aw", "w", "b")) else reader
            inner = getattr(half.axi, name)
            m.d.comb += inner.eq(value) if member.flow is Out else value.eq(inner)
        for n, (write, read) in enumerate(zip(self.write, self.read, strict=True)):
            connect(m, writer=writer.write[n], port=flipped(write))
            connect(m, reader=reader.read[n].command, port=flipped(read.command))
            m.d.comb += [
                reader.idle[n].eq(write.idle),
                reader.read[n].valid.eq(read.valid),
                reader.read[n].data.eq(read.data),
                read.flush.eq(writer.flush[n] | reader.read[n].flush),
            ]
        return m
