"""The register map as values, read from registers.rdl: addresses and fields by name, for hardware, driver and tests."""

from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from systemrdl import RDLCompiler
from systemrdl.node import MemNode, RegNode

__all__ = ["COUNTERS", "Field", "FieldKind", "Register", "RegisterMap", "Window", "register_map"]

COUNTERS = ("clocks", "data", "refresh", "activate_precharge", "turnaround", "no_request", "back_pressure")
"""Performance counters: clocks of runs, then channel clocks by cause, in the order of hw.dram.causes.Cause."""

SOURCE = Path(__file__).with_name("registers.rdl")


class FieldKind(Enum):
    """How a field behaves."""

    CONSTANT = "constant"
    STORAGE = "storage"  # written and read by software, read by hardware
    PULSE = "pulse"  # a written 1 lasts one clock
    EVENT = "event"  # set by hardware, a written 1 clears
    INPUT = "input"  # read by software, driven by hardware


@dataclass(frozen=True)
class Field:
    """Bits of a register."""

    low: int
    width: int
    kind: FieldKind
    reset: int
    desc: str


@dataclass(frozen=True)
class Register:
    """A register at a byte address; 64-bit ones are two words, low first."""

    name: str
    address: int
    bits: int
    fields: dict
    read_takes: bool  # reading it is told to the hardware
    desc: str

    def pack(self, **values):
        """Register value of field values, 0 where not named; ``ValueError`` for a name or value that doesn't fit."""
        word = 0
        for name, value in values.items():
            if name not in self.fields:
                raise ValueError(f"register {self.name} has no field {name}; fields: {', '.join(self.fields)}")
            field = self.fields[name]
            if not 0 <= value < 1 << field.width:
                raise ValueError(f"{self.name}.{name} is {value}; it has {field.width} bits")
            word |= value << field.low
        return word

    def unpack(self, word):
        """Field values of a register value."""
        return {name: word >> field.low & ((1 << field.width) - 1) for name, field in self.fields.items()}


@dataclass(frozen=True)
class Window:
    """A memory of 32-bit words, written only."""

    name: str
    address: int
    words: int


@dataclass(frozen=True)
class RegisterMap:
    """All registers and windows, by name."""

    registers: dict
    windows: dict

    def __getitem__(self, name):
        return self.registers[name]


def kind_of(field):
    """The :class:`FieldKind` of an RDL field."""
    if field.get_property("singlepulse"):
        return FieldKind.PULSE
    if field.get_property("hwset"):
        return FieldKind.EVENT
    if not field.is_sw_writable:
        return FieldKind.INPUT if field.is_hw_writable else FieldKind.CONSTANT
    return FieldKind.STORAGE


@cache
def register_map():
    """The :class:`RegisterMap` of registers.rdl."""
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE))
    registers, windows = {}, {}
    for node in compiler.elaborate().top.children(unroll=True):
        name = node.inst_name
        if isinstance(node, MemNode):
            windows[name] = Window(name, node.absolute_address, node.get_property("mementries"))
        elif isinstance(node, RegNode):
            fields = {f.inst_name: Field(f.low, f.width, kind_of(f), f.get_property("reset") or 0,
                                         f.get_property("desc") or "") for f in node.fields()}
            takes = any(f.get_property("swacc") for f in node.fields())
            registers[name] = Register(name, node.absolute_address, node.get_property("regwidth"), fields, takes,
                                       node.get_property("desc") or "")
    return RegisterMap(registers, windows)
