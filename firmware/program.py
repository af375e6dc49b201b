"""Access and execute programs as values: built from the layouts of hw.isa, packed into words, listed as text."""

from dataclasses import dataclass

from firmware.errors import UserError
from hw.isa import (
    PROGRAM_DEPTH,
    AccessKind,
    AccessRecord,
    Condition,
    ExecuteKind,
    ExecuteRecord,
    Index,
    Region,
    SliceKind,
    SliceRecord,
    VectorKind,
    VectorRecord,
)

__all__ = ["Program", "access", "execute_loop", "execute_next", "execute_end", "slice_of", "slice_record", "vector_of",
           "vector_record", "walk", "words_of"]


@dataclass(frozen=True)
class Program:
    """What the sequencer runs for one token: constants of the layouts AccessRecord and ExecuteRecord."""

    access: tuple
    execute: tuple

    def __post_init__(self):
        for name in ("access", "execute"):
            count = len(getattr(self, name))
            if count > PROGRAM_DEPTH:
                raise UserError(f"the {name} program has {count} records; its memory holds {PROGRAM_DEPTH}: choose "
                                "fewer layers, as those of models with experts are not looped, or fewer KV heads")

    def listing(self):
        """Both programs as text, a record a line."""
        lines = ["access"] + _listing(self.access, _access_line) + ["execute"] + _listing(self.execute, _execute_line)
        return "\n".join(lines)


def constant(layout, **fields):
    """Constant of *layout*; :class:`UserError` for a number that its field can't hold."""
    for name, value in fields.items():
        bits = layout[name].width
        if isinstance(value, int) and not 0 <= value < 1 << bits:
            raise UserError(f"the model needs {name} = {value} in a program record, which has {bits} bits for it: "
                            "choose a smaller model")
    return layout.const(fields)


def access(kind, **fields):
    """An access record."""
    return constant(AccessRecord, kind=kind, **fields)


def slice_record(kind, condition=Condition.ALWAYS, **fields):
    """An execute record for the slices."""
    payload = constant(SliceRecord, kind=kind, **fields).as_bits()
    return ExecuteRecord.const({"kind": ExecuteKind.SLICE, "condition": condition, "payload": payload})


def vector_record(kind, condition=Condition.ALWAYS, **fields):
    """An execute record for the vector unit."""
    payload = constant(VectorRecord, kind=kind, **fields).as_bits()
    return ExecuteRecord.const({"kind": ExecuteKind.VECTOR, "condition": condition, "payload": payload})


def execute_loop(count):
    """Start of *count* layers in the execute program."""
    return ExecuteRecord.const({"kind": ExecuteKind.LOOP, "count": count})


def execute_next():
    """End of the layer loop in the execute program."""
    return ExecuteRecord.const({"kind": ExecuteKind.NEXT})


def execute_end():
    """End of the execute program."""
    return ExecuteRecord.const({"kind": ExecuteKind.END})


def slice_of(record):
    """The slice record in an execute record."""
    return SliceRecord.from_bits(record.payload & ((1 << SliceRecord.size) - 1))


def vector_of(record):
    """The vector record in an execute record."""
    return VectorRecord.from_bits(record.payload & ((1 << VectorRecord.size) - 1))


def walk(records, head):
    """(record, layer) in the order of one step; *head* says whether it computes logits."""
    index, layer, first, last = 0, 0, 0, 0
    met = {Condition.ALWAYS: True, Condition.WITH_HEAD: head, Condition.WITHOUT_HEAD: not head}
    while True:
        record = records[index]
        index += 1
        if not met[record.condition]:
            continue
        match record.kind.name:
            case "END":
                return
            case "LOOP":
                first, layer = index, 0
                last = (record.beats if isinstance(record.kind, AccessKind) else record.count) - 1
            case "NEXT":
                layer = layer + 1 if layer < last else 0
                index = first if layer else index
            case _:
                yield record, layer


def words_of(records, words):
    """32-bit words of a program memory, *words* a record, low word first."""
    return [record.as_bits() >> (32 * n) & 0xFFFFFFFF for record in records for n in range(words)]


def _listing(records, line):
    rows, indent = [], 1
    for number, record in enumerate(records):
        if record.kind.name == "NEXT":
            indent = 1
        rows.append(f"{number:4}{'  ' * indent}{line(record)}")
        if record.kind.name == "LOOP":
            indent = 2
    return rows


def _condition(record):
    return "" if record.condition is Condition.ALWAYS else f" {record.condition.name}"


def _access_line(record):
    match record.kind:
        case AccessKind.LOOP:
            return f"LOOP {record.beats}"
        case AccessKind.NEXT | AccessKind.END:
            return record.kind.name + _condition(record)
        case AccessKind.KV_K | AccessKind.KV_V:
            return f"{record.kind.name} head {record.head}" + _condition(record)
    index = "" if record.index is Index.NONE else f" + {record.stride} * {record.index.name}"
    form = f" {record.format.name}" if record.kind is AccessKind.WEIGHTS else ""
    wait = " wait_token" if record.wait_token else ""
    return f"{record.kind.name}{form} {record.beats} beats at {record.base}{index}{wait}" + _condition(record)


def _execute_line(record):
    match record.kind:
        case ExecuteKind.LOOP:
            return f"LOOP {record.count}"
        case ExecuteKind.SLICE:
            return "SLICE " + _slice_text(slice_of(record)) + _condition(record)
        case ExecuteKind.VECTOR:
            return "VECTOR " + _vector_text(vector_of(record)) + _condition(record)
    return record.kind.name + _condition(record)


def _slice_text(item):
    fence = f" after {item.region.name}" if item.take_fence else ""
    match item.kind:
        case SliceKind.MATRIX:
            return (f"MATRIX {item.format.name} {item.rows} rows of {item.blocks} blocks, operand {item.region.name}, "
                    f"E_w {item.weight_exponent}{fence}")
        case SliceKind.BYPASS:
            return f"BYPASS {item.rows} beats{fence}"
    return f"{item.kind.name} head {item.head}{fence}"


def _vector_text(item):
    text = f"{item.kind.name} {item.count}"
    if item.kind in (VectorKind.LOAD_NORM, VectorKind.EMBED, VectorKind.RESIDUAL):
        text += f" norm slot {item.slot}"
    if item.kind is VectorKind.GLU:
        text += f" to {Region.ATTENTION.name if item.slot else Region.FFN.name}"
    if item.kind not in (VectorKind.LOAD_NORM, VectorKind.LOAD_ROPE, VectorKind.EMBED, VectorKind.ATTENTION):
        text += f" of {item.region.name}, scale {item.scale.name}, E_w {item.weight_exponent}"
    return text
