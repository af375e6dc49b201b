"""LPDDR5X device model of one x16 channel."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.dram.interface import dfi_signature
from hw.interfaces import BEAT
from sim.lpddr.checker import MASK_BITS, Checker
from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming, device_timing

__all__ = ["Device"]

_ADDRESSES = 16
"""Reads or writes on their way: one a clock for at most RL."""

_TRAINING_CLOCKS = 16


class Device(Component):
    """Sixteen banks in BG mode behind an ideal PHY, checked command by command.

    Read data is on the DFI bus RL after the RD, write data is taken WL after the WR. Traffic before the mode
    registers are set, or with registers that disagree with RL, WL, BG mode or WCK:CK 4:1, is refused. Not modelled:
    BL32, masked writes, auto-precharge, self-refresh, power-down, MRR, training (all reported as ILLEGAL).

    Members: ``dfi``. ``store``: ``read_valid`` with ``read_beat`` is a read that is due: ``read_data`` is wanted in the
    *next* clock; ``write_valid``, ``write_beat``, ``write_data``: commit at the end of this clock. A read never comes
    for a beat whose write commits later. ``violation``: ``valid`` for one clock, one clock after the command, with the
    lowest ``rule`` broken and the ``bank``. ``broken``: rules broken since reset, a bit a
    :class:`sim.lpddr.rules.Rule`; ``violations``: clocks with a violation; ``reads``, ``writes``, ``activates``,
    ``refreshes`` (REFpb; REFab counts eight): commands since reset, one clock late.
    """

    def __init__(self, beat_bits, timing: DeviceTiming | None = None):
        self._timing = timing or device_timing()
        self._beat_bits = beat_bits
        super().__init__({
            "dfi": In(dfi_signature()),
            "store": Out(Signature({
                "read_valid": Out(1), "read_beat": Out(beat_bits), "read_data": In(BEAT),
                "write_valid": Out(1), "write_beat": Out(beat_bits), "write_data": Out(BEAT),
            })),
            "violation": Out(Signature({"valid": Out(1), "rule": Out(range(MASK_BITS)), "bank": Out(4)})),
            "broken": Out(MASK_BITS),
            "violations": Out(32),
            "reads": Out(32),
            "writes": Out(32),
            "activates": Out(32),
            "refreshes": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.checker = checker = Checker(self._timing, self._beat_bits)
        dfi = self.dfi
        m.d.comb += [
            checker.p0.address.eq(dfi.p0.address), checker.p0.cs.eq(dfi.p0.cs),
            checker.p1.address.eq(dfi.p1.address), checker.p1.cs.eq(dfi.p1.cs), checker.wck_en.eq(dfi.wck_en),
        ]
        training = Signal(range(_TRAINING_CLOCKS + 1))
        with m.If(dfi.init_start & ~dfi.init_complete):
            m.d.sync += training.eq(training + 1)
        m.d.comb += dfi.init_complete.eq(training == _TRAINING_CLOCKS)

        self._elaborate_modes(m, checker)
        late_read, late_write = self._elaborate_data(m, checker)
        self._elaborate_report(m, checker, late_read, late_write)
        return m

    def _elaborate_modes(self, m, checker):
        """MR1, MR2, MR3, MR18 (register -> mask, value needed)."""
        needed = {1: (0xF0, 0xD0), 2: (0xFF, 0xDD), 3: (0x38, 0x00), 18: (0x90, 0x00)}
        written, good = Signal(len(needed)), Signal(len(needed))
        with m.If(checker.mode_write):
            for n, (register, (mask, value)) in enumerate(needed.items()):
                with m.If(checker.mode_register == register):
                    m.d.sync += [written[n].eq(1), good[n].eq((checker.mode_value & mask) == value)]
        m.d.comb += [checker.mode_ready.eq(written.all()), checker.mode_good.eq(good.all())]

    def _elaborate_data(self, m, checker):
        """Addresses wait in a queue and a bit a beat in a shift register, so that no data is delayed."""
        rl = [(phase + self._timing.rl) // 2 for phase in range(2)]
        wl = [(phase + self._timing.wl) // 2 for phase in range(2)]
        store, dfi = self.store, self.dfi

        def delay(kind, clocks):
            """Valid and address, each beat *clocks* (of its phase) after its command."""
            queue = Memory(shape=self._beat_bits, depth=_ADDRESSES, init=[])
            m.submodules[f"{kind}_addresses"] = queue
            write, read = queue.write_port(), queue.read_port(domain="comb")
            push = getattr(checker, kind)
            due = Signal(clocks[1], name=f"{kind}_due")
            pushed, popped = Signal(range(_ADDRESSES), name=f"{kind}_in"), Signal(range(_ADDRESSES), name=f"{kind}_out")
            m.d.comb += [
                write.addr.eq(pushed), write.en.eq(push), write.data.eq(checker.beat), read.addr.eq(popped),
            ]
            m.d.sync += [
                due.eq((due >> 1) | Mux(checker.late, push << (clocks[1] - 1), push << (clocks[0] - 1))),
                pushed.eq(pushed + push), popped.eq(popped + due[0]),
            ]
            return due[0], read.data

        read_valid, read_beat = delay("rd", [clocks - 1 for clocks in rl])
        write_valid, write_beat = delay("wr", wl)
        m.d.comb += [
            store.read_valid.eq(read_valid), store.read_beat.eq(read_beat), dfi.rddata.eq(store.read_data),
            store.write_valid.eq(write_valid & dfi.wrdata_en), store.write_beat.eq(write_beat),
            store.write_data.eq(dfi.wrdata),
        ]
        m.d.sync += dfi.rddata_valid.eq(read_valid)
        return dfi.rddata_en ^ dfi.rddata_valid, dfi.wrdata_en ^ write_valid

    def _elaborate_report(self, m, checker, late_read, late_write):
        broken = Signal(MASK_BITS)
        anything = Signal()
        m.d.comb += anything.eq(checker.broken.any() | late_read | late_write)
        with m.If(anything):
            m.d.comb += broken.eq(checker.broken | (late_read << Rule.RL) | (late_write << Rule.WL))
        m.d.sync += self.violation.valid.eq(anything)
        with m.If(anything):
            m.d.sync += [
                self.violation.bank.eq(checker.bank), self.broken.eq(self.broken | broken),
                self.violations.eq(self.violations + 1),
            ]
            for rule in reversed(range(MASK_BITS)):
                with m.If(broken[rule]):
                    m.d.sync += self.violation.rule.eq(rule)
        with m.If(checker.rd):
            m.d.sync += self.reads.eq(self.reads + 1)
        with m.If(checker.wr):
            m.d.sync += self.writes.eq(self.writes + 1)
        with m.If(checker.activated):
            m.d.sync += self.activates.eq(self.activates + 1)
        with m.If(checker.refreshed_pairs != 0):
            m.d.sync += self.refreshes.eq(self.refreshes + checker.refreshed_pairs)
