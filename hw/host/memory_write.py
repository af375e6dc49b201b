"""Write half of the AXI4 memory port."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fetch.reader import host_read_signature
from hw.fork import Queue
from hw.host.axi import AXI_ID_BITS, BURST_FIXED, LANE_BITS, Response, axi4_signature, burst_response, next_lane
from hw.interfaces import BEAT, write_signature
from hw.isa import ADDRESS_BITS

__all__ = ["MemoryWrite"]

BURSTS = 4
"""Bursts that may wait for their response."""


class MemoryWrite(Component):
    """Write bursts to the channels' write ports; a whole beat a clock within a burst, one clock between bursts.

    Transfers that are narrow, unaligned or have partial strobes are gathered into beats of memory. Of a beat that is
    not written whole the other bytes are read, when all writes of the channel are in memory: some hundred clocks a
    beat. A program must not write to the same beat meanwhile.

    BRESP comes when the channel's write port is idle, so that every read that starts afterwards, of any reader, returns
    the new data. ``flush`` is up for channels with such a response outstanding. Nothing of a refused burst is written.

    Members: ``axi``, of which the read channels are left alone; ``write``, ``flush`` and ``read``, one a channel;
    ``restart``: the readers are being reset, and have no beat under way; ``reading``: a beat is being asked for, or
    comes; ``hold``: none may be asked for, since another reads.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "write": Out(write_signature()).array(config.channels),
            "flush": Out(1).array(config.channels),
            "read": Out(host_read_signature()).array(config.channels),
            "restart": In(1),
            "reading": Out(1),
            "hold": In(1),
        })

    def elaborate(self, platform):
        config, axi = self._config, self.axi
        m = Module()
        layout = StructLayout({"id": AXI_ID_BITS, "response": Response, "channel": range(max(2, config.channels))})
        m.submodules.answers = answers = Queue(layout, BURSTS)
        burst = Signal(layout)
        beat = Signal(ADDRESS_BITS, reset_less=True)
        left = Signal(8, reset_less=True)
        size, fixed, lane, following = Signal(3), Signal(), Signal(LANE_BITS), Signal(LANE_BITS + 1)
        kept, strobes, ended = Signal(BEAT, reset_less=True), Signal(BEAT // 8), Signal()
        writable, through, ready, next_beat = Signal(), Signal(), Signal(), Signal()
        response = burst_response(m, config, axi.awaddr, axi.awlen, axi.awsize, axi.awburst)
        shift = config.channel_bytes.bit_length() - 1
        m.d.comb += [
            answers.i.payload.eq(burst),
            following.eq(next_lane(lane, size)),
            next_beat.eq((following[-1] & ~fixed) | (left == 0)),
            through.eq(writable & axi.wstrb.all() & next_beat & ~strobes.any()),
        ]
        offered, data = Signal(), Signal(BEAT)
        for n, write in enumerate(self.write):
            m.d.comb += [write.beats.payload.beat.eq(beat), write.beats.payload.data.eq(data)]
            with m.If(burst.channel == n):
                m.d.comb += [write.beats.valid.eq(offered), ready.eq(write.beats.ready)]
        come, fetched, ask = Signal(), Signal(BEAT), Signal()
        reader_ready, idle = self._reader(m, burst.channel, beat, ask, come, fetched)

        with m.FSM() as fsm:
            with m.State("ADDRESS"):
                m.d.comb += axi.awready.eq(answers.i.ready)
                m.d.sync += [
                    burst.id.eq(axi.awid),
                    burst.response.eq(response),
                    burst.channel.eq(axi.awaddr[shift:]),
                    writable.eq(response == Response.OKAY),
                    beat.eq(axi.awaddr[LANE_BITS:shift]),
                    lane.eq(axi.awaddr),
                    size.eq(axi.awsize),
                    fixed.eq(axi.awburst == BURST_FIXED),
                    left.eq(axi.awlen),
                    strobes.eq(0),
                ]
                with m.If(axi.awvalid & axi.awready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [offered.eq(axi.wvalid & through), data.eq(axi.wdata), axi.wready.eq(~through | ready)]
                with m.If(axi.wvalid & axi.wready):
                    m.d.sync += [left.eq(left - 1), lane.eq(following), ended.eq(left == 0)]
                    with m.If(through | ~writable):
                        m.d.sync += beat.eq(beat + 1)
                        with m.If(left == 0):
                            m.d.comb += answers.i.valid.eq(1)
                            m.next = "ADDRESS"
                    with m.Else():
                        for n in range(BEAT // 8):
                            with m.If(axi.wstrb[n]):
                                m.d.sync += [kept.word_select(n, 8).eq(axi.wdata.word_select(n, 8)), strobes[n].eq(1)]
                        with m.If(next_beat):
                            m.next = "GATHERED"
            with m.State("GATHERED"):
                m.next = "DRAIN"
                with m.If(strobes.all()):
                    m.next = "WRITE"
                with m.Elif(~strobes.any()):
                    m.next = "NEXT"
            with m.State("DRAIN"):
                with m.If(idle & ~self.hold & ~self.restart):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += [self.reading.eq(1), ask.eq(~self.restart)]
                with m.If(ask & reader_ready):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.reading.eq(1)
                with m.If(come):
                    for n in range(BEAT // 8):
                        with m.If(~strobes[n]):
                            m.d.sync += kept.word_select(n, 8).eq(fetched.word_select(n, 8))
                    m.next = "WRITE"
                with m.Elif(self.restart):
                    m.next = "ASK"
            with m.State("WRITE"):
                m.d.comb += [offered.eq(1), data.eq(kept)]
                with m.If(ready):
                    m.next = "NEXT"
            with m.State("NEXT"):
                m.d.sync += [beat.eq(beat + 1), strobes.eq(0)]
                m.next = "DATA"
                with m.If(ended):
                    m.d.comb += answers.i.valid.eq(1)
                    m.next = "ADDRESS"
        self._answer(m, answers.o, burst.channel, fsm.ongoing("DRAIN"))
        return m

    def _reader(self, m, channel, beat, ask, come, fetched):
        """The channel's reader for one beat; returns (it takes the command, the channel's writes are in memory)."""
        ready, idle = Signal(), Signal()
        for n, (read, write) in enumerate(zip(self.read, self.write, strict=True)):
            m.d.comb += read.command.payload.beat.eq(beat)
            with m.If(channel == n):
                m.d.comb += [
                    read.command.valid.eq(ask), ready.eq(read.command.ready), idle.eq(write.idle),
                    come.eq(read.valid), fetched.eq(read.data),
                ]
        return ready, idle

    def _answer(self, m, answers, gathering, draining):
        """BRESP of the oldest burst when its channel's writes are in memory."""
        axi, answer = self.axi, answers.payload
        drained = Signal()
        m.d.comb += drained.eq(answer.response == Response.DECERR)
        for n, (write, flush) in enumerate(zip(self.write, self.flush, strict=True)):
            with m.If(answers.valid & (answer.response != Response.DECERR) & (answer.channel == n)):
                m.d.comb += [flush.eq(1), drained.eq(write.idle)]
            with m.If(draining & (gathering == n)):
                m.d.comb += flush.eq(1)
        with m.If(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(answers.valid & drained & (~axi.bvalid | axi.bready)):
            m.d.comb += answers.ready.eq(1)
            m.d.sync += [axi.bvalid.eq(1), axi.bid.eq(answer.id), axi.bresp.eq(answer.response)]
