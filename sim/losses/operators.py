"""The operators of a step, by the records of its two programs: what the slices take, and what the readers fetch."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from firmware.program import slice_of, vector_of, walk
from firmware.traffic import key_beats, table_beats, value_beats
from hw.isa import AccessKind, ExecuteKind, Region, SliceKind, VectorKind

__all__ = ["PLACES", "WAIT", "Operator", "StepRecords", "step_records"]

PLACES = ("first", "middle", "last", "none")
"""Where in the model: in its first layer, one between, its last, or outside the layers."""

NAMES = {VectorKind.LOAD_NORM: "norm weights", VectorKind.LOAD_ROPE: "RoPE row", VectorKind.EMBED: "embedding",
         VectorKind.QUERY: "Q", VectorKind.KEY: "K", VectorKind.VALUE: "V", VectorKind.GLU: "gate, up",
         VectorKind.HEAD: "LM head", VectorKind.ADD: "down", VectorKind.ROUTER: "router"}

OPERANDS = {Region.HIDDEN: "residual and norm", Region.ATTENTION: "attention", Region.FFN: "SiLU",
            Region.QUERY: "the queries"}
"""What the operand in a region comes from."""

WAIT = "wait for "
"""How the name of a record begins that reads nothing: the slice waits for an operand."""


@dataclass(frozen=True, order=True)
class Operator:
    """A record in words: operator, KV head of attention (else -1), and place."""

    name: str
    head: int
    place: str  # of PLACES

    @property
    def text(self):
        """Name with head."""
        return self.name if self.head < 0 else f"{self.name} of head {self.head}"


@dataclass(frozen=True)
class StepRecords:
    """The records of one step, in the order in which slices and readers take them."""

    slices: tuple  # an Operator each
    reads: tuple  # an Operator each
    kinds: tuple  # the access record of each read
    layers: tuple  # of each slice record: number of its layer, or -1

    @cached_property
    def cached(self):
        return {}

    def read_ends(self, layout, position, channel):
        """Beats that *channel* has read when each read is over, in the step of the token at *position*."""
        slot, owner = divmod(position, layout.config.channels)
        about = slot, channel < owner
        if about not in self.cached:
            self.cached[about] = np.cumsum([beats_of(record, layout, *about) for record in self.kinds])
        return self.cached[about]


def beats_of(record, layout, slot, holds_more):
    """Beats of an access record in a channel that holds *slot* older tokens, or one more."""
    match record.kind:
        case AccessKind.TABLE:
            return table_beats(layout.config, slot)
        case AccessKind.KV_K:
            return key_beats(layout, slot + holds_more)
        case AccessKind.KV_V:
            return value_beats(layout, slot + holds_more)
    return record.beats


def step_records(program, head):
    """The :class:`StepRecords` of *program*; *head*: of a step that computes logits."""
    opening = next(record for record in program.execute if record.kind is ExecuteKind.LOOP)
    looped = {id(record) for record in between(program.execute, ExecuteKind.LOOP, ExecuteKind.NEXT)}
    slices, layers, feeding = [], [], None
    for record, layer in walk(program.execute, head):
        if record.kind is ExecuteKind.VECTOR:
            feeding = vector_of(record)
            continue
        layers.append(layer if id(record) in looped else -1)
        slices.append(Operator(*slice_name(slice_of(record), feeding), place(layers[-1], opening.count)))
    kinds = tuple(record for record, _ in walk(program.access, head))
    return StepRecords(tuple(slices), tuple(reads_of(slices, kinds)), kinds, tuple(layers))


def between(records, first, last):
    """Those of *records* from the one of kind *first* to that of kind *last*."""
    kinds = [record.kind for record in records]
    return records[kinds.index(first):kinds.index(last)]


def place(layer, layers):
    """In which of PLACES *layer* (-1: outside) of *layers* is."""
    return "none" if layer < 0 else "first" if layer == 0 else "last" if layer == layers - 1 else "middle"


def reads_of(slices, kinds):
    """Yields the :class:`Operator` of each access record: reads other than block tables are those of the slice records,
    in the same order; a table is the first read of its layer."""
    takers = [operator for operator in slices if not operator.name.startswith(WAIT)]
    taken = 0
    for record in kinds:
        if record.kind is AccessKind.TABLE:
            yield Operator("block table", -1, takers[taken].place)
        else:
            yield takers[taken]
            taken += 1


def slice_name(item, feeding):
    """(name, head) of a slice record; *feeding*: the vector record before it."""
    match item.kind:
        case SliceKind.KEYS:
            return "attention K", item.head
        case SliceKind.VALUES:
            return "attention V", item.head
        case SliceKind.BYPASS if item.take_fence:
            return WAIT + OPERANDS[item.region], -1
    if feeding.kind is VectorKind.RESIDUAL:
        return ("O" if feeding.slot else "down"), -1  # the slot of the norm weights that follow
    return NAMES[feeding.kind], -1
