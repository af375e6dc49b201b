"""Start-up of a channel: PHY training handshake, then the mode registers."""

from amaranth.hdl import Array, C, Module, Signal
from amaranth.lib.wiring import Component, In, Out

from hw.dram import command
from hw.dram.mode import MODE_REGISTERS
from hw.dram.timing import Timing

__all__ = ["Startup"]


class Startup(Component):
    """Asks the PHY to initialise, then writes :data:`hw.dram.mode.MODE_REGISTERS` with MRW-1, MRW-2, tMRW apart.

    ``done`` rises tMRD after the last one and stays. ``command``, ``cs``: phase 0 until then.
    """

    def __init__(self, timing: Timing):
        self._timing = timing
        super().__init__({
            "init_start": Out(1),
            "init_complete": In(1),
            "command": Out(command.COMMAND_BITS),
            "cs": Out(1),
            "done": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        t = self._timing
        apart = max(t.row_to_row(t.tmrw), t.row_to_row(t.tmrd))
        index = Signal(range(len(MODE_REGISTERS) + 1))
        wait = Signal(range(apart + 1))
        registers = Array(C(number, 7) for number, _ in MODE_REGISTERS)
        values = Array(C(value, 8) for _, value in MODE_REGISTERS)
        m.d.comb += self.init_start.eq(1)
        with m.FSM():
            with m.State("TRAIN"):
                with m.If(self.init_complete):
                    m.next = "MRW1"
            with m.State("MRW1"):
                m.d.comb += [self.command.eq(command.mrw1(registers[index])), self.cs.eq(1)]
                m.next = "MRW2"
            with m.State("MRW2"):
                m.d.comb += [self.command.eq(command.mrw2(values[index])), self.cs.eq(1)]
                m.d.sync += [index.eq(index + 1), wait.eq(apart - 2)]
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "MRW1"
                    with m.If(index == len(MODE_REGISTERS)):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
        return m
