"""Processes as SystemVerilog statements."""

from hw.verilog.expressions import literal
from hw.verilog.rtlil import Assign, Bits, Const, Switch, width_of

__all__ = ["indented", "written"]


def written(body, expressions, operator):
    """Lines of *body*; *operator* is ``=`` or ``<=``."""
    return _Writer(expressions, operator).body(body)


def indented(lines):
    return [f"    {line}" if line else line for line in lines]


class _Writer:
    def __init__(self, expressions, operator):
        self.expressions = expressions
        self.operator = operator

    def body(self, statements):
        lines = []
        for statement in statements:
            if isinstance(statement, Assign):
                text = self.expressions.spec(statement.rhs)
                lines.append(f"{self.expressions.target(statement.lhs)} {self.operator} {text};")
            else:
                lines += self.switch(statement)
        return lines

    def switch(self, switch):
        cases = [(patterns, self.body(inner)) for patterns, inner in switch.cases]
        if not cases[0][0]:
            return cases[0][1]
        if _is_case(cases):
            return self.case(switch.selector, cases)
        if not cases[0][1] and len(cases) > 1:
            rest = self.switch(Switch(switch.selector, switch.cases[1:]))
            return [f"if ({self.condition(switch.selector, cases[0][0][0], False)}) begin", *indented(rest), "end"]
        lines = []
        for n, (patterns, inner) in enumerate(cases):
            other = n and width_of(switch.selector) == 1
            condition = f"if ({self.condition(switch.selector, patterns[0])})" if patterns and not other else ""
            lines += self.block(f"{'else ' if n else ''}{condition}".rstrip(), inner)
        return lines

    def condition(self, selector, pattern, wanted=True):
        """Text of the one bit that *pattern* asks for, or of its opposite."""
        bit = next(n for n, value in enumerate(reversed(pattern)) if value != "-")
        at = 0
        for part in selector:
            if at <= bit < at + part.width:
                if isinstance(part, Const):
                    text = literal(part.value >> (bit - at) & 1, 1)
                else:
                    text = self.expressions.spec((Bits(part.wire, part.low + bit - at, 1),))
                break
            at += part.width
        if (pattern[len(pattern) - 1 - bit] == "1") == wanted:
            return text
        return f"!{text}" if text.isidentifier() else f"!({text})"

    def case(self, selector, cases):
        if not any("-" in pattern for patterns, _ in cases for pattern in patterns) and cases[-1][0]:
            cases = [case for case in cases if case[1]]
        labels = [pattern for patterns, _ in cases for pattern in patterns]
        wild = any("-" in label for label in labels)
        width = width_of(selector)
        names = self.expressions.value_names(selector)
        lines = [f"case{'z' if wild else ''} ({self.expressions.spec(selector)})"]
        for patterns, inner in cases:
            label = ", ".join(self.label(pattern, wild, names) for pattern in patterns) or "default"
            lines += indented(self.labelled(label, inner))
        if all(patterns for patterns, _ in cases) and (wild or len(labels) < 1 << width):
            lines.append("    default: ;")
        return [*lines, "endcase"]

    def label(self, pattern, wild, names):
        if wild:
            return f"{len(pattern)}'b{pattern.replace('-', '?')}"
        value = int(pattern, 2)
        comment = f" /* {names[value]} */" if value in names else ""
        return f"{literal(value, len(pattern))}{comment}"

    def labelled(self, label, inner):
        if len(inner) <= 1:
            return [f"{label}: {inner[0] if inner else ';'}"]
        return [f"{label}: begin", *indented(inner), "end"]

    def block(self, head, inner):
        if len(inner) == 1 and not inner[0].startswith("if "):  # which would take the next else
            return [f"{head} {inner[0]}"]
        return [f"{head} begin", *indented(inner), "end"]


def _is_case(cases):
    """Whether *cases* look at more than one bit each."""
    return any(len(pattern) - pattern.count("-") != 1 or len(patterns) > 1 for patterns, _ in cases
               for pattern in patterns)
