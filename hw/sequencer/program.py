"""Program memory with its program counter and the one level of layer loop that both engines share."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import View
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.isa import PROGRAM_DEPTH, Condition
from hw.sequencer.control import Fault

__all__ = ["ProgramWalker"]


class ProgramWalker(Component):
    """Offers the records of a program one after the other; the engine says how to go on.

    ``record`` is the current record, held until one of ``next`` (go on), ``loop`` (go on; a loop of ``count`` layers
    starts behind this record), ``back`` (end of the loop: to its start or on) or ``restart`` (to record 0). The next
    record is there in the following clock, but after ``restart``, which may be held, only in the one after that.
    ``index`` and ``layer`` belong to ``record``. ``skip``: its condition is not met, the engine should go ``next``.

    ``record`` is in a register and the memory's output is the record behind it; a loop's first record is kept, so that
    going back takes no longer than going on.

    ``fault``, in the clock of one of those inputs: CONDITION when the record's condition is unknown (``skip`` is then
    high), OVERRUN for going on from the last record of the memory, LOOP for a ``loop`` inside a loop or of no layers, a
    ``back`` outside one or a ``restart`` inside one.

    Words are written through ``write_valid``, ``write_word`` (counts 32-bit words, ``words`` a record) and
    ``write_data`` while nothing runs, and come into effect with a ``restart`` in a later clock.
    """

    def __init__(self, layout, words):
        if layout.size > 32 * words:
            raise ValueError(f"a record of {layout.size} bits does not fit {words} words")
        self._layout = layout
        self._words = words
        super().__init__({
            "write_valid": In(1),
            "write_word": In(range(PROGRAM_DEPTH * words)),
            "write_data": In(32),
            "head": In(1),
            "next": In(1),
            "loop": In(1),
            "count": In(8),
            "back": In(1),
            "restart": In(1),
            "record": Out(layout),
            "index": Out(range(PROGRAM_DEPTH)),
            "layer": Out(8),
            "skip": Out(1),
            "fault": Out(Fault),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=32 * self._words, depth=PROGRAM_DEPTH, init=[])
        write = memory.write_port(granularity=32)
        read = memory.read_port()
        lane = self.write_word[:(self._words - 1).bit_length()]
        m.d.comb += [
            write.addr.eq(self.write_word >> (self._words - 1).bit_length()),
            write.data.eq(self.write_data.replicate(self._words)),
            write.en.eq(self.write_valid << lane),
        ]

        word = Signal(self._layout, reset_less=True)
        first = Signal(self._layout, reset_less=True)  # record of the loop
        start = Signal(range(PROGRAM_DEPTH))
        last = Signal(8)
        inside = Signal()
        ahead = Signal(self._layout)  # the record behind
        following = Signal(range(PROGRAM_DEPTH))
        index = Signal(range(PROGRAM_DEPTH))  # of the record in the following clock
        again, onward = Signal(), Signal()
        restarted = Signal(init=1)  # the memory's output is record 0
        overrun, misplaced = Signal(), Signal()
        m.d.comb += [
            ahead.eq(View(self._layout, read.data[:self._layout.size])),
            self.record.eq(word),
            following.eq(self.index + 1),
            onward.eq(self.next | self.loop | self.back),
            again.eq(self.back & (self.layer != last)),
            index.eq(self.index),
            read.addr.eq(index + 1),
            overrun.eq(onward & (following == 0)),
            misplaced.eq((self.loop & (inside | (self.count == 0))) | (self.back & ~inside) | (self.restart & inside)),
        ]
        with m.If(again):
            m.d.comb += index.eq(start)
        with m.Elif(onward):
            m.d.comb += index.eq(following)
        m.d.sync += [self.index.eq(index), restarted.eq(self.restart)]
        with m.If(self.restart):
            m.d.comb += read.addr.eq(0)
            m.d.sync += self.index.eq(0)
        with m.If(again):
            m.d.sync += word.eq(first)
        with m.Elif(onward | restarted):
            m.d.sync += word.eq(ahead)
        with m.If(self.loop):
            m.d.sync += [first.eq(ahead), start.eq(following), last.eq(self.count - 1), self.layer.eq(0), inside.eq(1)]
        with m.If(self.back):
            m.d.sync += [self.layer.eq(Mux(again, self.layer + 1, 0)), inside.eq(again)]

        with m.Switch(self.record.condition):
            with m.Case(Condition.ALWAYS):
                pass
            with m.Case(Condition.WITH_HEAD):
                m.d.comb += self.skip.eq(~self.head)
            with m.Case(Condition.WITHOUT_HEAD):
                m.d.comb += self.skip.eq(self.head)
            with m.Default():
                m.d.comb += [self.skip.eq(1), self.fault.eq(Mux(self.next, Fault.CONDITION, Fault.NONE))]
        with m.If(misplaced):
            m.d.comb += self.fault.eq(Fault.LOOP)
        with m.Elif(overrun):
            m.d.comb += self.fault.eq(Fault.OVERRUN)
        return m
