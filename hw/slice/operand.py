"""Operand memories of a slice, one a pool row, with the fences that say when a region is complete."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.interfaces import NewestKind, OperandBus
from hw.isa import Region

__all__ = ["OperandStore", "region_bases", "region_blocks"]


def region_blocks(config: Config):
    """Blocks that each region holds, by :class:`Region`; a model that needs more does not fit *config*.

    QUERY counts the blocks of one pool row: kv_heads * passes * head_blocks.
    """
    return {
        Region.HIDDEN: config.max_hidden // BLOCK,
        Region.ATTENTION: config.attention_blocks,
        Region.FFN: config.max_ffn // BLOCK,
        Region.QUERY: config.query_blocks,
    }


def region_bases(config: Config):
    """First address of each region in the memories of pool rows 0 and 1; rows above hold QUERY alone, from 0."""
    blocks = region_blocks(config)
    bases, total = {}, 0
    for region in (Region.QUERY, Region.HIDDEN, Region.ATTENTION, Region.FFN):
        bases[region] = total
        total += blocks[region]
    return bases, total


class OperandStore(Component):
    """Mantissas, exponents and sums of the operands in all regions, and one completion counter a region.

    Reads have latency 1: what ``address`` asks in one clock stands at the outputs in the next. A block that came over
    the bus in a clock can be asked for in the next clock; its fence counts then too.

    Members: ``bus``; ``address``, of pool rows 0 and 1 (QUERY starts at 0, the rest at :func:`region_bases`); rows
    above 1 read ``address[0]`` when ``read_queries`` is high and hold their output otherwise;
    ``mantissas[row][lane]``; ``exponent[row]``; ``sum`` of the blocks of rows 0 and 1; ``largest[region]``, the
    largest exponent of a region's newest operand (0 for QUERY); ``complete[region]``, at least one fence is untaken;
    ``take[region]`` takes one. A fence counter holds up to 3.
    """

    def __init__(self, config: Config):
        self._config = config
        rows, bits = config.pool_rows, config.mantissa_bits
        _, depth = region_bases(config)
        super().__init__({
            "bus": In(OperandBus(config)),
            "address": In(range(depth)).array(2),
            "read_queries": In(1),
            "mantissas": Out(signed(bits)).array(rows, BLOCK),
            "exponent": Out(8).array(rows),
            "sum": Out(signed(bits + 5)).array(2),
            "largest": Out(8).array(len(Region)),
            "complete": Out(1).array(len(Region)),
            "take": In(1).array(len(Region)),
        })

    def elaborate(self, platform):
        m = Module()
        config, bus = self._config, self.bus
        bases, depth = region_bases(config)
        is_query = Signal()
        is_operand = Signal()
        address = Signal(range(depth))
        m.d.comb += [
            is_query.eq(bus.valid & (bus.kind == NewestKind.QUERY)),
            is_operand.eq(bus.valid & (bus.kind == NewestKind.OPERAND)),
            address.eq(bus.address + Array(bases[region] for region in Region)[bus.region.as_value()]),
        ]
        for row in range(config.pool_rows):
            mine = is_query & (bus.row == row)
            if row < 2:
                self._memory(m, row, depth, is_operand | mine, Mux(is_query, bus.address, address),
                             self.address[row], 1)
            else:
                self._memory(m, row, region_blocks(config)[Region.QUERY], mine, bus.address, self.address[0],
                             self.read_queries)
        self._fences(m, is_operand, is_query)
        return m

    def _memory(self, m, row, depth, write_enable, write_address, read_address, read_enable):
        """Mantissas of one pool row in one memory, the exponent and the sum beside it in another."""
        side = StructLayout({"exponent": 8, "sum": signed(self._config.mantissa_bits + 5)})
        bus = self.bus
        for name, shape, data in (("mantissas", bus.mantissas.as_value().shape(), bus.mantissas.as_value()),
                                  ("side", side, Cat(bus.exponent, bus.sum))):
            m.submodules[f"{name}_{row}"] = memory = Memory(shape=shape, depth=depth, init=[])
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(write_enable), write.addr.eq(write_address), write.data.eq(data),
                read.addr.eq(read_address), read.en.eq(read_enable),
            ]
            if name == "side":
                m.d.comb += self.exponent[row].eq(read.data.exponent)
                if row < 2:
                    m.d.comb += self.sum[row].eq(read.data.sum)
            else:
                bits = self._config.mantissa_bits
                m.d.comb += [lane.eq(read.data[n * bits:][:bits]) for n, lane in enumerate(self.mantissas[row])]

    def _fences(self, m, is_operand, is_query):
        bus = self.bus
        for region in Region:
            counter = Signal(2, name=f"fence_{region.name.lower()}")
            written = is_query if region is Region.QUERY else is_operand & (bus.region == region)
            if region is not Region.QUERY:
                largest = self.largest[region.value]
                with m.If(written & ((bus.address == 0) | (bus.exponent > largest))):
                    m.d.sync += largest.eq(bus.exponent)
            completed = Signal(name=f"completed_{region.name.lower()}")
            m.d.comb += [completed.eq(written & bus.last), self.complete[region.value].eq(counter != 0)]
            with m.If(completed & ~self.take[region.value]):
                m.d.sync += counter.eq(counter + 1)
            with m.Elif(~completed & self.take[region.value]):
                m.d.sync += counter.eq(counter - 1)
