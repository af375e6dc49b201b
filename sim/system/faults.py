"""Malformed programs and tables made from a good one, with the error that each must give."""

from dataclasses import dataclass, field, replace

from firmware.program import Program, slice_of, slice_record
from hw.isa import AccessKind, AccessRecord, ExecuteKind, ExecuteRecord, Region, SliceKind, SliceRecord, VectorRecord
from hw.sequencer.control import Fault, Wait

__all__ = ["Planted", "patched", "planted_faults"]


@dataclass(frozen=True)
class Planted:
    """A fault. ``error``: the fields of register error that must not be 0, with their values."""

    name: str
    program: Program
    error: dict
    steps: int = 1
    watchdog: int = 0  # clocks, 0: off
    registers: dict = field(default_factory=dict)  # register to {field: value}, beside the model's
    logits: bool = False  # they go to memory
    entry: tuple = ()  # (channel, layer, logical page, value) of a block table entry that is overwritten


def patched(layout, record, name, value, offset=0):
    """*record* with field *name* of *layout*, which begins at bit *offset* of it, set to *value*."""
    place, low = layout[name], offset + layout[name].offset
    mask = ((1 << place.width) - 1) << low
    return record.shape().from_bits(record.as_bits() & ~mask | value << low)


def planted_faults(compiled, position):
    """Yields a :class:`Planted` of every kind for a step at *position*, the first of a page, of a good program."""
    good, config = compiled.program, compiled.layout.config
    payload = ExecuteRecord["payload"].offset
    weights = [n for n, record in enumerate(good.access) if record.kind is AccessKind.WEIGHTS]
    loop = next(n for n, record in enumerate(good.access) if record.kind is AccessKind.LOOP)
    matrices = [n for n, record in enumerate(good.execute)
                if record.kind is ExecuteKind.SLICE and slice_of(record).kind is SliceKind.MATRIX]
    vector = next(n for n, record in enumerate(good.execute) if record.kind is ExecuteKind.VECTOR)

    def access(number, name, value):
        record = patched(AccessRecord, good.access[number], name, value)
        return replace(good, access=(*good.access[:number], record, *good.access[number + 1:]))

    def execute(number, layout, name, value):
        record = patched(layout, good.execute[number], name, value, payload)
        return replace(good, execute=(*good.execute[:number], record, *good.execute[number + 1:]))

    def at(fault, engine, record):
        return {"fault": fault.value, "execute": engine, "record": record}

    yield Planted("access opcode", access(weights[1], "kind", 11), at(Fault.OPCODE, 0, weights[1]))
    yield Planted("slice opcode", execute(matrices[1], SliceRecord, "kind", 6), at(Fault.OPCODE, 1, matrices[1]))
    yield Planted("vector opcode", execute(vector, VectorRecord, "kind", 15), at(Fault.OPCODE, 1, vector))
    yield Planted("weight format", access(weights[0], "format", 3), at(Fault.FIELD, 0, weights[0]))
    yield Planted("loop of nothing", access(loop, "beats", 0), at(Fault.LOOP, 0, loop))
    yield Planted("beats past the memory", access(weights[3], "base", config.channel_beats - 1),
                  at(Fault.ADDRESS, 0, weights[3]))
    yield Planted("no steps", good, {"fault": Fault.SETTINGS.value}, steps=0)

    heads = compiled.layout.shape.kv_heads
    keys = next(n for n, record in enumerate(good.access) if record.kind is AccessKind.KV_K)
    yield Planted("KV head", access(keys, "head", heads), at(Fault.FIELD, 0, keys))
    yield Planted("logits past the memory", good, {"fault": Fault.LOGITS.value}, logits=True,
                  registers={"logits_base": {"beat": config.channel_beats - 2}})

    fence = {"fault": Fault.FENCE.value, "wait": Wait.OPERAND.value}
    waiting = slice_record(SliceKind.BYPASS, region=Region.FFN, take_fence=1)
    yield Planted("fence behind the last vector record",
                  replace(good, execute=(*good.execute[:-1], waiting, good.execute[-1])), fence)
    yield Planted("fence that nothing meets", execute(matrices[1], SliceRecord, "take_fence", 1), fence, watchdog=5000)

    last = good.access[weights[-1]].beats
    yield Planted("beats missing", access(weights[-1], "beats", last - 5),
                  {"fault": Fault.WATCHDOG.value, "wait": Wait.DATA.value}, watchdog=5000)
    yield Planted("beats left", access(weights[-1], "beats", last + 5), {"fault": Fault.LEFTOVER.value})

    table = {"fault": Fault.TABLE.value}
    owner, page = position % config.channels, position // config.page_tokens
    yield Planted("table entry past the memory", good, table | {"channel": config.channels - 1},
                  entry=(config.channels - 1, 1, 0, compiled.layout.pages + (1 << 25)))
    yield Planted("table entry of the newest token", good, table | {"channel": owner}, entry=(owner, 0, page, 1 << 31))
