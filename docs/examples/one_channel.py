"""One channel controller alone, on its native port: a design that folds a piece of a DRAM row into one word.

    python docs/examples/one_channel.py > one_channel.v

writes it as Verilog. ``dfi`` goes to the PHY (docs/dfi.md).
"""

from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config, preset
from hw.dram.controller import ChannelController
from hw.dram.interface import dfi_signature
from hw.interfaces import BEAT, ChunkCommand


class Fold(Component):
    """XOR of the beats (32 bytes) of one chunk. ``chunk``: first beat and number less one, inside a row of 128 beats.

    ``start`` takes the chunk when ``ready`` is high; ``done`` is high with the ``result`` until the next start.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({"start": In(1), "chunk": In(ChunkCommand), "ready": Out(1), "done": Out(1),
                          "result": Out(BEAT), "dfi": Out(dfi_signature())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = ChannelController(self._config)
        connect(m, controller.dfi, flipped(self.dfi))
        read, left = controller.read, Signal(range(129))
        m.d.comb += [
            read.command.payload.eq(self.chunk),
            read.credit.eq(read.valid),  # every beat is used in its clock: its place is free again at once
            self.ready.eq(controller.ready & (left == 0)),
            read.command.valid.eq(self.start & self.ready),
        ]
        with m.If(read.command.valid & read.command.ready):
            m.d.sync += [left.eq(self.chunk.last + 1), self.result.eq(0), self.done.eq(0)]
        with m.If(read.valid):
            m.d.sync += [left.eq(left - 1), self.result.eq(self.result ^ read.data), self.done.eq(left == 1)]
        return m


if __name__ == "__main__":
    print(verilog.convert(Fold(preset("tiny")), name="fold"))
