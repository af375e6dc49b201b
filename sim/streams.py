"""Drivers and monitors of Amaranth streams for cocotb unit benches, and values of struct ports.

A stream ``x`` of the component is three ports: ``x__valid``, ``x__ready``, ``x__payload``. A struct payload is one
vector: :func:`pack` and :func:`unpack` convert between it and dicts and lists of integers. Drivers and monitors wake on
every clock edge: for unit benches only.
"""

import random

from amaranth.hdl import Shape
from amaranth.lib.data import ArrayLayout, FlexibleLayout, StructLayout, UnionLayout
from cocotb import start_soon
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

__all__ = ["Sink", "Source", "pack", "signed", "start", "unpack"]


def signed(value, width):
    """The low *width* bits of *value* as a two's complement number."""
    value &= (1 << width) - 1
    return value - (value >> (width - 1) << width)


def pack(layout, value):
    """Integer that carries *value* in *layout*.

    Structs are dicts (missing fields are 0), arrays are lists (short ones are padded with 0), enums their members or
    numbers; negative numbers are cut to the field's width.
    """
    if isinstance(layout, ArrayLayout):
        width = Shape.cast(layout.elem_shape).width
        return sum(pack(layout.elem_shape, item) << (width * n) for n, item in enumerate(value))
    if isinstance(layout, (StructLayout, UnionLayout, FlexibleLayout)):
        fields = dict(layout)
        unknown = set(value) - set(fields)
        if unknown:
            raise KeyError(f"no field {sorted(unknown)} in {sorted(fields)}")
        return sum(pack(fields[name].shape, item) << fields[name].offset for name, item in value.items())
    return int(getattr(value, "value", value)) & ((1 << Shape.cast(layout).width) - 1)


def unpack(layout, bits):
    """Inverse of :func:`pack`: dicts and lists of plain integers (enums as numbers; signed shapes with their sign)."""
    if isinstance(layout, ArrayLayout):
        width = Shape.cast(layout.elem_shape).width
        return [unpack(layout.elem_shape, bits >> (width * n)) for n in range(layout.length)]
    if isinstance(layout, (StructLayout, UnionLayout, FlexibleLayout)):
        return {name: unpack(field.shape, bits >> field.offset) for name, field in layout}
    shape = Shape.cast(layout)
    return signed(bits, shape.width) if shape.signed else bits & ((1 << shape.width) - 1)


async def start(dut, reset=2, **inputs):
    """Set the named *inputs*, start the clock (2 ns) and hold ``rst`` for *reset* clocks.

    Returns after reset, just past an edge. An input that neither a driver nor *inputs* sets is 0.
    """
    for name, value in inputs.items():
        getattr(dut, name).value = value
    dut.rst.value = 1
    Clock(dut.clk, 2, unit="ns").start()
    for _ in range(reset):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


def _ports(dut, name):
    return (getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))


class Source:
    """Drives stream *name* of *dut*: each item once, in order.

    *stall* is the probability of an idle clock before an item, drawn from *rng*; *layout* packs dict items. Items
    queue without limit; :meth:`drain` waits until all are taken. Valid does not wait for ready, and a stalled payload
    is held.
    """

    def __init__(self, dut, name, *, layout=None, stall=0.0, rng=None):
        self._clk, self._layout, self._stall = dut.clk, layout, stall
        self._rng = rng or random.Random(0)
        self._valid, self._ready, self._payload = _ports(dut, name)
        self._items = []
        self._next = 0
        self._valid.value = 0
        start_soon(self._run())

    def send(self, *items):
        """Queue *items*."""
        self._items += (item if self._layout is None else pack(self._layout, item) for item in items)

    @property
    def pending(self):
        """Items not taken yet."""
        return len(self._items) - self._next

    async def drain(self):
        """Wait until every queued item is taken."""
        while self.pending:
            await RisingEdge(self._clk)

    async def _run(self):
        offered = False
        while True:
            await RisingEdge(self._clk)
            if offered:
                if not self._ready.value:
                    continue
                self._next += 1
                offered = False
            if self.pending and self._rng.random() >= self._stall:
                self._payload.value = self._items[self._next]
                self._valid.value = offered = True
            else:
                self._valid.value = 0


class Sink:
    """Takes stream *name* of *dut* into :attr:`items` (unpacked by *layout*) and checks the stream rules.

    *stall* is the probability that ready is low in a clock; ``stall=None`` leaves ready alone (a monitor). With
    *after_valid* ready rises only when valid has been seen, which finds a producer that waits for ready. Raises
    ``AssertionError`` if valid falls or the payload changes while stalled. :attr:`clocks` has the clock number of each
    item.
    """

    def __init__(self, dut, name, *, layout=None, stall=0.0, rng=None, after_valid=False):
        self._clk, self._layout, self._stall, self._name, self._after = dut.clk, layout, stall, name, after_valid
        self._rng = rng or random.Random(0)
        self._valid, self._ready, self._payload = _ports(dut, name)
        self.items = []
        self.clocks = []
        if stall is not None:
            self._ready.value = 0
        start_soon(self._run())

    async def wait(self, count, limit=100_000):
        """Wait until *count* items have come; ``AssertionError`` after *limit* clocks."""
        for _ in range(limit):
            if len(self.items) >= count:
                return
            await RisingEdge(self._clk)
        raise AssertionError(f"{self._name}: {len(self.items)} of {count} items after {limit} clocks")

    async def _run(self):
        held = None
        clock = 0
        while True:
            await RisingEdge(self._clk)
            clock += 1
            valid = bool(self._valid.value)
            if held is not None:
                assert valid, f"{self._name}: valid fell before ready"
            if valid:
                bits = int(self._payload.value)
                assert held in (None, bits), f"{self._name}: payload {held:#x} became {bits:#x} while stalled"
                if self._ready.value:
                    self.items.append(bits if self._layout is None else unpack(self._layout, bits))
                    self.clocks.append(clock)
                    held = None
                else:
                    held = bits
            if self._stall is not None:
                self._ready.value = (valid or not self._after) and self._rng.random() >= self._stall
