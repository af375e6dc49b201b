"""What a module's RTLIL means, simplified: dead logic left out, registers with their next value, widths narrowed."""

from collections import defaultdict
from dataclasses import dataclass, field

from hw.verilog.bodies import (
    bits_of,
    is_reset,
    joined,
    mapped,
    merged,
    pruned,
    retargeted,
    specs_of,
    straightened,
    without_empty,
)
from hw.verilog.rtlil import Assign, Bits, Module, width_of

__all__ = ["Netlist", "Register"]

OUTPUTS = {"$dff": "Q", "$memrd_v2": "DATA"}
"""Output port of a cell that isn't called Y."""

NARROW = ("$add", "$sub", "$mul", "$neg", "$not", "$and", "$or", "$xor", "$mux", "$shl")
"""Operators of which the lowest bits depend on the lowest bits of the operands only."""


@dataclass
class Register:
    """``wire`` takes what ``body`` assigns to it, else keeps its value, at a rising edge of ``clock``.

    Several joined have None as their wire.
    """

    wire: str | None
    clock: tuple
    body: list


@dataclass
class Netlist:
    """A module; every wire has one driver.

    ``operators``: output wire -> cell. ``bodies``: wires -> statements that drive them. ``assigned``: wire -> spec.
    ``fields``: bits of another wire that have a name of their own. ``outputs``: module name -> outputs -> the
    inputs that they depend on (:meth:`paths`).
    """

    module: Module
    outputs: dict
    operators: dict = field(default_factory=dict)
    bodies: dict = field(default_factory=dict)
    assigned: dict = field(default_factory=dict)
    registers: list = field(default_factory=list)
    clocked: list = field(default_factory=list)  # what the registers take, joined
    reads: list = field(default_factory=list)  # memory ports
    writes: list = field(default_factory=list)
    checks: list = field(default_factory=list)
    instances: list = field(default_factory=list)
    fields: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)  # wire without a name -> one that names all of it

    @classmethod
    def of(cls, module, outputs):
        """The netlist of *module*, which it uses up; *outputs* of the modules that it instances."""
        self = cls(module, outputs)
        self._sort()
        self._connect()
        self._fold_constants()
        self._take_next_values()
        self._remove_dead()
        self._narrow()
        self._remove_dead()
        self._name()
        self._join()
        return self

    def sources(self):
        """(output wire, wires or None, [input specs]) of everything there is, memory writes and instances too."""
        for wire, cell in self.operators.items():
            yield wire, list(self.inputs(cell))
        for wire, body in self.bodies.items():
            yield wire, list(specs_of(body))
        for wire, spec in self.assigned.items():
            yield wire, [spec]
        for register in self.clocked or self.registers:
            yield register.wire, [register.clock, *specs_of(register.body)]
        for cell in self.reads:
            yield cell.ports["DATA"][0].wire, list(self.inputs(cell))
        for cell in self.writes + self.checks + self.instances:
            yield None, list(self.inputs(cell))

    def inputs(self, cell):
        """Specs that *cell* reads."""
        outputs = self.outputs_of(cell)
        if cell.kind == "$memrd_v2" and not cell.parameters["CLK_ENABLE"]:
            return [cell.ports["ADDR"]]
        return [spec for name, spec in cell.ports.items() if name not in outputs]

    def outputs_of(self, cell):
        """Names of the ports of *cell* that drive a wire."""
        return self.outputs[cell.kind[1:]].keys() if cell.kind.startswith("\\") else {OUTPUTS.get(cell.kind, "Y")}

    def _sort(self):
        """Gives every cell and process its place."""
        for cell in self.module.cells:
            if cell.kind == "$dff":
                wire, = cell.ports["Q"]
                self.registers.append(Register(wire.wire, cell.ports["CLK"], [Assign(wire, cell.ports["D"])]))
            elif cell.kind == "$memrd_v2":
                self.reads.append(cell)
            elif cell.kind == "$memwr_v2":
                self.writes.append(cell)
            elif cell.kind == "$check":
                self.checks.append(cell)
            elif cell.kind.startswith("\\"):
                self.instances.append(cell)
            else:
                self.operators[cell.ports["Y"][0].wire] = cell

    def _connect(self):
        """Names of parts of other wires become fields; bodies that only assign become specs."""
        for left, right in self.module.connections:
            if self.module.wires[left.wire].direction == "output":
                self.assigned[left.wire] = right
            elif (len(right) == 1 and isinstance(right[0], Bits)
                    and right[0].width < self.module.wires[right[0].wire].width):
                self.fields.setdefault(right[0], left.wire)
        for body in self.module.processes:
            wire, body = body[0].lhs.wire, straightened(without_empty(body), self.module.wires)
            if len(body) == 1 and isinstance(body[0], Assign):
                self.assigned[wire] = body[0].rhs
            else:
                self.bodies[wire] = body

    def _fold_constants(self):
        """Wires without a name that are only another spec are replaced by it."""
        replaced = {wire: spec for wire, spec in self.assigned.items() if not self.module.wires[wire].named}
        if not replaced:
            return
        for wire in replaced:
            del self.assigned[wire]

        def substitute(spec):
            result = []
            for part in spec:
                if isinstance(part, Bits) and part.wire in replaced:
                    result += substitute(bits_of(replaced[part.wire], part.low, part.width))
                else:
                    result.append(part)
            return joined(result)

        self._map(substitute)

    def _map(self, change):
        """Applies *change* to every spec that is read."""
        for cell in [*self.operators.values(), *self.reads, *self.writes, *self.checks, *self.instances]:
            outputs = self.outputs_of(cell)
            for name, spec in cell.ports.items():
                if name not in outputs:
                    cell.ports[name] = change(spec)
        for wire, body in self.bodies.items():
            self.bodies[wire] = mapped(body, change)
        for wire, spec in self.assigned.items():
            self.assigned[wire] = change(spec)
        for register in self.registers:
            register.body = mapped(register.body, change)

    def _take_next_values(self):
        """A register takes over the statements of its next value if nobody else reads that."""
        readers = defaultdict(int)
        for _, specs in self.sources():
            for spec in specs:
                for part in spec:
                    if isinstance(part, Bits):
                        readers[part.wire] += 1
        for register in self.registers:
            target, value = register.body[0].lhs, register.body[0].rhs
            if len(value) == 1 and isinstance(value[0], Bits):
                wire = value[0].wire
                if (wire in self.bodies and readers[wire] == 1 and not self.module.wires[wire].named
                        and value[0].width == target.width):
                    register.body = retargeted(self.bodies.pop(wire), target.wire)
            first = register.body[0]
            if isinstance(first, Assign) and first.lhs.width == target.width and first.rhs == (target,):
                del register.body[0]

    def _remove_dead(self):
        """Leaves out what reaches no output, instance, memory or check."""
        reads = defaultdict(set)
        for wire, specs in self.sources():
            reads[wire] |= {part.wire for spec in specs for part in spec if isinstance(part, Bits)}
        memories = {cell.parameters["MEMID"]: set() for cell in self.writes}
        alive = set()
        pending = [wire.name for wire in self.module.wires.values() if wire.direction == "output"]
        for cell in self.checks + self.instances:
            pending += [part.wire for spec in self.inputs(cell) for part in spec if isinstance(part, Bits)]
        for cell in self.writes:
            memories[cell.parameters["MEMID"]] |= {part.wire for spec in self.inputs(cell) for part in spec
                                                   if isinstance(part, Bits)}
        readers = {cell.ports["DATA"][0].wire: cell.parameters["MEMID"] for cell in self.reads}
        while pending:
            wire = pending.pop()
            if wire not in alive:
                alive.add(wire)
                pending += reads[wire]
                if wire in readers:
                    pending += memories.get(readers[wire], ())
        self.operators = {wire: cell for wire, cell in self.operators.items() if wire in alive}
        self.bodies = {wire: body for wire, body in self.bodies.items() if wire in alive}
        self.assigned = {wire: spec for wire, spec in self.assigned.items() if wire in alive}
        self.registers = [register for register in self.registers if register.wire in alive]
        self.reads = [cell for cell in self.reads if cell.ports["DATA"][0].wire in alive]
        read = {cell.parameters["MEMID"] for cell in self.reads}
        self.writes = [cell for cell in self.writes if cell.parameters["MEMID"] in read]
        self.module.memories = {name: memory for name, memory in self.module.memories.items() if name in read}

    def _narrow(self):
        """Operators on wires without a name keep only the bits that are read; users before what they use."""
        order, seen = [], set()
        reads = {wire: {part.wire for spec in self.inputs(cell) for part in spec if isinstance(part, Bits)}
                 for wire, cell in self.operators.items()}

        def visit(wire):
            stack = [(wire, iter(sorted(reads[wire])))]
            seen.add(wire)
            while stack:
                current, others = stack[-1]
                following = next((w for w in others if w in reads and w not in seen), None)
                if following is None:
                    order.append(stack.pop()[0])
                else:
                    seen.add(following)
                    stack.append((following, iter(sorted(reads[following]))))

        for wire in self.operators:
            if wire not in seen:
                visit(wire)
        top = defaultdict(int)
        for wire, specs in self.sources():
            if wire not in self.operators:
                _raise_tops(top, specs)
        for wire in reversed(order):
            cell = self.operators[wire]
            known = self.module.wires[wire]
            if not known.named and cell.kind in NARROW and 0 < top[wire] < known.width:
                self._narrow_cell(cell, top[wire])
            _raise_tops(top, self.inputs(cell))

    def _name(self):
        """A name of all that is left of a wire becomes the wire's."""
        for part, name in list(self.fields.items()):
            wire = self.module.wires[part.wire]
            if not wire.named and part == Bits(part.wire, 0, wire.width):
                self.aliases[part.wire] = name
                del self.fields[part]

    def named(self, wire):
        """Whether *wire* has a name from the design."""
        return self.module.wires[wire].named or wire in self.aliases

    def _join(self):
        """Registers of one clock as one process, those with a reset apart from those without.

        Wires that the same switch decides are one process too, unless one of them depends on another.
        """
        groups = defaultdict(list)
        for register in self.registers:
            groups[register.clock, is_reset(register.body[-1])].append(register.body)
        self.clocked = [Register(None, clock, pruned(merged(bodies))) for (clock, _), bodies in groups.items()]

        reads = self._combinational()
        depends = {wire: _reached(reads, wire) for wire in self.bodies}
        groups = defaultdict(list)  # what decides -> lists of wires
        for wire, body in self.bodies.items():
            switch = body[1]
            places = groups[switch.selector, str([patterns for patterns, _ in switch.cases])]
            for place in places:
                if not any(other in depends[wire] or wire in depends[other] for other in place):
                    place.append(wire)
                    break
            else:
                places.append([wire])
        self.bodies = {tuple(wires): pruned(merged([self.bodies[wire] for wire in wires]))
                       for places in groups.values() for wires in places}

    def paths(self):
        """Output port -> inputs that it depends on without a register between."""
        reads = self._combinational()
        inputs = {wire.name for wire in self.module.wires.values() if wire.direction == "input"}
        return {wire.name[1:]: {name[1:] for name in _reached(reads, wire.name) & inputs}
                for wire in self.module.wires.values() if wire.direction == "output"}

    def _combinational(self):
        """Wire -> wires that it depends on directly, without a register between."""
        reads = defaultdict(set)
        for wires, specs in self.sources():
            for wire in [wires] if isinstance(wires, str) else wires or ():
                reads[wire] |= {part.wire for spec in specs for part in spec if isinstance(part, Bits)}
        for register in self.registers:
            reads[register.wire] = set()
        for cell in self.reads:
            if cell.parameters["CLK_ENABLE"]:
                reads[cell.ports["DATA"][0].wire] = set()
        for cell in self.instances:
            for port, inputs in self.outputs[cell.kind[1:]].items():
                reads[cell.ports[port][0].wire] |= {part.wire for name in inputs for part in cell.ports[name]
                                                    if isinstance(part, Bits)}
        return reads

    def _narrow_cell(self, cell, width):
        wire = cell.ports["Y"][0].wire
        self.module.wires[wire].width = width
        cell.ports["Y"] = (Bits(wire, 0, width),)
        for name in ("A", "B"):
            if name in cell.ports and not (cell.kind == "$shl" and name == "B"):
                spec = cell.ports[name]
                cell.ports[name] = bits_of(spec, 0, min(width, width_of(spec)))


def _reached(reads, wire):
    """What *wire* depends on by way of *reads*."""
    seen, pending = set(), list(reads[wire])
    while pending:
        other = pending.pop()
        if other not in seen:
            seen.add(other)
            pending += reads[other]
    return seen


def _raise_tops(top, specs):
    for spec in specs:
        for part in spec:
            if isinstance(part, Bits):
                top[part.wire] = max(top[part.wire], part.low + part.width)
