"""One module of Amaranth's RTLIL as values.

Only what Amaranth writes is understood. A spec (some bits in a row) is a tuple of :class:`Bits` and :class:`Const`,
lowest bits first.
"""

import re
from dataclasses import dataclass, field

__all__ = ["Assign", "Bits", "Cell", "Const", "Memory", "Module", "Switch", "Wire", "parse", "width_of"]


@dataclass(frozen=True)
class Bits:
    """``width`` bits of a wire from bit ``low`` up."""

    wire: str
    low: int
    width: int


@dataclass(frozen=True)
class Const:
    """``width`` constant bits."""

    value: int
    width: int


@dataclass
class Wire:
    """A wire. ``direction`` is "input", "output" or None; ``init`` the value after configuration, None for no register.

    ``values`` are the names of an enumeration's values.
    """

    name: str
    width: int
    direction: str | None = None
    init: int | None = None
    values: dict = field(default_factory=dict)

    @property
    def named(self):
        return self.name.startswith("\\")


@dataclass
class Cell:
    """An operator, register, memory port or instance. ``ports`` are specs, ``parameters`` integers or strings."""

    kind: str
    name: str
    parameters: dict = field(default_factory=dict)
    ports: dict = field(default_factory=dict)


@dataclass
class Memory:
    """Storage; its initial rows are in ``init``."""

    name: str
    width: int
    depth: int
    init: list = field(default_factory=list)


@dataclass
class Assign:
    """Drives the bits *lhs* (one :class:`Bits`) with the spec *rhs*; of two, the later counts."""

    lhs: Bits
    rhs: tuple


@dataclass
class Switch:
    """First of ``cases``, (patterns, body), of which a pattern fits; a pattern has 0, 1 and -; no patterns fit all."""

    selector: tuple
    cases: list


@dataclass
class Module:
    """``processes`` are bodies: lists of :class:`Assign` and :class:`Switch` of which the first drives all bits."""

    name: str
    wires: dict = field(default_factory=dict)
    cells: list = field(default_factory=list)
    memories: dict = field(default_factory=dict)
    processes: list = field(default_factory=list)
    connections: list = field(default_factory=list)  # (spec of one Bits, spec)


def width_of(spec):
    """Bits in *spec*."""
    return sum(part.width for part in spec)


TOKEN = re.compile(r"(\d+)'([01x]*)|([\\$]\S+)(?: \[(\d+)(?::(\d+))?\])?")


def parse(text):
    """The :class:`Module` that *text* describes."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text):
        self.lines = iter(line.strip() for line in text.splitlines() if line.strip())
        self.attributes = {}

    def module(self):
        for line in self.lines:
            word, _, rest = line.partition(" ")
            if word == "attribute":
                self.attribute(rest)
                continue
            if word == "module":
                self.parsed = Module(rest[1:])
            elif word == "wire":
                self.wire(rest)
            elif word == "memory":
                self.memory(rest)
            elif word == "cell":
                self.cell(rest)
            elif word == "process":
                body = self.body()[0]
                if body:
                    self.parsed.processes.append(body)
            elif word == "connect":
                left, right = self.two_specs(rest)
                if left:  # wires may have no bits
                    self.parsed.connections.append((left[0], right))
            elif word == "end":
                return self.parsed
            else:
                raise ValueError(f"unexpected RTLIL: {line}")
            self.attributes = {}
        raise ValueError("RTLIL ends inside a module")

    def attribute(self, rest):
        name, _, value = rest.partition(" ")
        self.attributes[name[1:]] = value

    def wire(self, rest):
        words = rest.split()
        wire = Wire(words[-1], int(words[1]))
        for direction in ("input", "output"):
            if direction in words[2:-1]:
                wire.direction = direction
        for name, value in self.attributes.items():
            if name == "init":
                wire.init = int(value.partition("'")[2] or "0", 2)
            elif name.startswith("enum_value_"):
                wire.values[int(name.removeprefix("enum_value_") or "0", 2)] = value.strip('"')
        self.parsed.wires[wire.name] = wire

    def memory(self, rest):
        words = rest.split()
        self.parsed.memories[words[-1]] = Memory(words[-1], int(words[1]), int(words[3]))

    def cell(self, rest):
        kind, name = rest.split()
        cell = Cell(kind, name)
        for line in self.lines:
            word, _, rest = line.partition(" ")
            if word == "end":
                break
            name, _, value = rest.partition(" ")
            if word == "parameter":
                cell.parameters[name[1:]] = _parameter(value)
            elif kind == "$meminit_v2" and name == "\\DATA":
                cell.ports["DATA"] = value.partition("'")[2]
            elif (spec := self.spec(value)) or not kind.startswith("\\"):  # ports of instances without bits are none
                cell.ports[name[1:]] = spec
        if kind == "$meminit_v2":
            memory = self.parsed.memories[cell.parameters["MEMID"]]
            bits, width = cell.ports["DATA"], memory.width
            memory.init = [int(bits[end - width:end], 2) for end in range(len(bits), 0, -width)]
        elif cell.ports.get("Y", cell.ports.get("Q")) != ():
            self.parsed.cells.append(cell)

    def body(self):
        """(statements, the line that ended them)."""
        statements = []
        for line in self.lines:
            word, _, rest = line.partition(" ")
            if word == "assign":
                left, right = self.two_specs(rest)
                if left:
                    statements.append(Assign(left[0], right))
            elif word == "switch":
                statements.append(self.switch(self.spec(rest)))
            else:
                return statements, line
        raise ValueError("RTLIL ends inside a process")

    def switch(self, selector):
        line = next(self.lines)
        cases = []
        while line != "end":
            patterns = [pattern.partition("'")[2] for pattern in line.removeprefix("case").split(",") if pattern]
            body, line = self.body()
            cases.append((patterns, body))
        return Switch(selector, cases)

    def two_specs(self, text):
        """The left spec, one wire or part of it, and the right one."""
        first = TOKEN.match(text)
        return self.spec(first[0]), self.spec(text[first.end():])

    def spec(self, text):
        parts = []
        for width, digits, wire, high, low in TOKEN.findall(text):
            if wire:
                known = self.parsed.wires[wire]
                top = int(high) if high else known.width - 1
                bottom = int(low) if low else int(high) if high else 0
                if top >= bottom:
                    parts.append(Bits(wire, bottom, top - bottom + 1))
            elif int(width):
                parts.append(Const(int(digits.replace("x", "0"), 2), int(width)))
        return tuple(reversed(parts))


def _parameter(text):
    """Integers as such, constants of bits as integers, texts without their quotes."""
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if "'" in text:
        return int(text.partition("'")[2].replace("x", "0") or "0", 2)
    return int(text)
