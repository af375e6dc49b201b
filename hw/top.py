"""The accelerator: channels round a central vector unit, and the sequencer and host that drive them."""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.abort import Abort
from hw.channel import Channel, channel_status_signature
from hw.config import Config
from hw.counters import Counters
from hw.dram.interface import dfi_signature
from hw.fetch.logits import LogitWriter
from hw.fork import Fork
from hw.host.axi import axi4_signature
from hw.host.axi_lite import axi_lite_signature
from hw.host.memory_port import MemoryPort
from hw.host.registers import Registers
from hw.interfaces import BEAT, ReaderRecord, SliceDispatch, accumulator_bits
from hw.merge import Merge
from hw.sequencer.sequencer import Sequencer
from hw.throttle import Links
from hw.vector.gather import Gather
from hw.vector.unit import LogitTap, VectorStatus, VectorUnit
from hw.verilog import Shared

__all__ = ["Headrace"]


class Headrace(Component):
    """A decode accelerator of ``config.channels`` LPDDR5X channels.

    Members: ``axil`` registers; ``axi`` memory; ``irq``; ``dfi``, one PHY a channel; ``logits``, a tap on the logits as
    they are computed, ``running``, ``counting`` (the clocks that the counters count), ``vector`` and ``status`` of the
    channels, for benches and counters outside.

    *timing* replaces the preset's LPDDR5X timing in the controllers; *stalls*, above 0, is the seed of random stalls in
    every stream (for tests).
    """

    def __init__(self, config: Config, timing=None, stalls=0):
        self._config = config
        self._stalls = stalls
        channel = Channel(config, timing, stalls)
        self.shared = [Shared(channel, "headrace_channel") for _ in range(config.channels)]
        super().__init__({
            "axil": In(axi_lite_signature()),
            "axi": In(axi4_signature()),
            "irq": Out(1),
            "dfi": Out(dfi_signature()).array(config.channels),
            "logits": Out(LogitTap(config)),
            "running": Out(1),
            "counting": Out(1),
            "vector": Out(VectorStatus),
            "status": Out(channel_status_signature(config)).array(config.channels),
        })

    def elaborate(self, platform):
        config = self._config
        channels = self.shared
        m = Module()
        m.submodules.registers = registers = Registers(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.abort = abort = Abort()

        def cleared(name, component):
            return Shared(component, f"headrace_{name}", abort.halt)

        m.submodules.record_fork = record_fork = cleared("record_fork", Fork(ReaderRecord(config), config.channels))
        m.submodules.slice_fork = slice_fork = cleared("slice_fork", Fork(SliceDispatch(config), config.channels))
        m.submodules.gather_results = results = cleared(
            "gather_results", Gather(signed(accumulator_bits(config)), config.channels, config.lanes))
        m.submodules.gather_beats = beats = cleared("gather_beats", Gather(BEAT, config.channels))
        m.submodules.merge = merge = cleared("merge", Merge(config))
        m.submodules.vector = vector = cleared("vector_unit", VectorUnit(config))
        m.submodules.logit_writer = logit_writer = cleared("logit_writer", LogitWriter(config))
        m.submodules.memory_port = memory_port = MemoryPort(config)
        m.submodules.counters = counters = Counters(config)

        # host
        connect(m, flipped(self.axil), registers.axil)
        connect(m, flipped(self.axi), memory_port.axi)
        m.d.comb += [
            self.irq.eq(registers.irq),
            sequencer.settings.eq(registers.settings),
            sequencer.start.eq(registers.start & ~registers.cancel & ~abort.busy),
            sequencer.cancel.eq(registers.cancel), sequencer.program_valid.eq(registers.program_valid),
            sequencer.program.eq(registers.program), sequencer.watchdog.eq(registers.watchdog),
            sequencer.ready.eq(registers.ready),
            abort.start.eq(registers.cancel), abort.drained.eq(Cat(c.status.drained for c in channels).all()),
            registers.aborting.eq(abort.busy), memory_port.restart.eq(abort.clear),
            registers.busy.eq(sequencer.busy | abort.busy), registers.done.eq(sequencer.done),
            registers.failed.eq(sequencer.failed), registers.error.eq(sequencer.error),
            registers.vector_error.eq(vector.error), vector.clear_error.eq(registers.start),
            registers.ready.eq(Cat(c.status.ready for c in channels).all()),
            registers.counters.eq(counters.values), counters.clear.eq(registers.clear_counters),
            counters.enable.eq(sequencer.counting), self.running.eq(sequencer.busy),
            self.counting.eq(sequencer.counting), self.vector.eq(vector.status),
        ]
        connect(m, sequencer.tokens, registers.tokens)

        # programs to readers, slices and the vector unit
        links = Links(m, self._stalls)
        links.add(sequencer.records, record_fork.i)
        links.add(sequencer.slices, slice_fork.i)
        links.add(sequencer.vectors, vector.records)

        for n, channel in enumerate(channels):
            m.submodules[f"channel_{n}"] = channel
            connect(m, record_fork.o[n], channel.records)
            connect(m, slice_fork.o[n], channel.dispatch)
            connect(m, vector.operand, channel.operand)
            connect(m, merge.merged_maximum, channel.merged_maximum)
            connect(m, channel.results, results.i[n])
            connect(m, channel.vector, beats.i[n])
            connect(m, channel.maximum, merge.maximum[n])
            connect(m, channel.partial, merge.partial[n])
            connect(m, memory_port.read[n], channel.host_read)
            connect(m, memory_port.write[n], channel.host_write)
            connect(m, logit_writer.write[n], channel.logit_write)
            connect(m, channel.dfi, flipped(self.dfi[n]))
            connect(m, channel.status, flipped(self.status[n]))
            m.d.comb += [
                channel.channel.eq(n), channel.geometry.eq(registers.geometry),
                channel.bounded.eq(registers.constants.logits), channel.flush.eq(logit_writer.flush),
                channel.halt.eq(abort.halt), channel.clear.eq(abort.clear),
                sequencer.status[n].eq(channel.status.slice),
                channel.position.eq(sequencer.position), counters.cause[n].eq(channel.status.cause),
            ]

        # results to the vector unit, operands back
        links.add(results.o, vector.results)
        links.add(merge.merged, vector.merged)
        links.add(vector.logit_beats, logit_writer.logits)
        connect(m, vector.logits, flipped(self.logits))
        constants = registers.constants
        m.d.comb += [
            vector.beats.valid.eq(beats.o.valid), vector.beats.payload.eq(beats.o.payload[0]),
            beats.o.ready.eq(vector.beats.ready),
            vector.geometry.eq(registers.geometry), merge.geometry.eq(registers.geometry),
            vector.reciprocal.eq(constants.inverse_hidden), vector.eps.eq(constants.epsilon),
            vector.query_scale.eq(constants.query_scale), vector.logits_enable.eq(constants.logits),
            logit_writer.base.eq(constants.logits_base),
            sequencer.token_valid.eq(vector.token.valid), sequencer.token.eq(vector.token.index),
            sequencer.vector_idle.eq(~vector.busy & logit_writer.idle),
            sequencer.slices_idle.eq(Cat(c.status.slice_idle for c in channels).all()),
            sequencer.left.eq(Cat(c.status.left for c in channels).any()),
            sequencer.logits_fault.eq(logit_writer.fault), sequencer.kv_heads.eq(registers.geometry.kv_heads),
            sequencer.table_fault.eq(Cat(c.status.fault for c in channels).any()),
        ]
        for n, channel in reversed(list(enumerate(channels))):
            with m.If(channel.status.fault):
                m.d.comb += sequencer.table_channel.eq(n)
        return m
