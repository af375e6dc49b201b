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
from hw.sequencer.watchdog import Watchdog
from hw.slice.issue import Status

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
    cancel : pulse; drops the run and the queued records at once, and lets runs start again after a fault (the blocks
        behind need their own reset: :class:`hw.abort.Abort`).
    program_valid, program : a word for a program memory; only while not ``busy``.
    records, slices, vectors : record streams.
    token_valid, token : argmax of a step with head, a pulse; all of the step's access records were taken before.
    vector_idle : the vector unit has finished every record it took, logits writes included; low from the clock after
        it takes one.
    slices_idle : no slice has a record, in hand or queued. status : of the slices.
    left : beats wait that no record took, or results.
    table_fault, table_channel : a channel met a block table entry past its memory.
    logits_fault : logits would be written past the memory.
    kv_heads : of the model; records of others are faults.
    watchdog : clocks without a step of any slice after which a run is stopped, 0 for never; counted while ``ready``.
    tokens : generated tokens, one at the end of each step with head. A full receiver stalls the run.
    position : position of the step whose records are executed, from ``busy`` to the end of the step.
    busy : a run is going on.
    counting : the clocks of a run that performance counters count: ``busy`` until the last argmax.
    done, failed : pulses at the end of a run; after ``failed`` the error is in ``error`` until the next good start, and
        records already queued still go out. After any fault but SETTINGS a start only fails again, until ``cancel``.
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
            "slices_idle": In(1),
            "status": In(Status).array(config.channels),
            "left": In(1),
            "table_fault": In(1),
            "table_channel": In(5),
            "logits_fault": In(1),
            "kv_heads": In(6),
            "watchdog": In(32),
            "ready": In(1),
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
        start, running, stopped = Signal(), Signal(), Signal()
        wrong, ended, no_vector = Signal(), Signal(), Signal()
        m.submodules.watchdog = watchdog = Watchdog(self._config)
        m.d.comb += [
            wrong.eq((self.settings.steps == 0) | ((self.settings.steps != 1) & ~self.settings.head)
                     | self.settings.beyond),
            self.busy.eq(start | running),
            self.counting.eq(start | (running & ~execute.finished)),
            access.write_valid.eq(self.program_valid & ~self.program.execute),
            execute.write_valid.eq(self.program_valid & self.program.execute),
            self.position.eq(execute.position),
            ended.eq(halt | ~(access.busy | execute.busy)),
            no_vector.eq(self.vector_idle & (queues["vectors"].level == 0)),
            execute.settled.eq(no_vector & (queues["slices"].level == 0) & self.slices_idle),
            watchdog.enable.eq(running & self.ready & ~(execute.tokens.valid & ~execute.tokens.ready)),
            watchdog.limit.eq(self.watchdog), watchdog.hopeless.eq(execute.settling & no_vector),
            *(to.eq(status) for to, status in zip(watchdog.status, self.status, strict=True)),
        ]
        for engine in (access, execute):
            m.d.comb += [
                engine.write_word.eq(self.program.word),
                engine.write_data.eq(self.program.data),
                engine.settings.eq(settings),
                engine.start.eq(start),
                engine.token_valid.eq(self.token_valid),
                engine.token.eq(self.token),
                engine.kv_heads.eq(self.kv_heads),
            ]
        m.d.sync += [start.eq(0), self.done.eq(0), self.failed.eq(0), halt.eq(self.cancel), drop.eq(self.cancel)]
        with m.If(self.cancel):
            m.d.sync += stopped.eq(0)
        with m.Elif(self.start & ~self.busy):
            with m.If(stopped):
                m.d.sync += self.failed.eq(1)
            with m.Elif(wrong):
                m.d.sync += [self.failed.eq(1), self.error.eq(0), self.error.fault.eq(Fault.SETTINGS)]
            with m.Elif(self.left):
                self._fail(m, stopped, fault=Fault.LEFTOVER)
            with m.Else():
                m.d.sync += [settings.eq(self.settings), self.error.eq(0), start.eq(1)]
        with m.If(start):
            m.d.sync += running.eq(1)
        with m.Elif(running):
            with m.If(ended):
                m.d.sync += [running.eq(0), self.done.eq(~halt)]
            with m.If(~halt & ~self.cancel):
                with m.If(ended & self.left):
                    m.d.sync += self.done.eq(0)
                    self._fail(m, stopped, halt, fault=Fault.LEFTOVER)
                with m.If(watchdog.fault != Fault.NONE):
                    self._fail(m, stopped, halt, fault=watchdog.fault, channel=watchdog.channel, wait=watchdog.wait)
                with m.If(self.logits_fault):
                    self._fail(m, stopped, halt, fault=Fault.LOGITS)
                with m.If(self.table_fault):
                    self._fail(m, stopped, halt, fault=Fault.TABLE, channel=self.table_channel)
                for number, engine in enumerate((access, execute)):
                    with m.If(engine.fault != Fault.NONE):
                        self._fail(m, stopped, halt, fault=engine.fault, execute=number, record=engine.index)
        return m

    def _fail(self, m, *high, **error):
        """Stop with *error*."""
        m.d.sync += [self.failed.eq(1), self.error.eq(0), *(signal.eq(1) for signal in high),
                     *(self.error[name].eq(value) for name, value in error.items())]
