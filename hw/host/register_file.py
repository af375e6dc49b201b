"""Registers made from the register map: storage, pulses, events and inputs behind the register bus."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.host.axi_lite import register_bus_signature
from hw.host.register_map import FieldKind, RegisterMap

__all__ = ["RegisterFile"]


def layout_of(registers, *kinds):
    """Struct of the registers that have fields of *kinds*, each a struct of those fields."""
    structs = {}
    for name, register in registers.items():
        fields = {f: field.width for f, field in register.fields.items() if field.kind in kinds}
        if fields:
            structs[name] = StructLayout(fields)
    return StructLayout(structs)


class RegisterFile(Component):
    """All registers and windows of a map.

    Members: ``bus``; ``values``, a struct of the registers' storage, pulse and event fields; ``inputs``, fields that
    software reads; ``events``, a 1 sets the event field (and wins over clearing it); ``taken``, a pulse when a
    register with ``read_takes`` is read; ``window_write``, a pulse a window, with ``window_word`` and ``window_data``,
    refused while ``window_locked``.

    An address without a register, and a window read or not written whole, is an error. Bytes are written singly.
    """

    def __init__(self, registers: RegisterMap):
        self._map = registers
        by_name = registers.registers
        resets = {name: {f: field.reset for f, field in register.fields.items() if field.kind is FieldKind.STORAGE}
                  for name, register in by_name.items()}
        super().__init__({
            "bus": In(register_bus_signature()),
            "values": Out(layout_of(by_name, FieldKind.STORAGE, FieldKind.PULSE, FieldKind.EVENT),
                          init={name: fields for name, fields in resets.items() if fields}),
            "inputs": In(layout_of(by_name, FieldKind.INPUT)),
            "events": In(layout_of(by_name, FieldKind.EVENT)),
            "taken": Out(StructLayout({name: 1 for name, r in by_name.items() if r.read_takes})),
            "window_write": Out(StructLayout({name: 1 for name in registers.windows})),
            "window_word": Out(range(max(w.words for w in registers.windows.values()))),
            "window_data": Out(32),
            "window_locked": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        mask = Signal(32)
        m.d.comb += [
            mask.eq(Cat(bit.replicate(8) for bit in bus.strobe)),
            self.window_word.eq(bus.word),
            self.window_data.eq(bus.data),
        ]
        for name, register in self._map.registers.items():
            for field_name, field in register.fields.items():
                if field.kind is FieldKind.PULSE:
                    m.d.sync += self.values[name][field_name].eq(0)
        with m.Switch(bus.word):
            for register in self._map.registers.values():
                for part in range(register.bits // 32):
                    with m.Case(register.address // 4 + part):
                        self._access(m, register, 32 * part, mask)
            for window in self._map.windows.values():
                first = window.address // 4
                if first % window.words:
                    raise ValueError(f"window {window.name} at {window.address:#x} is not aligned to its size")
                low = (window.words - 1).bit_length()
                with m.Case(f"{first >> low:0{len(bus.word) - low}b}" + "-" * low):
                    good = bus.strobe.all() & ~self.window_locked
                    m.d.comb += [self.window_write[window.name].eq(bus.write & good), bus.error.eq(bus.read | ~good)]
            with m.Default():
                m.d.comb += bus.error.eq(1)
        for name in dict(self.events.shape()):
            for field in dict(self.events[name].shape()):
                with m.If(self.events[name][field]):
                    m.d.sync += self.values[name][field].eq(1)
        return m

    def _access(self, m, register, low, mask):
        """Reading and writing of the 32 bits from *low* of a register."""
        bus, name = self.bus, register.name
        if register.read_takes:
            m.d.comb += self.taken[name].eq(bus.read)
        for field_name, field in register.fields.items():
            begin, end = max(field.low, low), min(field.low + field.width, low + 32)
            if begin >= end:
                continue
            part = slice(begin - field.low, end - field.low)
            place = slice(begin - low, end - low)
            match field.kind:
                case FieldKind.CONSTANT:
                    m.d.comb += bus.result[place].eq(field.reset >> part.start)
                case FieldKind.INPUT:
                    m.d.comb += bus.result[place].eq(Value.cast(self.inputs[name][field_name])[part])
                case FieldKind.PULSE:
                    with m.If(bus.write):
                        m.d.sync += self.values[name][field_name].eq((bus.data & mask)[place])
                case FieldKind.EVENT:
                    value = self.values[name][field_name]
                    m.d.comb += bus.result[place].eq(value)
                    with m.If(bus.write):
                        m.d.sync += value.eq(value & ~(bus.data & mask)[place])
                case FieldKind.STORAGE:
                    value = self.values[name][field_name]
                    m.d.comb += bus.result[place].eq(value)
                    with m.If(bus.write):
                        m.d.sync += value.eq((bus.data[place] & mask[place]) | (value & ~mask[place]))
