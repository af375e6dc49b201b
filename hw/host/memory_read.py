"""Read half of the AXI4 memory port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fetch.fifo import BeatFifo
from hw.fetch.reader import host_read_signature
from hw.host.axi import (
    AXI_ID_BITS,
    BOUNDARY_BEATS,
    BURST_FIXED,
    LANE_BITS,
    Response,
    axi4_signature,
    burst_beats,
    burst_response,
    next_lane,
)
from hw.interfaces import BEAT
from hw.isa import ADDRESS_BITS

__all__ = ["MemoryRead"]


class MemoryRead(Component):
    """Read bursts, one at a time, through the channels' readers.

    A burst is asked for when the channel's writes, whoever made them, are in memory, and the buffer (4 KB, the longest
    burst) has room for all of it, so that it never holds up the beats of a program. The next burst is asked for while
    the last one is still being handed over. A refused burst returns zeros with its response. What is missing of a burst
    when the readers are reset is asked for again.

    A beat waits in a register behind the buffer, so that where the next transfer begins, and whether the beat is done
    with, is not found in the clock of block RAM's read: a clock of latency, a beat a clock goes on.

    A transfer narrower than a beat, or unaligned, carries the whole beat of memory that it begins in: its bytes are
    where they belong, and the others don't matter.

    Members: ``axi``, of which the write channels are left alone; ``read`` and ``idle`` (its write port is idle), one a
    channel; ``restart``: the readers are being reset, and have no beat under way; ``reading``: a burst is being asked
    for, or comes; ``hold``: none may be asked for, since another reads.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "read": Out(host_read_signature()).array(config.channels),
            "idle": In(1).array(config.channels),
            "restart": In(1),
            "reading": Out(1),
            "hold": In(1),
        })

    def elaborate(self, platform):
        config, axi = self._config, self.axi
        m = Module()
        burst_layout = StructLayout({"id": AXI_ID_BITS, "response": Response, "size": 3, "lane": LANE_BITS, "last": 8,
                                     "fixed": 1})
        m.submodules.buffer = buffer = BeatFifo(BOUNDARY_BEATS, StructLayout({"data": BEAT, "burst": burst_layout}))
        burst = Signal(burst_layout)
        room = Signal(range(BOUNDARY_BEATS + 1), init=BOUNDARY_BEATS)
        channel = Signal(range(max(2, config.channels)))
        beat = Signal(ADDRESS_BITS, reset_less=True)
        left = Signal(8)
        askable = Signal()
        come, data = Signal(), Signal(BEAT, reset_less=True)
        command_ready = Signal()
        response = burst_response(m, config, axi.araddr, axi.arlen, axi.arsize, axi.arburst)
        beats = burst_beats(m, axi.araddr, axi.arlen, axi.arsize)
        shift = config.channel_bytes.bit_length() - 1
        m.d.comb += [
            buffer.data.data.eq(Mux(burst.response == Response.OKAY, data, 0)),
            buffer.data.burst.eq(burst),
        ]
        self._hand_over(m, buffer.o)
        m.d.sync += [come.eq(0), room.eq(room + buffer.pop - buffer.valid)]
        m.d.comb += askable.eq((room > left) & ~self.restart & ~self.hold)
        with m.If(buffer.valid):
            m.d.sync += [left.eq(left - 1), beat.eq(beat + 1)]
        for read in self.read:
            m.d.comb += [read.command.payload.beat.eq(beat), read.command.payload.last.eq(left)]
            with m.If(read.valid):
                m.d.sync += [come.eq(1), data.eq(read.data)]

        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += axi.arready.eq(1)
                m.d.sync += [
                    burst.id.eq(axi.arid),
                    burst.response.eq(response),
                    burst.size.eq(axi.arsize),
                    burst.lane.eq(axi.araddr[:LANE_BITS]),
                    burst.last.eq(axi.arlen),
                    channel.eq(axi.araddr[shift:]),
                    beat.eq(axi.araddr[LANE_BITS:shift]),
                    left.eq(Mux(axi.arburst == BURST_FIXED, 0, beats)),
                    burst.fixed.eq(axi.arburst == BURST_FIXED),
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
                m.d.comb += self.reading.eq(askable)
                for n, read in enumerate(self.read):
                    with m.If(channel == n):
                        m.d.comb += [read.command.valid.eq(askable), command_ready.eq(read.command.ready)]
                with m.If(askable & command_ready):
                    m.next = "RECEIVE"
            with m.State("RECEIVE"):
                m.d.comb += [self.reading.eq(1), buffer.valid.eq(come)]
                with m.If(self.restart):
                    m.next = "ASK"
                with m.If(come & (left == 0)):
                    m.next = "ADDRESS"
            with m.State("REFUSE"):
                m.d.comb += buffer.valid.eq(room != 0)
                with m.If(room != 0):
                    m.next = "ADDRESS"
        return m

    def _hand_over(self, m, beats):
        """Transfers of the bursts whose beats of memory come from *beats*."""
        axi, held, valid, done = self.axi, Signal(beats.payload.shape()), Signal(), Signal()
        burst = held.burst
        count, lane, here = Signal(8), Signal(LANE_BITS), Signal(LANE_BITS)
        following, final = Signal(LANE_BITS + 1), Signal()
        m.d.comb += [
            here.eq(Mux(count == 0, burst.lane, lane)),
            following.eq(next_lane(here, burst.size)),
            final.eq(count == burst.last),
            axi.rvalid.eq(valid),
            axi.rdata.eq(held.data),
            axi.rid.eq(burst.id),
            axi.rresp.eq(burst.response),
            axi.rlast.eq(final),
            done.eq(axi.rready & (final | (following[-1] & ~burst.fixed & (burst.response == Response.OKAY)))),
            beats.ready.eq(~valid | done),
        ]
        with m.If(beats.ready):
            m.d.sync += [valid.eq(beats.valid), held.eq(beats.payload)]
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += [count.eq(Mux(final, 0, count + 1)), lane.eq(following)]
