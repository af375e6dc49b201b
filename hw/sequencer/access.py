"""Access engine: what the readers fetch."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import ReaderRecord
from hw.isa import ADDRESS_BITS, PROGRAM_DEPTH, AccessKind, AccessRecord, Format, Index
from hw.sequencer.control import ACCESS_WORDS, TOKEN_BITS, Fault, RunSettings
from hw.sequencer.program import ProgramWalker
from hw.sequencer.steps import StepCounter

__all__ = ["AccessEngine"]


class AccessEngine(Component):
    """Walks the access program and dispatches resolved records; goes from a step's END to the next step at once.

    A record's first beat is base + stride * (layer, token or position). A record with ``wait_token`` waits for the
    step's token: the run's, then each ``token`` in turn. With ``stop_enable`` a step but the first starts only
    when its token is known, and the run ends here if that is ``stop_token``.

    Three clocks a dispatched record, one for LOOP, NEXT, END and skipped records.

    A record is checked before it goes out: kind, weight format, KV head, and that its beats, and its position, are
    inside.

    Members: ``start`` a pulse while not ``busy``, with ``settings`` held during the run; ``token_valid``/``token`` the
    argmax of a step, a pulse; ``records`` to all readers; ``fault``, not NONE in one clock, after which the engine must
    be reset; ``index`` the record at fault.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "write_valid": In(1),
            "write_word": In(range(PROGRAM_DEPTH * ACCESS_WORDS)),
            "write_data": In(32),
            "settings": In(RunSettings(config)),
            "start": In(1),
            "busy": Out(1),
            "kv_heads": In(6),
            "token_valid": In(1),
            "token": In(TOKEN_BITS),
            "records": Out(stream.Signature(ReaderRecord(config))),
            "fault": Out(Fault),
            "index": Out(range(PROGRAM_DEPTH)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = ProgramWalker(AccessRecord, ACCESS_WORDS)
        m.submodules.steps = steps = StepCounter(self._config)
        record = walker.record
        m.d.comb += [
            walker.write_valid.eq(self.write_valid),
            walker.write_word.eq(self.write_word),
            walker.write_data.eq(self.write_data),
            walker.head.eq(self.settings.head),
            walker.count.eq(record.beats),
            steps.settings.eq(self.settings),
            steps.start.eq(self.start),
            self.index.eq(walker.index),
        ]

        token = Signal(TOKEN_BITS)
        known = Signal()
        fault = Signal(Fault)
        factor = Signal(24)
        factor_q = Signal(24, reset_less=True)
        product = Signal(len(record.stride) + len(factor), reset_less=True)
        # What is left of the channel behind beats, and behind base and beats; the first beat may be that far from base.
        behind = Signal(signed(ADDRESS_BITS + 2), reset_less=True)
        room = Signal(signed(ADDRESS_BITS + 2), reset_less=True)
        beyond = Signal(reset_less=True)
        outside, unknown = Signal(), Signal()
        payload = self.records.payload
        m.d.comb += [
            payload.kind.eq(record.kind),
            payload.format.eq(record.format),
            payload.head.eq(record.head),
            payload.beats.eq(record.beats),
            payload.beat.eq(record.base + product),
            payload.position.eq(steps.position),
            unknown.eq(((record.kind == AccessKind.WEIGHTS) & (record.format.as_value() > Format.Q8_0.value))
                       | (((record.kind == AccessKind.KV_K) | (record.kind == AccessKind.KV_V))
                          & (record.head >= self.kv_heads))),
            outside.eq((room < 0) | product[len(room) - 1:].any() | (product[:len(room) - 1] > room[:-1]) | beyond),
        ]
        m.d.sync += [
            factor_q.eq(factor),
            product.eq(record.stride * factor_q),
            behind.eq(self._config.channel_beats - record.beats),
            room.eq(behind - record.base),
            beyond.eq(steps.position.slot >= self._config.max_slots),
        ]
        with m.Switch(record.index):
            with m.Case(Index.LAYER):
                m.d.comb += factor.eq(walker.layer)
            with m.Case(Index.TOKEN):
                m.d.comb += factor.eq(token)
            with m.Case(Index.POSITION):
                m.d.comb += factor.eq(steps.number)

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += walker.restart.eq(~self.start)
                with m.If(self.start):
                    m.d.sync += [token.eq(self.settings.token), known.eq(1)]
                    m.next = "DECODE"
            with m.State("STEP"):
                m.d.comb += self.busy.eq(1)
                with m.If(~self.settings.stop_enable):
                    m.next = "DECODE"
                with m.Elif(known):
                    m.next = "DECODE"
                    with m.If(token == self.settings.stop_token):
                        m.next = "IDLE"
            with m.State("DECODE"):
                m.d.comb += self.busy.eq(1)
                with m.If(walker.skip):
                    m.d.comb += walker.next.eq(1)
                with m.Elif(record.kind == AccessKind.END):
                    m.d.comb += [walker.restart.eq(1), steps.next.eq(1)]
                    m.next = "STEP"
                    with m.If(steps.last):
                        m.next = "IDLE"
                with m.Elif(record.kind == AccessKind.LOOP):
                    m.d.comb += walker.loop.eq(1)
                with m.Elif(record.kind == AccessKind.NEXT):
                    m.d.comb += walker.back.eq(1)
                with m.Elif(record.kind.as_value() > max(kind.value for kind in AccessKind)):
                    m.d.comb += fault.eq(Fault.OPCODE)
                with m.Elif(unknown):
                    m.d.comb += fault.eq(Fault.FIELD)
                with m.Elif(~record.wait_token | known):
                    m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.comb += self.busy.eq(1)
                m.next = "DISPATCH"
            with m.State("DISPATCH"):
                m.d.comb += [self.busy.eq(1), self.records.valid.eq(~outside),
                             walker.next.eq(self.records.ready)]
                with m.If(outside):
                    m.d.comb += fault.eq(Fault.ADDRESS)
                with m.Elif(self.records.ready):
                    m.next = "DECODE"
                    with m.If(record.wait_token):
                        m.d.sync += known.eq(0)
        with m.If(self.token_valid):
            m.d.sync += [token.eq(self.token), known.eq(1)]
        m.d.comb += self.fault.eq(Mux(walker.fault == Fault.NONE, fault, walker.fault))
        return m
