"""Logit writer: logits of a step to memory, dealt round the channels."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import BEAT, write_signature
from hw.isa import ADDRESS_BITS

__all__ = ["LogitBeat", "LogitWriter"]

LogitBeat = StructLayout({"data": BEAT, "last": 1})
"""Eight binary32 logits; ``last`` ends the step's logits."""


class LogitWriter(Component):
    """Beat j of a step goes to channel j mod C, local beat ``base`` + j div C. No latency; a beat a clock.

    Members: ``logits``; ``base``, beat address; ``write``, an array of C write ports; ``idle``: every beat that was taken is
    in memory.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "base": In(ADDRESS_BITS),
            "logits": In(stream.Signature(LogitBeat)),
            "write": Out(write_signature()).array(config.channels),
            "idle": Out(1),
        })

    def elaborate(self, platform):
        channels = self._config.channels
        m = Module()
        channel = Signal(range(max(2, channels)))
        local, beat = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        idle = Signal(channels)
        m.d.comb += [beat.eq(self.base + local), self.idle.eq(idle.all())]
        for n, write in enumerate(self.write):
            m.d.comb += [
                write.beats.payload.beat.eq(beat),
                write.beats.payload.data.eq(self.logits.payload.data),
                idle[n].eq(write.idle),
            ]
            with m.If(channel == n):
                m.d.comb += [
                    write.beats.valid.eq(self.logits.valid),
                    self.logits.ready.eq(write.beats.ready),
                ]
        with m.If(self.logits.valid & self.logits.ready):
            wrap = channel == channels - 1
            m.d.sync += channel.eq(Mux(wrap, 0, channel + 1))
            with m.If(wrap):
                m.d.sync += local.eq(local + 1)
            with m.If(self.logits.payload.last):
                m.d.sync += [channel.eq(0), local.eq(0)]
        return m
