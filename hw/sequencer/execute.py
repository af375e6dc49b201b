"""Execute engine: what slices and the vector unit do with the beats."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import View
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import Position, SliceDispatch
from hw.isa import (
    PROGRAM_DEPTH,
    ExecuteKind,
    ExecuteRecord,
    Format,
    RowScale,
    SliceKind,
    SliceRecord,
    VectorKind,
    VectorRecord,
)
from hw.sequencer.control import EXECUTE_WORDS, TOKEN_BITS, Fault, RunSettings
from hw.sequencer.program import ProgramWalker
from hw.sequencer.steps import StepCounter

__all__ = ["ExecuteEngine"]


def stops(settings, token):
    """Whether the run ends after *token*."""
    return settings.stop_enable & (token == settings.stop_token)


class ExecuteEngine(Component):
    """Walks the execute program: a record a clock into the queues of slices and vector unit, in order.

    At END it is ``settling``: it waits for ``settled`` (no record of the step is still in a queue or at work) and, in
    steps with head, for the step's token, which it passes on to ``tokens``; then the next step begins, or the run ends:
    after its steps, or with ``stop_enable`` after ``stop_token``.

    Members: ``start`` a pulse while not ``busy``, with ``settings`` held during the run; ``token_valid``/``token`` the
    argmax of a step, a pulse; ``finished`` once the last token of a run with head is known; ``position`` of the step,
    stable from its first record to its END; ``fault``, not NONE in one clock, after which the engine must be reset;
    ``index`` the record at fault.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "write_valid": In(1),
            "write_word": In(range(PROGRAM_DEPTH * EXECUTE_WORDS)),
            "write_data": In(32),
            "settings": In(RunSettings(config)),
            "start": In(1),
            "busy": Out(1),
            "kv_heads": In(6),
            "token_valid": In(1),
            "token": In(TOKEN_BITS),
            "settled": In(1),
            "settling": Out(1),
            "finished": Out(1),
            "position": Out(Position(config)),
            "slices": Out(stream.Signature(SliceDispatch(config))),
            "vectors": Out(stream.Signature(VectorRecord)),
            "tokens": Out(stream.Signature(TOKEN_BITS)),
            "fault": Out(Fault),
            "index": Out(range(PROGRAM_DEPTH)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = ProgramWalker(ExecuteRecord, EXECUTE_WORDS)
        m.submodules.steps = steps = StepCounter(self._config)
        record = walker.record
        token = Signal(TOKEN_BITS)
        known = Signal()
        fault = Signal(Fault)
        m.d.comb += [
            walker.write_valid.eq(self.write_valid),
            walker.write_word.eq(self.write_word),
            walker.write_data.eq(self.write_data),
            walker.head.eq(self.settings.head),
            walker.count.eq(record.count),
            steps.settings.eq(self.settings),
            steps.start.eq(self.start),
            self.index.eq(walker.index),
            self.position.eq(steps.position),
            self.fault.eq(Mux(walker.fault == Fault.NONE, fault, walker.fault)),
            self.slices.payload.record.eq(View(SliceRecord, record.payload[:SliceRecord.size])),
            self.slices.payload.position.eq(steps.position),
            self.vectors.payload.eq(View(VectorRecord, record.payload[:VectorRecord.size])),
            self.tokens.payload.eq(token),
        ]
        slice_, vector = self.slices.payload.record, self.vectors.payload
        slice_fault, vector_fault = Signal(Fault), Signal(Fault)
        with m.If(slice_.kind.as_value() > max(kind.value for kind in SliceKind)):
            m.d.comb += slice_fault.eq(Fault.OPCODE)
        with m.Elif(((slice_.kind == SliceKind.MATRIX) & (slice_.format.as_value() > Format.Q8_0.value))
                    | (((slice_.kind == SliceKind.KEYS) | (slice_.kind == SliceKind.VALUES))
                       & (slice_.head >= self.kv_heads))):
            m.d.comb += slice_fault.eq(Fault.FIELD)
        with m.If(vector.kind.as_value() > max(kind.value for kind in VectorKind)):
            m.d.comb += vector_fault.eq(Fault.OPCODE)
        with m.Elif(vector.scale.as_value() > RowScale.NORM_QUERY.value):
            m.d.comb += vector_fault.eq(Fault.FIELD)
        ended = Signal()
        m.d.comb += ended.eq(steps.last | (self.settings.head & stops(self.settings, token)))

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += walker.restart.eq(~self.start)
                with m.If(self.start):
                    m.d.sync += [known.eq(0), self.finished.eq(0)]
                    m.next = "DECODE"
            with m.State("DECODE"):
                m.d.comb += self.busy.eq(1)
                with m.If(walker.skip):
                    m.d.comb += walker.next.eq(1)
                with m.Else():
                    with m.Switch(record.kind):
                        with m.Case(ExecuteKind.SLICE):
                            m.d.comb += fault.eq(slice_fault)
                            with m.If(slice_fault == Fault.NONE):
                                m.d.comb += [self.slices.valid.eq(1), walker.next.eq(self.slices.ready)]
                        with m.Case(ExecuteKind.VECTOR):
                            m.d.comb += fault.eq(vector_fault)
                            with m.If(vector_fault == Fault.NONE):
                                m.d.comb += [self.vectors.valid.eq(1), walker.next.eq(self.vectors.ready)]
                        with m.Case(ExecuteKind.LOOP):
                            m.d.comb += walker.loop.eq(1)
                        with m.Case(ExecuteKind.NEXT):
                            m.d.comb += walker.back.eq(1)
                        with m.Case(ExecuteKind.END):
                            m.d.comb += walker.restart.eq(1)
                            m.next = "SETTLE"
                        with m.Default():
                            m.d.comb += fault.eq(Fault.OPCODE)
            with m.State("SETTLE"):
                m.d.comb += [self.busy.eq(1), self.settling.eq(1)]
                with m.If(self.settled & ~self.settings.head):
                    m.d.comb += steps.next.eq(1)
                with m.If(self.settled & self.settings.head & known):
                    m.d.comb += [self.tokens.valid.eq(1), steps.next.eq(self.tokens.ready)]
                with m.If(steps.next):
                    m.d.sync += known.eq(0)
                    m.next = "DECODE"
                    with m.If(ended):
                        m.next = "IDLE"
        with m.If(self.token_valid):
            m.d.sync += [
                token.eq(self.token), known.eq(1),
                self.finished.eq(steps.last | stops(self.settings, self.token)),
            ]
        return m
