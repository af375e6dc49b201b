"""The newest token's K and V, kept as they come over the operand bus until attention has used them."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import BEAT, NewestKind, OperandBus

__all__ = ["NewestStore"]


class NewestStore(Component):
    """Blocks of the newest K and V by KV head and block, with one completion counter.

    Members: ``bus``; ``address`` (head * head_blocks + block), ``value`` (V rather than K) and ``read``: one clock
    later ``beat``, 32 signed bytes, and ``key_exponent`` and ``value_exponent`` of that address, held while ``read``
    is low; ``numerator_address``, ``numerator_exponent``: V exponents, latency 1 with ``numerator_read``;
    ``complete``, V has been written more often than taken; ``take``. A channel that doesn't own the newest token may
    take before V is complete.
    """

    def __init__(self, config: Config):
        self._config = config
        self._blocks = config.max_kv_heads * config.head_blocks
        super().__init__({
            "bus": In(OperandBus(config)),
            "address": In(range(self._blocks)), "value": In(1), "read": In(1),
            "beat": Out(BEAT), "key_exponent": Out(8), "value_exponent": Out(8),
            "numerator_address": In(range(self._blocks)), "numerator_read": In(1), "numerator_exponent": Out(8),
            "complete": Out(1), "take": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        is_key, is_value = Signal(), Signal()
        m.d.comb += [
            is_key.eq(bus.valid & (bus.kind == NewestKind.KEY)),
            is_value.eq(bus.valid & (bus.kind == NewestKind.VALUE)),
        ]
        address_bits = len(self.address)
        target = bus.address[:address_bits]
        m.submodules.beats = beats = Memory(shape=BEAT, depth=2 << address_bits, init=[])
        write, read = beats.write_port(), beats.read_port()
        m.d.comb += [
            write.en.eq(is_key | is_value), write.addr.eq(Cat(target, is_value)),
            write.data.eq(Cat(lane[:8] for lane in self._lanes())),
            read.en.eq(self.read), read.addr.eq(Cat(self.address, self.value)), self.beat.eq(read.data),
        ]
        readers = [
            ("key_exponent", is_key, self.address, self.read, self.key_exponent),
            ("value_exponent", is_value, self.address, self.read, self.value_exponent),
            ("numerator_exponent", is_value, self.numerator_address, self.numerator_read, self.numerator_exponent),
        ]
        for name, enable, source, on, output in readers:
            m.submodules[name] = memory = Memory(shape=8, depth=1 << address_bits, init=[])
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(enable), write.addr.eq(target), write.data.eq(bus.exponent),
                read.en.eq(on), read.addr.eq(source), output.eq(read.data),
            ]
        balance = Signal(signed(3))
        completed = Signal()
        m.d.comb += [completed.eq(is_value & bus.last), self.complete.eq(balance > 0)]
        with m.If(completed & ~self.take):
            m.d.sync += balance.eq(balance + 1)
        with m.Elif(~completed & self.take):
            m.d.sync += balance.eq(balance - 1)
        return m

    def _lanes(self):
        bits = self._config.mantissa_bits
        lanes = self.bus.mantissas.as_value()
        return [lanes[first:first + bits] for first in range(0, len(lanes), bits)]
