"""Traffic for one channel, made and checked in hardware so that no Python runs while clocks pass."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.dram.causes import Cause
from hw.dram.controller import ChannelController
from hw.interfaces import BEAT
from sim.lpddr.device import Device
from sim.lpddr.table import device_timing as timing_of
from sim.tb.dram_rig import join

__all__ = ["Pattern", "StreamBench"]


OWED_MOST = 64
"""Writes that MIX lets fall behind its reads."""


class Pattern(enum.Enum, shape=3):
    """What is asked of the channel."""

    STREAM = 0  # sequential reads, whole rows
    MIX = 1  # sequential reads, and one sequential write after every nine read beats
    RANDOM2K = 2  # 2 KB chunks (64 beats) at random places
    CONFLICT = 3  # sequential rows of one bank pair: no row can be opened under the burst before it
    STALL = 4  # sequential reads; in turn 2**16 clocks with credits and 2**16 clocks without
    BURSTS = 5  # sequential reads; in turn 2**12 clocks with a request and 2**12 clocks without


class _Chunks(Component):
    """Sequence of chunks: ``beat``, ``last``; the next one with ``next``."""

    def __init__(self, pattern, beat_bits, seed):
        self._pattern, self._seed = pattern, seed
        super().__init__({"next": In(1), "beat": Out(beat_bits), "last": Out(7)})

    def elaborate(self, platform):
        m = Module()
        if self._pattern is not Pattern.RANDOM2K:
            count = Signal(len(self.beat) - 8)  # lower half of the memory
            step = 10 if self._pattern is Pattern.CONFLICT else 7
            m.d.comb += [self.beat.eq(count << step), self.last.eq(127)]
            with m.If(self.next):
                m.d.sync += count.eq(count + 1)
            return m
        # Linear congruential, modulus 2**48 (constants of drand48); the upper bits are the place.
        state = Signal(48, init=(self._seed * 2**16 + 0x330E) % 2**48)
        m.d.comb += [self.beat.eq(state[48 - (len(self.beat) - 6):] << 6), self.last.eq(63)]
        with m.If(self.next):
            m.d.sync += state.eq(state * 0x5DEECE66D + 0xB)
        return m


def _contents(beat):
    """256 bits that tell a beat from all others, in every 32-bit word."""
    return Cat(Cat(beat, beat)[:32] ^ (0x9E3779B9 * (word + 1) % 2**32) for word in range(BEAT // 32))


class StreamBench(Component):
    """Controller, device and traffic of one channel. Counts from the first data beat for ``clocks`` clocks.

    Members: ``done``; ``data_clocks`` and so on: clocks of each :class:`hw.dram.causes.Cause`; ``errors``: read beats
    with the wrong data or written beats with the wrong data or place; the device's ``broken``, ``violations``,
    ``refreshes``, ``activates``, ``reads``, ``writes`` (not limited to the counted clocks).
    """

    def __init__(self, config: Config, pattern: Pattern, *, clocks=500_000, seed=1, timing=None, policy=None,
                 device_timing=None):
        self._pattern, self._clocks, self._seed = pattern, clocks, seed
        self._bits, self._fifo_beats = config.beat_address_bits, config.fifo_beats
        self._controller = ChannelController(config, timing, policy)
        self._device = Device(self._bits, device_timing or timing_of(config.density_gbit))
        super().__init__({
            "done": Out(1),
            **{f"{cause.name.lower()}_clocks": Out(32) for cause in Cause},
            "errors": Out(32),
            "broken": Out(len(self._device.broken)),
            **{name: Out(32) for name in ("violations", "refreshes", "activates", "reads", "writes")},
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = self._controller
        m.submodules.device = device = self._device
        join(m, controller, device)
        self._elaborate_reads(m, controller, device)
        self._elaborate_writes(m, controller, device)

        counting = Signal()
        elapsed = Signal(range(self._clocks + 1))
        started = Signal()
        m.d.comb += [
            started.eq(counting | (controller.cause == Cause.DATA)), self.done.eq(elapsed == self._clocks),
            self.broken.eq(device.broken),
            *(getattr(self, n).eq(getattr(device, n))
              for n in ("violations", "refreshes", "activates", "reads", "writes")),
        ]
        with m.If(started & ~self.done):
            m.d.sync += [counting.eq(1), elapsed.eq(elapsed + 1)]
            for cause in Cause:
                count = getattr(self, f"{cause.name.lower()}_clocks")
                with m.If(controller.cause == cause):
                    m.d.sync += count.eq(count + 1)
        return m

    def _elaborate_reads(self, m, controller, device):
        m.submodules.asked = asked = _Chunks(self._pattern, self._bits, self._seed)
        m.submodules.expected = expected = _Chunks(self._pattern, self._bits, self._seed)
        offset = Signal(7)
        read = controller.read
        m.d.comb += [
            read.command.payload.beat.eq(asked.beat), read.command.payload.last.eq(asked.last),
            asked.next.eq(read.command.valid & read.command.ready),
            expected.next.eq(read.valid & (offset == expected.last)),
        ]
        self._elaborate_pace(m, read)
        fetched = Signal(self._bits)
        m.d.sync += fetched.eq(device.store.read_beat)
        m.d.comb += device.store.read_data.eq(_contents(fetched))
        self._read_error = Signal()
        m.d.comb += self._read_error.eq(read.valid & (read.data != _contents(expected.beat | offset)))
        with m.If(read.valid):
            m.d.sync += offset.eq(Mux(expected.next, 0, offset + 1))

    def _elaborate_pace(self, m, read):
        clock = Signal(17)
        owed = Signal(range(self._fifo_beats + 1))
        m.d.sync += clock.eq(clock + 1)
        m.d.comb += [read.command.valid.eq(1), read.credit.eq(read.valid)]
        if self._pattern is Pattern.BURSTS:
            m.d.comb += read.command.valid.eq(clock[12])
        if self._pattern is Pattern.STALL:
            m.d.comb += read.credit.eq(~clock[16] & (owed != 0))
            m.d.sync += owed.eq(owed + read.valid - read.credit)

    def _elaborate_writes(self, m, controller, device):
        write, store = controller.write, device.store
        upper = 1 << (self._bits - 1)
        sent, stored = Signal(self._bits - 1), Signal(self._bits - 1)
        owed = Signal(10)
        turns = Signal(range(9))
        place, wanted = Signal(self._bits), Signal(self._bits)
        error, took = Signal(), Signal()
        m.d.comb += [
            place.eq(sent | upper), wanted.eq(stored | upper), took.eq(write.beats.valid & write.beats.ready),
            write.beats.valid.eq(owed != 0), write.beats.payload.beat.eq(place),
            write.beats.payload.data.eq(_contents(place)),
            error.eq(store.write_valid & ((store.write_beat != wanted) | (store.write_data != _contents(wanted)))),
        ]
        if self._pattern is Pattern.MIX:
            earned = Signal()
            m.d.comb += earned.eq(controller.read_beat & (turns == 8))
            with m.If(controller.read_beat):
                m.d.sync += turns.eq(Mux(turns == 8, 0, turns + 1))
            m.d.sync += owed.eq(owed + earned - took)
            # Reads wait when writes fall behind, so that the mix stays nine to one.
            m.d.comb += controller.read.command.valid.eq(owed < OWED_MOST)
        m.d.sync += [sent.eq(sent + took), stored.eq(stored + store.write_valid)]
        m.d.sync += self.errors.eq(self.errors + (error | self._read_error))
