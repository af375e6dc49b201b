"""Write half of the AXI4 memory port."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.fork import Queue
from hw.host.axi import AXI_ID_BITS, Response, axi4_signature, burst_response
from hw.interfaces import write_signature
from hw.isa import ADDRESS_BITS

__all__ = ["MemoryWrite"]

BURSTS = 4
"""Bursts that may wait for their response."""


class MemoryWrite(Component):
    """Write bursts to the channels' write ports; a beat a clock within a burst, one clock between bursts.

    BRESP comes when the channel's write port is idle, so that every read that starts afterwards, of any reader, returns
    the new data. ``flush`` is up for channels with such a response outstanding. A beat with partial strobes is not
    written and makes the burst SLVERR; its whole beats are written.

    Members: ``axi``, of which the read channels are left alone; ``write`` and ``flush``, one a channel.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axi": In(axi4_signature()),
            "write": Out(write_signature()).array(config.channels),
            "flush": Out(1).array(config.channels),
        })

    def elaborate(self, platform):
        config, axi = self._config, self.axi
        m = Module()
        layout = StructLayout({"id": AXI_ID_BITS, "response": Response, "channel": range(max(2, config.channels))})
        m.submodules.answers = answers = Queue(layout, BURSTS)
        burst = Signal(layout)
        beat = Signal(ADDRESS_BITS, reset_less=True)
        left = Signal(8, reset_less=True)
        whole, good, ready = Signal(), Signal(), Signal()
        response = burst_response(m, config, axi.awaddr, axi.awlen, axi.awsize, axi.awburst)
        shift = config.channel_bytes.bit_length() - 1
        m.d.comb += [
            whole.eq(axi.wstrb.all()),
            good.eq(whole & (burst.response != Response.DECERR)),
            answers.i.payload.eq(burst),
        ]
        with m.If(~whole & (burst.response == Response.OKAY)):
            m.d.comb += answers.i.payload.response.eq(Response.SLVERR)

        writable = Signal()
        with m.FSM():
            with m.State("ADDRESS"):
                m.d.comb += axi.awready.eq(answers.i.ready)
                m.d.sync += [
                    burst.id.eq(axi.awid),
                    burst.response.eq(response),
                    burst.channel.eq(axi.awaddr[shift:]),
                    writable.eq(response == Response.OKAY),
                    beat.eq(axi.awaddr[5:shift]),
                    left.eq(axi.awlen),
                ]
                with m.If(axi.awvalid & axi.awready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += axi.wready.eq(~(writable & whole) | ready)
                for n, write in enumerate(self.write):
                    with m.If(burst.channel == n):
                        m.d.comb += [write.beats.valid.eq(axi.wvalid & writable & whole), ready.eq(write.beats.ready)]
                with m.If(axi.wvalid & axi.wready):
                    m.d.sync += [beat.eq(beat + 1), left.eq(left - 1), burst.eq(answers.i.payload)]
                    with m.If(left == 0):
                        m.d.comb += answers.i.valid.eq(1)
                        m.next = "ADDRESS"
        for write in self.write:
            m.d.comb += [write.beats.payload.beat.eq(beat), write.beats.payload.data.eq(axi.wdata)]

        answer = answers.o.payload
        drained = Signal()
        m.d.comb += drained.eq(answer.response == Response.DECERR)
        for n, (write, flush) in enumerate(zip(self.write, self.flush, strict=True)):
            with m.If(answers.o.valid & (answer.response != Response.DECERR) & (answer.channel == n)):
                m.d.comb += [flush.eq(1), drained.eq(write.idle)]
        with m.If(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(answers.o.valid & drained & (~axi.bvalid | axi.bready)):
            m.d.comb += answers.o.ready.eq(1)
            m.d.sync += [axi.bvalid.eq(1), axi.bid.eq(answer.id), axi.bresp.eq(answer.response)]
        return m
