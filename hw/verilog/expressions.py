"""Operators as SystemVerilog expressions.

Verilog stretches the operands of an expression to the widest one round it. Here every operand is written with exactly
the width that its operator works with, so that no expression depends on where it stands.
"""

from collections import Counter
from dataclasses import dataclass

from hw.verilog.rtlil import Bits, Const, width_of

__all__ = ["Expressions", "literal"]

LONGEST = 64
"""Characters of an expression that is still written inside another."""

BINARY = {"$add": "+", "$sub": "-", "$mul": "*", "$and": "&", "$or": "|", "$xor": "^"}
COMPARE = {"$eq": "==", "$ne": "!=", "$lt": "<", "$le": "<=", "$gt": ">", "$ge": ">="}
REDUCE = {"$reduce_and": "&", "$reduce_or": "|", "$reduce_bool": "|", "$reduce_xor": "^"}
DIVIDE = {"$divfloor": "/", "$modfloor": "%"}

KINDS = {"$add": "sum", "$sub": "difference", "$mul": "product", "$neg": "negative", "$eq": "is_equal",
         "$ne": "is_different", "$lt": "is_below", "$le": "is_at_most", "$gt": "is_above", "$ge": "is_at_least",
         "$mux": "choice", "$shl": "shifted", "$shr": "shifted", "$sshr": "shifted", "$shift": "part",
         "$memrd_v2": "row", "$divfloor": "quotient", "$modfloor": "remainder"}
"""Names for what an operator gives where the design has none."""


@dataclass(frozen=True)
class Text:
    """An expression. ``atom``: needs no brackets round it. ``joins``: operator of a chain that it may go on."""

    text: str
    atom: bool = False
    joins: str = ""


class Expressions:
    """Expressions of a :class:`hw.verilog.netlist.Netlist`.

    *names*: wire -> identifier; *fresh* makes one like a text for a wire that has none. A wire without a name of its
    own that is read once, whole, is written as its expression where it is read; ``stated`` holds the cells of the
    others, which need an assignment.
    """

    def __init__(self, netlist, names, fresh):
        self._netlist = netlist
        self._names = names
        self._fresh = fresh
        self._module = netlist.module
        self._fields = {bits: names[wire] for bits, wire in netlist.fields.items() if wire in names}
        self.used_fields = {}
        self.bits_read = {}  # wire -> mask of the bits that are read
        self._counts, self._partial = Counter(), set()
        for _, specs in netlist.sources():
            for part in (part for spec in specs for part in spec if isinstance(part, Bits)):
                self._counts[part.wire] += 1
                mask = (1 << part.width) - 1 << part.low
                self.bits_read[part.wire] = self.bits_read.get(part.wire, 0) | mask
                if part.width < self._module.wires[part.wire].width:
                    self._partial.add(part.wire)
        self._cells = dict(netlist.operators)
        self._cells |= {cell.ports["DATA"][0].wire: cell for cell in netlist.reads
                        if not cell.parameters["CLK_ENABLE"]}
        self._inlined = {}
        self.stated = {wire: cell for wire, cell in self._cells.items() if self._inline(wire) is None}

    def spec(self, spec):
        """Text of *spec*, self-contained."""
        return self._spec(spec).text

    def cell(self, cell):
        """Text of what *cell* gives, as wide as its output."""
        return self._cell(cell).text

    def bits(self, part):
        """Text of some bits of a wire, to be read."""
        if part in self._fields:
            self.used_fields[part] = self._fields[part]
            return self._fields[part]
        return self.target(part)

    def target(self, part):
        """Text of some bits of a wire, to be assigned."""
        name, width = self.name(part.wire), self._module.wires[part.wire].width
        if part.width == width:
            return name
        if part.width == 1:
            return f"{name}[{part.low}]"
        return f"{name}[{part.low + part.width - 1}:{part.low}]"

    def name(self, wire):
        """Identifier of *wire*."""
        if wire not in self._names:
            self._names[wire] = self._fresh(KINDS.get(self._cells[wire].kind, "term"))
        return self._names[wire]

    def value_names(self, spec):
        """Value -> name, of the enumeration that *spec* is of; empty for numbers."""
        if len(spec) == 1 and isinstance(spec[0], Bits):
            names = self._module.wires[self._netlist.fields.get(spec[0], spec[0].wire)].values
            return names if spec[0] in self._netlist.fields or self._width(spec[0].wire) == spec[0].width else {}
        return {}

    def index(self, spec, entries):
        """Text of *spec* as the index of *entries* rows, as wide as that needs."""
        width = max(1, (entries - 1).bit_length())
        return f"{width}'({self.spec(spec)})" if width_of(spec) > width else self._sized(spec, width).text

    def _inline(self, wire):
        """:class:`Text` of the expression that stands for *wire*; None if it has a name."""
        if wire not in self._inlined:
            # Wires without a name form no loops: those go through registers or named signals.
            self._inlined[wire] = None
            cell = self._cells.get(wire)
            if cell is not None and not self._netlist.named(wire) and wire not in self._partial:
                cheap = cell.kind == "$not" and not isinstance(cell.ports["A"][0], Const)
                cheap = cheap and self._inline(cell.ports["A"][0].wire) is None and len(cell.ports["A"]) == 1
                if self._counts[wire] == 1 or cheap:
                    text = self._cell(cell)
                    if len(text.text) <= LONGEST:
                        self._inlined[wire] = text
        return self._inlined[wire]

    def _spec(self, spec):
        if not spec:
            raise ValueError("a spec without bits has no text")
        parts = []  # [text, repetitions], highest first
        for part in reversed(spec):
            if isinstance(part, Const):
                text = Text(literal(part.value, part.width), atom=True)
            else:
                text = self._inline(part.wire) or Text(self.bits(part), atom=True)
            if parts and isinstance(part, Bits) and part == parts[-1][2] and part.width == 1:
                parts[-1][1] += 1
            else:
                parts.append([text, 1, part])
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0]
        texts = [f"{{{count}{{{text.text}}}}}" if count > 1 else text.text for text, count, _ in parts]
        return Text(texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}", atom=True)

    def _sized(self, spec, width, signed=False):
        """*spec* stretched or cut to *width* bits; its type is signed if *signed*."""
        own = width_of(spec)
        if all(isinstance(part, Const) for part in spec):
            value = spec[0].value if spec else 0
            if signed and own and value >> own - 1:
                value |= (1 << width) - (1 << own)
            text = literal(value & ((1 << width) - 1), width)
            return Text(f"$signed({text})" if signed else text, atom=True)
        if own > width:
            raise ValueError(f"an operand of {own} bits where {width} are wanted")
        text = self._spec(spec)
        plain = text.text.isidentifier() or text.text.startswith("{")
        if signed:
            text = Text(f"$signed({text.text if plain else f'{{{text.text}}}'})", atom=True)
            return text if own == width else Text(f"{width}'({text.text})", atom=True)
        if own == width:
            return text
        # Verilator lets the width of a cast reach into operators; braces keep it out.
        return Text(f"{width}'({text.text})" if plain else f"{{{literal(0, width - own)}, {text.text}}}", atom=True)

    def _operand(self, cell, port, width, ordered=False):
        """Text of an operand in brackets if need be, stretched to *width*; of a signed type if that is *ordered*."""
        signed = cell.parameters.get(f"{port}_SIGNED") and (ordered or width_of(cell.ports[port]) < width)
        text = self._sized(cell.ports[port], width, bool(signed))
        return text.text if text.atom else f"({text.text})"

    def _cell(self, cell):
        kind, ports, parameters = cell.kind, cell.ports, cell.parameters
        if kind == "$memrd_v2":
            depth = self._module.memories[parameters["MEMID"]].depth
            return Text(f"{self._names[parameters['MEMID']]}[{self.index(ports['ADDR'], depth)}]", atom=True)
        width = width_of(ports["Y"])
        if kind == "$mux":
            texts = [self._sized(ports[port], width) for port in "BA"]
            yes, no = (text.text if text.atom else f"({text.text})" for text in texts)
            condition = self._spec(ports["S"])
            return Text(f"{condition.text if condition.atom else f'({condition.text})'} ? {yes} : {no}")
        if kind in ("$and", "$or", "$xor"):
            return self._chain(cell, BINARY[kind], width)
        if kind in BINARY:
            left, right = self._operand(cell, "A", width), self._operand(cell, "B", width)
            return Text(f"{left} {BINARY[kind]} {right}")
        if kind in COMPARE:
            return self._comparison(cell)
        if kind in REDUCE:
            if not ports["A"]:
                return Text(literal(int(kind == "$reduce_and"), 1), atom=True)
            text = self._spec(ports["A"])
            if width_of(ports["A"]) == 1:
                return text
            return Text(f"{REDUCE[kind]}{text.text if text.atom else f'({text.text})'}")
        if kind == "$not":
            return Text(f"{'!' if width == 1 else '~'}{self._operand(cell, 'A', width)}")
        if kind == "$neg":
            text = self._operand(cell, "A", width)  # -8'(x) is read by Yosys as a cast to -8 bits
            return Text(f"-({text})" if text[0].isdigit() else f"-{text}")
        if kind in ("$shl", "$shr"):
            return Text(f"{self._operand(cell, 'A', width)} {'<<' if kind == '$shl' else '>>'} {self._amount(cell)}")
        if kind == "$sshr":
            own = width_of(ports["A"])
            text = f"{self._operand(cell, 'A', own, True)} >>> {self._amount(cell)}"
            return Text(f"$unsigned({text})" if own == width else f"{width}'({text})", atom=True)
        if kind == "$shift":
            return self._part(cell, width)
        if kind in DIVIDE and not parameters["A_SIGNED"]:
            wide = max(width, width_of(ports["A"]), width_of(ports["B"]))
            text = f"{self._operand(cell, 'A', wide)} {DIVIDE[kind]} {self._operand(cell, 'B', wide)}"
            return Text(text) if wide == width else Text(f"{width}'({text})", atom=True)
        raise ValueError(f"no expression for {kind} with {parameters}")

    def _chain(self, cell, operator, width):
        texts = []
        for port in "AB":
            text = self._sized(cell.ports[port], width)
            texts.append(text.text if text.atom or text.joins == operator else f"({text.text})")
        return Text(f" {operator} ".join(texts), joins=operator)

    def _comparison(self, cell):
        ports, kind = cell.ports, cell.kind
        width = max(width_of(ports["A"]), width_of(ports["B"]))
        if kind in ("$eq", "$ne") and width == 1 and all(isinstance(part, Const) for part in ports["B"]):
            one = bool(ports["B"] and ports["B"][0].value) == (kind == "$eq")
            text = self._spec(ports["A"])
            return text if one else Text(f"!{text.text if text.atom else f'({text.text})'}")
        ordered = kind not in ("$eq", "$ne")
        left, right = self._operand(cell, "A", width, ordered), self._operand(cell, "B", width, ordered)
        return Text(f"{left} {COMPARE[kind]} {right}")

    def _amount(self, cell):
        """Text of a shift's distance."""
        spec = cell.ports["B"]
        return self._operand(cell, "B", width_of(spec) or 1)

    def _part(self, cell, width):
        """Bits of a value from a computed place up; beyond its end zeros, or its sign."""
        value, offset = cell.ports["A"], cell.ports["B"]
        if len(value) == 1 and isinstance(value[0], Bits) and self._inline(value[0].wire) is None:
            part = value[0]
            if part.low == 0 and self._highest(offset) + width <= part.width == self._width(part.wire):
                index = self.index(offset, part.width)
                name = self.name(part.wire)
                return Text(f"{name}[{index}]" if width == 1 else f"{name}[{index} +: {width}]", atom=True)
        own = max(width, width_of(value))
        if cell.parameters["A_SIGNED"]:
            text = f"$unsigned({self._operand(cell, 'A', own, True)} >>> {self._amount(cell)})"
            return Text(text if own == width else f"{width}'({text})", atom=True)
        text = f"{self._operand(cell, 'A', own)} >> {self._amount(cell)}"
        return Text(text) if own == width else Text(f"{width}'({text})", atom=True)

    def _width(self, wire):
        return self._module.wires[wire].width

    def _highest(self, spec):
        """Largest value that *spec* can have, as far as is plain."""
        if len(spec) == 1 and isinstance(spec[0], Bits):
            cell = self._netlist.operators.get(spec[0].wire)
            if cell is not None and cell.kind == "$mul" and isinstance(cell.ports["B"][0], Const):
                return ((1 << width_of(cell.ports["A"])) - 1) * cell.ports["B"][0].value
        return (1 << width_of(spec)) - 1


def literal(value, width):
    """A constant: decimal where that is short, else hexadecimal."""
    if width == 1:
        return f"1'b{value}"
    if value < 1024:
        return f"{width}'d{value}"
    return f"{width}'h{value:x}"
