"""Read half of the AXI4 memory port."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fetch.fifo import BeatFifo
from hw.fetch.reader import host_read_signature
from hw.host.axi import AXI_ID_BITS, BOUNDARY_BEATS, Response, axi4_signature, burst_response
from hw.interfaces import BEAT
from hw.isa import ADDRESS_BITS

__all__ = ["MemoryRead"]


class MemoryRead(Component):
    """Read bursts, one at a time, through the channels' readers.

    A burst is asked for when the channel's writes, whoever made them, are in memory, and the buffer (4 KB, the longest
    burst) has room for all of it, so that it never holds up the beats of a program. The next burst is asked for while
    the last one is still being handed over. A refused burst returns zeros with its response.

    Members: ``axi``, of which the write channels are left alone; ``read`` and ``idle`` (its write port is idle), one a
    channel.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "read": Out(host_read_signature()).array(config.channels),
            "idle": In(1).array(config.channels),
        })

    def elaborate(self, platform):
        config, axi = self._config, self.axi
        m = Module()
        burst_layout = StructLayout({"id": AXI_ID_BITS, "response": Response})
        m.submodules.buffer = buffer = BeatFifo(
            BOUNDARY_BEATS, StructLayout({"data": BEAT, "burst": burst_layout, "last": 1}))
        burst = Signal(burst_layout)
        room = Signal(range(BOUNDARY_BEATS + 1), init=BOUNDARY_BEATS)
        channel = Signal(range(max(2, config.channels)))
        beat = Signal(ADDRESS_BITS, reset_less=True)
        length, left = Signal(8), Signal(8)
        come, data = Signal(), Signal(BEAT, reset_less=True)
        command_ready = Signal()
        response = burst_response(m, config, axi.araddr, axi.arlen, axi.arsize, axi.arburst)
        shift = config.channel_bytes.bit_length() - 1
        m.d.comb += [
            buffer.data.data.eq(data),
            buffer.data.burst.eq(burst),
            buffer.data.last.eq(left == 0),
            axi.rvalid.eq(buffer.o.valid),
            buffer.o.ready.eq(axi.rready),
            axi.rdata.eq(buffer.o.payload.data),
            axi.rid.eq(buffer.o.payload.burst.id),
            axi.rresp.eq(buffer.o.payload.burst.response),
            axi.rlast.eq(buffer.o.payload.last),
        ]
        m.d.sync += [come.eq(0), room.eq(room + buffer.pop - buffer.valid)]
        with m.If(buffer.valid):
            m.d.sync += left.eq(left - 1)
        for read in self.read:
            m.d.comb += [read.command.payload.beat.eq(beat), read.command.payload.last.eq(length)]
            with m.If(read.valid):
                m.d.sync += [come.eq(1), data.eq(read.data)]

        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += axi.arready.eq(1)
                m.d.sync += [
                    data.eq(0),
                    burst.id.eq(axi.arid),
                    burst.response.eq(response),
                    channel.eq(axi.araddr[shift:]),
                    beat.eq(axi.araddr[5:shift]),
                    length.eq(axi.arlen),
                    left.eq(axi.arlen),
                ]
                with m.If(axi.arvalid):
                    m.next = "REFUSE"
                    with m.If(response == Response.OKAY):
                        m.next = "DRAIN"
            with m.State("DRAIN"):
                for n, (read, idle) in enumerate(zip(self.read, self.idle, strict=True)):
                    with m.If(channel == n):
                        m.d.comb += read.flush.eq(1)
                        with m.If(idle):
                            m.next = "ASK"
            with m.State("ASK"):
                for n, read in enumerate(self.read):
                    with m.If(channel == n):
                        m.d.comb += [read.command.valid.eq(room > length), command_ready.eq(read.command.ready)]
                with m.If((room > length) & command_ready):
                    m.next = "RECEIVE"
            with m.State("RECEIVE"):
                m.d.comb += buffer.valid.eq(come)
                with m.If(come & (left == 0)):
                    m.next = "ADDRESS"
            with m.State("REFUSE"):
                m.d.comb += buffer.valid.eq(room != 0)
                with m.If((room != 0) & (left == 0)):
                    m.next = "ADDRESS"
        return m
