"""Specs cut and joined; bodies, lists of assignments and switches, changed without changing what they mean."""

from dataclasses import replace

from hw.verilog.rtlil import Assign, Bits, Const, Switch, width_of

__all__ = ["bits_of", "is_reset", "joined", "mapped", "merged", "pruned", "retargeted", "specs_of", "statements_of",
           "straightened", "without_empty"]


def bits_of(spec, low, width):
    """*width* bits of *spec* from *low* up."""
    result, at = [], 0
    for part in spec:
        first, last = max(low, at), min(low + width, at + part.width)
        if first < last:
            if isinstance(part, Const):
                result.append(Const(part.value >> (first - at) & ((1 << (last - first)) - 1), last - first))
            else:
                result.append(Bits(part.wire, part.low + first - at, last - first))
        at += part.width
    return tuple(result)


def joined(parts):
    """The spec of *parts*, neighbours in one wire and constants joined."""
    result = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(part, Const) and isinstance(last, Const):
            result[-1] = Const(last.value | part.value << last.width, last.width + part.width)
        elif (isinstance(part, Bits) and isinstance(last, Bits) and part.wire == last.wire
                and part.low == last.low + last.width):
            result[-1] = Bits(last.wire, last.low, last.width + part.width)
        else:
            result.append(part)
    return tuple(result)


def straightened(body, wires):
    """*body* with the assignments before the first switch as one."""
    count = next((n for n, statement in enumerate(body) if isinstance(statement, Switch)), len(body))
    target = Bits(body[0].lhs.wire, 0, wires[body[0].lhs.wire].width)
    value = body[0].rhs
    for assign in body[1:count]:
        low, width = assign.lhs.low, assign.lhs.width
        value = joined(bits_of(value, 0, low) + assign.rhs
                        + bits_of(value, low + width, target.width - low - width))
    return [Assign(target, value), *body[count:]]


def without_empty(body):
    """*body* without switches that assign nothing."""
    return [statement for statement in body
            if isinstance(statement, Assign) or any(isinstance(inner, Assign) for inner in statements_of([statement]))]


def pruned(body):
    """*body* without switches, and last cases of switches, that assign nothing."""
    result = []
    for statement in without_empty(body):
        if isinstance(statement, Switch):
            cases = [(patterns, pruned(inner)) for patterns, inner in statement.cases]
            while not cases[-1][1]:
                cases.pop()
            statement = _without_columns(Switch(statement.selector, cases))
        result.append(statement)
    return result


def _without_columns(switch):
    """*switch* without the bits of its selector that no pattern looks at."""
    patterns = [pattern for patterns, _ in switch.cases for pattern in patterns]
    width = width_of(switch.selector)
    kept = [bit for bit in range(width) if any(pattern[width - 1 - bit] != "-" for pattern in patterns)]
    if len(kept) == width:
        return switch
    selector = joined([part for bit in kept for part in bits_of(switch.selector, bit, 1)])
    return Switch(selector, [(["".join(pattern[width - 1 - bit] for bit in reversed(kept)) for pattern in patterns],
                              inner) for patterns, inner in switch.cases])


def mapped(body, change):
    """*body* with *change* applied to every spec that is read."""
    return [replace(statement, rhs=change(statement.rhs)) if isinstance(statement, Assign) else
            Switch(change(statement.selector), [(patterns, mapped(inner, change)) for patterns, inner
                                                in statement.cases])
            for statement in body]


def retargeted(body, wire):
    """*body* assigning to *wire*."""
    return [replace(statement, lhs=replace(statement.lhs, wire=wire)) if isinstance(statement, Assign) else
            Switch(statement.selector, [(patterns, retargeted(inner, wire)) for patterns, inner in statement.cases])
            for statement in body]


def is_reset(statement):
    """Whether *statement* is what Amaranth adds for the reset of a clock domain."""
    return (isinstance(statement, Switch) and statement.selector == (Bits("\\rst", 0, 1),)
            and [patterns for patterns, _ in statement.cases] == [["1"]])


def merged(bodies):
    """One body for several, which assign to different wires: switches that all alike decide are joined.

    The order of what concerns one wire is kept.
    """
    result = []
    for body in bodies:
        at = 0
        for statement in body:
            found = next((n for n in range(at, len(result)) if _alike(result[n], statement)), None)
            if found is None:
                result.insert(at, statement)
                at += 1
            else:
                result[found] = Switch(statement.selector, [
                    (patterns, merged([old, new])) for (patterns, old), (_, new)
                    in zip(result[found].cases, statement.cases, strict=True)])
                at = found + 1
    return result


def _alike(one, other):
    return (isinstance(one, Switch) and isinstance(other, Switch) and one.selector == other.selector
            and [patterns for patterns, _ in one.cases] == [patterns for patterns, _ in other.cases])


def statements_of(body):
    """Every assignment and switch in *body*, the inner ones too."""
    for statement in body:
        yield statement
        if isinstance(statement, Switch):
            for _, inner in statement.cases:
                yield from statements_of(inner)


def specs_of(body):
    """Every spec that *body* reads."""
    for statement in statements_of(body):
        yield statement.rhs if isinstance(statement, Assign) else statement.selector
