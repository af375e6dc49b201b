"""The register block: the map of registers.rdl on AXI4-Lite, as the structs that the other blocks take."""

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import Config
from hw.fork import Queue
from hw.host.axi_lite import AxiLiteBridge, axi_lite_signature
from hw.host.register_file import RegisterFile
from hw.host.register_map import COUNTERS, register_map
from hw.interfaces import Geometry
from hw.isa import ADDRESS_BITS
from hw.sequencer.control import TOKEN_BITS, ErrorInfo, ProgramWrite, RunSettings

__all__ = ["CounterValues", "Registers", "VectorConstants"]

CounterValues = StructLayout({name: 64 for name in COUNTERS})

VectorConstants = StructLayout({
    "hidden": 20,  # elements of the hidden state
    "inverse_hidden": 32,  # binary32
    "epsilon": 32,  # binary32
    "query_scale": 32,  # binary32: log2(e) / sqrt(head width)
    "logits": 1,  # write logits to memory
    "logits_base": ADDRESS_BITS,  # beat address
})
"""What the vector unit needs to know of the model; stable during a run."""

TOKEN_DEPTH = 256


class Registers(Component):
    """Register block. Registers take effect in the clock after the write; pulses last one clock.

    Members
    -------
    axil : AXI4-Lite slave. Unmapped addresses give SLVERR.
    irq : level, high while an enabled event is pending.
    settings, start, cancel, program_valid, program : to the sequencer.
    busy, done, failed, error, tokens : from the sequencer. ``tokens`` go to a FIFO of 256; a full one stalls the run.
    aborting : the data path is being emptied; so is the token FIFO, as long as it lasts.
    watchdog : to the sequencer.
    ready : all channels are initialised.
    vector_error : the vector unit met an infinity or NaN; kept here until the next ``start``, which must end it there.
    counters, clear_counters : performance counters.
    geometry, constants : shape of the model for the other blocks.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "axil": In(axi_lite_signature()),
            "irq": Out(1),
            "settings": Out(RunSettings(config)),
            "start": Out(1),
            "cancel": Out(1),
            "program_valid": Out(1),
            "program": Out(ProgramWrite),
            "busy": In(1),
            "done": In(1),
            "failed": In(1),
            "error": In(ErrorInfo),
            "tokens": In(stream.Signature(TOKEN_BITS)),
            "aborting": In(1),
            "watchdog": Out(32),
            "ready": In(1),
            "vector_error": In(1),
            "counters": In(CounterValues),
            "clear_counters": Out(1),
            "geometry": Out(Geometry(config)),
            "constants": Out(VectorConstants),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bridge = bridge = AxiLiteBridge()
        m.submodules.file = file = RegisterFile(register_map())
        tokens = Queue(TOKEN_BITS, TOKEN_DEPTH)
        m.submodules.tokens = ResetInserter(self.aborting)(tokens)
        connect(m, port=flipped(self.axil), bridge=bridge.axil)
        connect(m, bridge=bridge.bus, file=file.bus)
        connect(m, port=flipped(self.tokens), queue=tokens.i)
        values, inputs, config = file.values, file.inputs, self._config

        vector_error = Signal()
        with m.If(self.start):
            m.d.sync += vector_error.eq(0)
        with m.Elif(self.vector_error):
            m.d.sync += vector_error.eq(1)
        m.d.comb += [
            inputs.build.channels.eq(config.channels),
            inputs.build.lanes.eq(config.lanes),
            inputs.build.v_kv.eq(config.v_kv),
            inputs.build.mantissa_bits.eq(config.mantissa_bits),
            inputs.status.busy.eq(self.busy),
            inputs.status.ready.eq(self.ready),
            inputs.status.tokens.eq(tokens.level),
            inputs.error.fault.eq(self.error.fault),
            inputs.error.execute.eq(self.error.execute),
            inputs.error.record.eq(self.error.record),
            inputs.error.channel.eq(self.error.channel),
            inputs.error.wait.eq(self.error.wait),
            inputs.error.vector.eq(vector_error),
            inputs.tokens.token.eq(tokens.o.payload),
            inputs.tokens.valid.eq(tokens.o.valid),
            tokens.o.ready.eq(file.taken.tokens),
            file.events.interrupt_status.done.eq(self.done),
            file.events.interrupt_status.error.eq(self.failed | (self.vector_error & ~vector_error)),
            file.events.interrupt_status.token.eq(self.tokens.valid & self.tokens.ready),
            self.irq.eq((values.interrupt_status.as_value() & values.interrupt_enable.as_value()).any()),
            file.window_locked.eq(self.busy),
        ]
        m.d.comb += [inputs[name]["count"].eq(self.counters[name]) for name in COUNTERS]
        m.d.comb += [
            self.start.eq(values.control.start),
            self.cancel.eq(values.control.abort),
            self.clear_counters.eq(values.control.clear_counters),
            self.settings.token.eq(values.step_token.token),
            self.settings.position.slot.eq(values.step_slot.slot),
            self.settings.position.channel.eq(values.step_channel.channel),
            self.settings.beyond.eq((values.step_slot.slot >= config.max_slots)
                                    | (values.step_channel.channel >= config.channels)),
            self.settings.steps.eq(values.step_count.steps),
            self.settings.head.eq(values.step_flags.head),
            self.settings.stop_enable.eq(values.step_flags.stop_enable),
            self.watchdog.eq(values.watchdog.clocks),
            self.settings.stop_token.eq(values.stop_token.token),
            self.constants.logits.eq(values.step_flags.logits),
            self.constants.logits_base.eq(values.logits_base.beat),
            self.constants.hidden.eq(values.hidden.elements),
            self.constants.inverse_hidden.eq(values.inverse_hidden.value),
            self.constants.epsilon.eq(values.epsilon.value),
            self.constants.query_scale.eq(values.query_scale.value),
            self.geometry.kv_base.eq(values.kv_base.beat),
            self.geometry.page_beats.eq(values.page.page_beats),
            self.geometry.head_beats.eq(values.page_head.head_beats),
            self.geometry.exponent_beats.eq(values.page_head.exponent_beats),
        ]
        for name in ("kv_heads", "group", "passes", "head_blocks"):
            m.d.comb += self.geometry[name].eq(values.heads[name])
        m.d.comb += [
            self.program_valid.eq(file.window_write.as_value().any()),
            self.program.execute.eq(file.window_write.execute_program),
            self.program.word.eq(file.window_word),
            self.program.data.eq(file.window_data),
        ]
        return m
