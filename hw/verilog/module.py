"""The text of one module."""

import re
import textwrap
from collections import defaultdict

from hw.verilog.bodies import bits_of, is_reset
from hw.verilog.expressions import Expressions, literal
from hw.verilog.netlist import Netlist
from hw.verilog.rtlil import Bits, Const
from hw.verilog.statements import indented, written

__all__ = ["KEYWORDS", "module_text"]

WIDTH = 110
"""Columns of a line where it can be broken."""

KEYWORDS = frozenset(
    "accept_on alias always and assert assign assume automatic before begin bind bins bit break buf byte case cell "
    "chandle checker class clocking config const constraint context continue cover cross deassign default defparam "
    "design disable dist do edge else end enum event expect export extends extern final first_match for force foreach "
    "forever fork function generate genvar global if iff ifnone import incdir include initial inout input inside "
    "instance int integer interface intersect join large let liblist library local logic longint macromodule matches "
    "medium modport module nand negedge new nexttime nmos nor not null or output package packed parameter pmos posedge "
    "primitive priority program property protected pull0 pull1 pulldown pullup pure rand real realtime ref reg release "
    "repeat restrict return scalared sequence shortint shortreal signed small solve specify static string strong "
    "struct super supply0 supply1 table tagged task this throughout time timeprecision timeunit tran tri tri0 tri1 "
    "type typedef union unique unique0 unsigned until untyped use uwire var vectored virtual void wait wand weak while "
    "wildcard wire with within wor xnor xor".split())


def module_text(netlist: Netlist, ports, header):
    """SystemVerilog of *netlist*: its *ports* in order, *header* a list of lines put before it as comments."""
    return _Writer(netlist, ports).text(header)


class _Writer:
    def __init__(self, netlist, ports):
        self.netlist = netlist
        self.module = netlist.module
        self.ports = [self.module.wires[f"\\{port}"] for port in ports]
        self.taken = set(KEYWORDS)
        self.names = {}
        self.name_everything()
        self.expressions = Expressions(netlist, self.names, lambda kind: self.free(kind, number=True))

    def free(self, name, number=False):
        """An identifier like *name* that nothing has; with *number* always one with a number."""
        name = re.sub(r"\W+", "__", re.sub(r"\$\d+(?=\W|$)", "", name.lstrip("\\$"))).strip("_") or "signal"
        candidate, count = f"{name}_1" if number else name, 1
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def name_everything(self):
        """Ports keep their names; what only joins instances is called after instance and port."""
        for wire in self.ports:
            self.names[wire.name] = escaped(wire.name[1:])
            self.taken.add(wire.name[1:])
        self.instance_names = {}
        for cell in self.netlist.instances:
            own = re.sub(r"\$\d+$", "", cell.name[1:])  # a port of the same name inside would hide it
            self.instance_names[id(cell)] = self.free(f"{own}_instance" if own in cell.ports else own)
        for cell in self.netlist.instances:
            outputs = self.netlist.outputs_of(cell)
            for port, spec in cell.ports.items():
                part = spec[0] if len(spec) == 1 else None
                if isinstance(part, Bits) and part.wire not in self.names and self.is_whole(part):
                    own = re.sub(r"\$\d+$", "", part.wire[1:])
                    if port in outputs or (own == port and self.module.wires[part.wire].named):
                        self.names[part.wire] = self.free(f"{self.instance_names[id(cell)]}__{port}")
        for name in self.module.memories:
            self.names[name] = self.free(name)
        for wire in self.driven():
            if wire not in self.names and self.netlist.named(wire):
                self.names[wire] = self.free(self.netlist.aliases.get(wire, wire))
        for wire in self.driven(operators=False):
            if wire not in self.names:
                self.names[wire] = self.free("value", number=True)
        for wire in self.netlist.fields.values():
            if wire not in self.names:
                self.names[wire] = self.free(wire)

    def is_whole(self, part):
        return part.width == self.module.wires[part.wire].width

    def driven(self, operators=True):
        """Wires that something in the module drives."""
        netlist = self.netlist
        yield from (register.wire for register in netlist.registers)
        yield from (wire for wires in netlist.bodies for wire in wires)
        yield from netlist.assigned
        yield from (cell.ports["DATA"][0].wire for cell in netlist.reads
                    if operators or cell.parameters["CLK_ENABLE"])
        if operators:
            yield from netlist.operators

    def text(self, header):
        lines = [f"// {line}".rstrip() for line in header]
        lines += ["", "`default_nettype none", "", f"module {escaped(self.module.name)} ("]
        registers = {register.wire for register in self.netlist.registers}
        ports = [f"    {wire.direction:6} logic {_range(wire.width)}{self.names[wire.name]}"
                 + (f" = {literal(wire.init or 0, wire.width)}" if wire.name in registers else "")
                 for wire in self.ports]
        lines += [",\n".join(ports), ");"] if ports else [");"]
        instances = self.instances()
        inner = self.assignments()
        inner += self.processes()
        inner += self.memories()
        inner += self.checks()
        inner += instances
        inner += self.unused()
        lines += self.declarations() + inner
        lines += ["endmodule", "", "`default_nettype wire"]
        return "\n".join(_wrapped(line) for line in lines) + "\n"

    def declarations(self):
        """Signals, memories, and the fields that are read."""
        netlist, lines = self.netlist, []
        inits = {register.wire for register in netlist.registers}
        wires = dict.fromkeys(wire for wire in [*self.driven(operators=False), *self.expressions.stated, *self.joins]
                              if not self.module.wires[wire].direction)
        for wire in wires:
            known = self.module.wires[wire]
            self.expressions.name(wire)
            value = f" = {literal(known.init or 0, known.width)}" if wire in inits else ""
            lines.append(f"logic {_range(known.width)}{self.names[wire]}{value};")
        for name, memory in self.module.memories.items():
            lines.append(f"logic {_range(memory.width)}{self.names[name]} [0:{memory.depth - 1}];")
        for part, name in self.expressions.used_fields.items():
            lines.append(f"wire {_range(part.width)}{name} = {self.expressions.target(part)};")
        return indented(lines) + [""] if lines else []

    def assignments(self):
        lines = []
        for wire, spec in self.netlist.assigned.items():
            lines.append(f"assign {self.names[wire]} = {self.expressions.spec(spec)};")
        for wire, cell in self.expressions.stated.items():
            lines.append(f"assign {self.expressions.name(wire)} = {self.expressions.cell(cell)};")
        return indented(lines) + [""] if lines else []

    def processes(self):
        lines = []
        for body in self.netlist.bodies.values():
            lines += ["always_comb begin", *indented(written(body, self.expressions, "=")), "end", ""]
        for group in self.netlist.clocked:
            lines += [f"always_ff @(posedge {self.expressions.spec(group.clock)}) begin"]
            lines += indented(self.clocked(group.body)) + ["end", ""]
        return indented(lines)

    def clocked(self, body):
        """Lines of a process; the reset, last in *body*, first."""
        if not is_reset(body[-1]):
            return written(body, self.expressions, "<=")
        (_, reset), = body[-1].cases
        lines = ["if (rst) begin", *indented(written(reset, self.expressions, "<="))]
        rest = written(body[:-1], self.expressions, "<=")
        return [*lines, "end else begin", *indented(rest), "end"] if rest else [*lines, "end"]

    def memories(self):
        lines = []
        if self.module.memories:
            lines += ["initial begin", *indented(self.initial()), "end", ""]
        for name, memory in self.module.memories.items():
            writes = [cell for cell in self.netlist.writes if cell.parameters["MEMID"] == name]
            if writes:
                body = [line for cell in writes for line in self.write(name, memory, cell)]
                clock = self.expressions.spec(writes[0].ports["CLK"])
                lines += [f"always @(posedge {clock}) begin", *indented(body), "end", ""]
            for cell in self.netlist.reads:
                if cell.parameters["MEMID"] == name and cell.parameters["CLK_ENABLE"]:
                    clock = self.expressions.spec(cell.ports["CLK"])
                    body = self.read(name, memory, cell, writes)
                    lines += [f"always_ff @(posedge {clock}) begin", *indented(body), "end", ""]
        return indented(lines)

    def initial(self):
        """Statements that set the rows of the memories; one loop for all of a depth, as Verilator unrolls every one."""
        lines, alike, count = [], defaultdict(list), self.free("i")
        for name, memory in self.module.memories.items():
            if len(set(memory.init)) > 1:
                lines += [f"{self.names[name]}[{row}] = {literal(value, memory.width)};"
                          for row, value in enumerate(memory.init)]
            else:
                value = literal(memory.init[0] if memory.init else 0, memory.width)
                alike[memory.depth].append(f"{self.names[name]}[{count}] = {value};")
        for depth, inner in alike.items():
            head = f"for (int {count} = 0; {count} < {depth}; {count} = {count} + 1)"
            lines += [f"{head} {inner[0]}"] if len(inner) == 1 else [f"{head} begin", *indented(inner), "end"]
        return lines

    def write(self, name, memory, cell):
        """Lines of a write port; a line for each run of bits with one enable."""
        lines, at = [], 0
        row = f"{self.names[name]}[{self.expressions.index(cell.ports['ADDR'], memory.depth)}]"
        for enable, width in _runs(cell.ports["EN"]):
            data = self.expressions.spec(bits_of(cell.ports["DATA"], at, width))
            target = row if width == memory.width else f"{row}[{at + width - 1}:{at}]"
            condition = "" if enable == Const(1, 1) else f"if ({self.expressions.spec((enable,))}) "
            lines.append(f"{condition}{target} <= {data};")
            at += width
        return lines

    def read(self, name, memory, cell, writes):
        """Lines of a clocked read port; of a row that is being written it gives the old data, or the new."""
        data = self.names[cell.ports["DATA"][0].wire]
        address = self.expressions.index(cell.ports["ADDR"], memory.depth)
        lines = [f"{data} <= {self.names[name]}[{address}];"]
        for write in writes:
            if cell.parameters["TRANSPARENCY_MASK"] >> write.parameters["PORTID"] & 1:
                (enable, _), = _runs(write.ports["EN"])
                there = self.expressions.index(write.ports["ADDR"], memory.depth)
                condition = f"{self.expressions.spec((enable,))} && {there} == {address}"
                lines.append(f"if ({condition}) {data} <= {self.expressions.spec(write.ports['DATA'])};")
        if cell.ports["EN"] != (Const(1, 1),):
            lines = [f"if ({self.expressions.spec(cell.ports['EN'])}) begin", *indented(lines), "end"]
        return lines

    def checks(self):
        """Assertions, for simulation only."""
        lines = []
        for cell in self.netlist.checks:
            if cell.parameters["FLAVOR"] != "assert" or cell.parameters["ARGS_WIDTH"]:
                raise ValueError(f"a {cell.parameters['FLAVOR']} that prints values is not written")
            enable = self.expressions.spec(cell.ports["EN"])
            head = "" if enable == "1'b1" else f"if ({enable}) "
            lines.append(f"always_ff @(posedge {self.expressions.spec(cell.ports['TRG'])})")
            lines.append(f"    {head}assert ({self.expressions.spec(cell.ports['A'])}) "
                         f'else $error("{cell.parameters["FORMAT"]}");')
        return indented(["`ifndef SYNTHESIS", *lines, "`endif", ""]) if lines else []

    def instances(self):
        lines, self.joins = [], []
        for cell in self.netlist.instances:
            outputs = self.netlist.outputs_of(cell)
            ports = []
            for port, spec in cell.ports.items():
                if port in outputs:
                    wire = spec[0].wire
                    if wire not in self.expressions.bits_read and not self.module.wires[wire].direction:
                        self.names[wire] = self.free(f"{self.names[wire]}_unused")
                    self.joins.append(wire)
                    ports.append(f".{escaped(port)}({self.names[wire]})")
                else:
                    ports.append(f".{escaped(port)}({self.expressions.spec(spec)})")
            lines += [f"{cell.kind[1:]} {self.instance_names[id(cell)]} (",
                      ",\n".join(indented(ports)), ");", ""]
        return indented("\n".join(lines).split("\n"))

    def unused(self):
        """Bits that nothing reads, named so that a linter knows that they are known."""
        parts = []
        wires = [wire.name for wire in self.ports if wire.direction == "input"]
        wires += [*self.driven(operators=False), *self.expressions.stated, *self.joins]
        for wire in dict.fromkeys(wires):
            known = self.module.wires[wire]
            left = ((1 << known.width) - 1) & ~self.expressions.bits_read.get(wire, 0)
            if known.direction == "output" or self.names[wire].endswith("_unused"):
                continue
            parts += [self.expressions.target(Bits(wire, low, width)) for low, width in _ones(left)]
        if not parts:
            return []
        name = self.free("unused")
        return indented(["// Bits that are not used here.", f"wire {name} = &{{1'b0, {', '.join(parts)}}};", ""])


def escaped(name):
    """A port's *name* as an identifier."""
    return f"\\{name} " if name in KEYWORDS else name


def _range(width):
    return f"[{width - 1}:0] " if width > 1 else ""


def _ones(mask):
    """(lowest bit, length) of each run of ones."""
    low = 0
    while mask >> low:
        if mask >> low & 1:
            width = 1
            while mask >> (low + width) & 1:
                width += 1
            yield low, width
            low += width
        else:
            low += 1


def _runs(spec):
    """[(one-bit part, how often it comes in a row)] of *spec*."""
    runs = []
    for part in spec:
        for bit in range(part.width):
            one = (Const(part.value >> bit & 1, 1) if isinstance(part, Const)
                   else Bits(part.wire, part.low + bit, 1))
            if runs and runs[-1][0] == one:
                runs[-1][1] += 1
            else:
                runs.append([one, 1])
    return runs


def _wrapped(line):
    """*line* broken at spaces where it is too long."""
    if len(line) <= WIDTH or "\n" in line:
        return "\n".join(_wrapped(part) for part in line.split("\n")) if "\n" in line else line
    indent = " " * (len(line) - len(line.lstrip()))
    mark = "// " if line.lstrip().startswith("//") else "    "
    return textwrap.fill(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent + mark,
                         break_long_words=False, break_on_hyphens=False)
