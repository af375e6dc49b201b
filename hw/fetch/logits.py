"""Logit writer: logits of a step to memory, dealt round the channels."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import LogitBeat, write_signature
from hw.isa import ADDRESS_BITS

__all__ = ["LogitWriter"]


class LogitWriter(Component):
    """Beat j of a step goes to channel j mod C, local beat ``base`` + j div C. No latency; a beat a clock.

    Members: ``logits``; ``base``, beat address; ``write``, an array of C write ports; ``idle``: every beat that was
    taken is in memory, whatever others write; ``flush``: the step's last beat was taken, and is not in memory yet;
    ``fault``: a beat would go past the memory, and is not taken.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "base": In(ADDRESS_BITS),
            "logits": In(stream.Signature(LogitBeat)),
            "write": Out(write_signature()).array(config.channels),
            "idle": Out(1),
            "flush": Out(1),
            "fault": Out(1),
        })

    def elaborate(self, platform):
        channels = self._config.channels
        m = Module()
        channel = Signal(range(max(2, channels)))
        local, beat, inside = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS + 1), Signal()
        under_way = Signal(channels)
        m.d.comb += [
            beat.eq(self.base + local),
            inside.eq(beat < self._config.channel_beats),
            self.fault.eq(self.logits.valid & ~inside),
            self.idle.eq(~under_way.any()),
        ]
        for n, write in enumerate(self.write):
            m.d.comb += [
                write.beats.payload.beat.eq(beat),
                write.beats.payload.data.eq(self.logits.payload.data),
            ]
            with m.If(channel == n):
                m.d.comb += [
                    write.beats.valid.eq(self.logits.valid & inside),
                    self.logits.ready.eq(write.beats.ready & inside),
                ]
            with m.If(write.beats.valid & write.beats.ready):
                m.d.sync += under_way[n].eq(1)
            with m.Elif(write.idle):
                m.d.sync += under_way[n].eq(0)
        with m.If(self.logits.valid & self.logits.ready):
            wrap = channel == channels - 1
            m.d.sync += channel.eq(Mux(wrap, 0, channel + 1))
            with m.If(wrap):
                m.d.sync += local.eq(local + 1)
            m.d.sync += self.flush.eq(self.logits.payload.last)
            with m.If(self.logits.payload.last):
                m.d.sync += [channel.eq(0), local.eq(0)]
        with m.Elif(self.idle):
            m.d.sync += self.flush.eq(0)
        return m
