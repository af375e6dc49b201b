"""Sequencer: both engines, their queues and what the host sees of them."""

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config
from hw.fork import Queue
from hw.interfaces import Position, ReaderRecord, SliceDispatch
from hw.isa import VectorRecord
from hw.sequencer.access import AccessEngine
from hw.sequencer.control import TOKEN_BITS, ErrorInfo, Fault, ProgramWrite, RunSettings
from hw.sequencer.execute import ExecuteEngine

__all__ = ["Sequencer"]

QUEUE_DEPTH = 8


class Sequencer(Component):
    """Runs steps: for each token, the records of both programs to readers, slices and vector unit.

    The engines are decoupled: the access engine fetches ahead as far as the readers take records, into the next step
    up to the first record that needs its token. Records wait in queues of eight, so that a fence never waits for an
    engine.

    Members
    -------
    settings, start : the run, taken at the ``start`` pulse. Ignored while ``busy``.
    cancel : pulse; drops the run and the queued records at once (the blocks behind need their own reset).
    program_valid, program : a word for a program memory; only while not ``busy``.
    records, slices, vectors : record streams.
    token_valid, token : argmax of a step with head, a pulse; all of the step's access records were taken before.
    vector_idle : the vector unit has finished every record it took, logits writes included; low from the clock after
        it takes one.
    tokens : generated tokens, one at the end of each step with head. A full receiver stalls the run.
    position : position of the step whose records are executed, from ``busy`` to the end of the step.
    busy : a run is going on.
    counting : the clocks of a run that performance counters count: ``busy`` until the last argmax.
    done, failed : pulses at the end of a run; after ``failed`` the error is in ``error`` until the next start, and
        records already queued still go out.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "settings": In(RunSettings(config)),
            "start": In(1),
            "cancel": In(1),
            "program_valid": In(1),
            "program": In(ProgramWrite),
            "records": Out(stream.Signature(ReaderRecord(config))),
            "slices": Out(stream.Signature(SliceDispatch(config))),
            "vectors": Out(stream.Signature(VectorRecord)),
            "token_valid": In(1),
            "token": In(TOKEN_BITS),
            "vector_idle": In(1),
            "tokens": Out(stream.Signature(TOKEN_BITS)),
            "position": Out(Position(config)),
            "busy": Out(1),
            "counting": Out(1),
            "done": Out(1),
            "failed": Out(1),
            "error": Out(ErrorInfo),
        })

    def elaborate(self, platform):
        m = Module()
        halt, drop = Signal(), Signal()
        access = AccessEngine(self._config)
        execute = ExecuteEngine(self._config)
        queues = {
            "records": Queue(ReaderRecord(self._config), QUEUE_DEPTH),
            "slices": Queue(SliceDispatch(self._config), QUEUE_DEPTH),
            "vectors": Queue(VectorRecord, QUEUE_DEPTH),
        }
        m.submodules.access = ResetInserter(halt)(access)
        m.submodules.execute = ResetInserter(halt)(execute)
        for name, queue in queues.items():
            m.submodules[f"{name}_queue"] = ResetInserter(drop)(queue)
        connect(m, engine=access.records, queue=queues["records"].i)
        connect(m, engine=execute.slices, queue=queues["slices"].i)
        connect(m, engine=execute.vectors, queue=queues["vectors"].i)
        for name, queue in queues.items():
            connect(m, queue=queue.o, port=flipped(getattr(self, name)))
        connect(m, engine=execute.tokens, port=flipped(self.tokens))

        settings = Signal(RunSettings(self._config))
        start, running = Signal(), Signal()
        wrong = Signal()
        m.d.comb += [
            wrong.eq((self.settings.steps == 0) | ((self.settings.steps != 1) & ~self.settings.head)),
            self.busy.eq(start | running),
            self.counting.eq(start | (running & ~execute.finished)),
            access.write_valid.eq(self.program_valid & ~self.program.execute),
            execute.write_valid.eq(self.program_valid & self.program.execute),
            self.position.eq(execute.position),
            execute.settled.eq(self.vector_idle & (queues["vectors"].level == 0) & (queues["slices"].level == 0)),
        ]
        for engine in (access, execute):
            m.d.comb += [
                engine.write_word.eq(self.program.word),
                engine.write_data.eq(self.program.data),
                engine.settings.eq(settings),
                engine.start.eq(start),
                engine.token_valid.eq(self.token_valid),
                engine.token.eq(self.token),
            ]
        m.d.sync += [start.eq(0), self.done.eq(0), self.failed.eq(0), halt.eq(self.cancel), drop.eq(self.cancel)]
        with m.If(self.start & ~self.busy):
            m.d.sync += [settings.eq(self.settings), self.error.eq(0)]
            with m.If(wrong):
                m.d.sync += [self.failed.eq(1), self.error.fault.eq(Fault.SETTINGS)]
            with m.Else():
                m.d.sync += start.eq(1)
        with m.If(start):
            m.d.sync += running.eq(1)
        with m.Elif(running & (halt | ~(access.busy | execute.busy))):
            m.d.sync += [running.eq(0), self.done.eq(~halt)]
        for number, engine in enumerate((access, execute)):
            with m.If((engine.fault != Fault.NONE) & ~halt):
                m.d.sync += [
                    self.error.fault.eq(engine.fault),
                    self.error.execute.eq(number),
                    self.error.record.eq(engine.index),
                    self.failed.eq(1), halt.eq(1),
                ]
        return m
