"""KV writer: keys and values of the newest token to the owner channel's memory."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.config import BLOCK, Config
from hw.fetch.kv import ENTRY_BITS
from hw.fetch.reader import writer_link
from hw.fetch.run import page_bits
from hw.fork import Queue
from hw.interfaces import BEAT, Geometry, NewestKind, OperandBus, Position, write_signature
from hw.isa import ADDRESS_BITS

__all__ = ["KvWriter"]

LAYERS = 2
"""Layers under way at most: see hw.fetch.reader.Reader."""


class KvWriter(Component):
    """Writes the newest token's K and V blocks and the exponent beats that it shares with older tokens.

    Blocks are kept as they come; the last value block of a layer makes a job. In the owner channel a job writes, for
    each KV head, head_blocks beats of K, the K exponent beat, head_blocks of V and the V exponent beat, two clocks a
    block. An exponent beat is the one that the reader captured with the new bytes put in, or, if the token is the first
    in it, zeros with the new bytes. In other channels a job only counts. A job is completed, in order, when the write
    port has taken its beats; :class:`hw.fetch.reader.Reader` says why two layers under way are enough.

    Members: ``channel``; ``position``: of the step being executed, read when blocks come; ``geometry``; ``operands``;
    ``link`` to the reader; ``write``; ``idle``: all that came is in memory; ``fault``: the block table entry names a
    page past the memory, so that nothing is written until a reset.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "channel": In(range(max(2, config.channels))),
            "position": In(Position(config)),
            "geometry": In(Geometry(config)),
            "operands": In(OperandBus(config)),
            "link": In(writer_link()),
            "write": Out(write_signature()),
            "idle": Out(1),
            "fault": Out(1),
        })

    def elaborate(self, platform):
        config, geometry, link = self._config, self.geometry, self.link
        slot_bits = config.page_slots.bit_length() - 1
        m = Module()
        job_layout = StructLayout({"owner": 1, "slot": slot_bits})
        m.submodules.jobs = jobs = Queue(job_layout, LAYERS)
        m.submodules.pages = pages = Queue(ENTRY_BITS, LAYERS)
        m.submodules.blocks = blocks = Memory(
            shape=StructLayout({"mantissas": BEAT, "exponent": 8}), init=[],
            depth=LAYERS * 2 << (config.max_kv_heads * config.head_blocks - 1).bit_length())
        m.submodules.captured = captured = Memory(shape=BEAT, depth=2 * config.max_kv_heads, init=[])

        completed = Signal()
        self._keep(m, blocks.write_port(), jobs.i)
        captures = Signal(range(2 * config.max_kv_heads + 1))
        capture_write = captured.write_port()
        m.d.comb += [
            capture_write.en.eq(link.capture_valid),
            capture_write.addr.eq(captures), capture_write.data.eq(link.capture),
            pages.i.valid.eq(link.page_valid), pages.i.payload.eq(link.page),
            jobs.o.ready.eq(completed), pages.o.ready.eq(completed),
        ]
        with m.If(completed):
            m.d.sync += [link.completed.eq(link.completed + 1), captures.eq(0)]
        with m.Elif(link.capture_valid):
            m.d.sync += captures.eq(captures + 1)
        m.d.sync += [
            Assert(~pages.i.valid | pages.i.ready, "page of a third layer"),
            Assert(~jobs.i.valid | jobs.i.ready, "values of a third layer"),
        ]

        job = jobs.o.payload
        bank, values = Signal(), Signal()
        head, block = Signal(range(config.max_kv_heads)), Signal(range(config.head_blocks))
        last_block, fresh, missing = Signal(), Signal(), Signal()
        index = Signal(range(config.max_kv_heads * config.head_blocks))
        first_block = Signal(range(config.page_slots * 8), reset_less=True)
        width = page_bits(config)
        place = Signal(width + len(geometry.page_beats), reset_less=True)
        page_end, far = Signal(len(place) + 2), Signal(reset_less=True)
        head_beat = Signal(ADDRESS_BITS, reset_less=True)
        data_beat = Signal(ADDRESS_BITS, reset_less=True)
        exponent_beat = Signal(ADDRESS_BITS, reset_less=True)
        byte = Signal(range(BLOCK), reset_less=True)
        merged = Signal(BEAT, reset_less=True)
        old, new = captured.read_port(), blocks.read_port()
        beats = self.write.beats
        m.d.comb += [
            old.addr.eq((head << 1) | values),
            new.addr.eq((((bank << 1) | values) << (len(new.addr) - 2)) | index),
            last_block.eq(block == geometry.head_blocks - 1),
            fresh.eq(~first_block[:5].any()),
            missing.eq(~fresh & (captures <= old.addr)),
            beats.payload.data.eq(new.data.mantissas),
            beats.payload.beat.eq(data_beat),
        ]

        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [
                    place.eq(pages.o.payload[:width] * geometry.page_beats),
                    far.eq(pages.o.payload[width:].any()),
                    first_block.eq(job.slot * geometry.head_blocks),
                    head.eq(0), index.eq(0), values.eq(0),
                ]
                with m.If(jobs.o.valid & pages.o.valid):
                    m.next = "COMPLETE"
                    with m.If(job.owner):
                        m.next = "PAGE"
            with m.State("PAGE"):
                m.d.comb += page_end.eq(place + geometry.kv_base + geometry.page_beats)
                m.d.sync += head_beat.eq(place + geometry.kv_base)
                m.next = "CAPTURED"
                with m.If(far | (page_end > config.channel_beats)):
                    m.next = "PAST"
            with m.State("PAST"):
                m.d.comb += self.fault.eq(1)
            with m.State("CAPTURED"):
                m.d.sync += [
                    block.eq(0),
                    byte.eq(first_block[:5]),
                    exponent_beat.eq(head_beat + (first_block >> 5) + Mux(values, geometry.exponent_beats, 0)),
                    data_beat.eq(head_beat + (geometry.exponent_beats << 1)
                                 + (first_block + Mux(values, config.page_slots * geometry.head_blocks, 0))),
                ]
                with m.If(fresh):
                    m.d.sync += merged.eq(0)
                    m.next = "READ"
                with m.Elif(~missing):
                    m.next = "MERGE"
            with m.State("MERGE"):
                m.d.sync += merged.eq(old.data)
                m.next = "READ"
            with m.State("READ"):
                m.next = "BLOCK"
            with m.State("BLOCK"):
                m.d.comb += beats.valid.eq(1)
                with m.If(beats.ready):
                    m.d.sync += [
                        merged.word_select(byte, 8).eq(new.data.exponent),
                        byte.eq(byte + 1), data_beat.eq(data_beat + 1), block.eq(block + 1), index.eq(index + 1),
                    ]
                    m.next = "READ"
                    with m.If(last_block):
                        m.next = "EXPONENTS"
            with m.State("EXPONENTS"):
                m.d.comb += [beats.valid.eq(1), beats.payload.beat.eq(exponent_beat), beats.payload.data.eq(merged)]
                with m.If(beats.ready):
                    m.next = "CAPTURED"
                    m.d.sync += values.eq(~values)
                    with m.If(~values):
                        m.d.sync += index.eq(index - geometry.head_blocks)
                    with m.Else():
                        m.d.sync += [head.eq(head + 1), head_beat.eq(head_beat + geometry.head_beats)]
                        with m.If(head == geometry.kv_heads - 1):
                            m.next = "COMPLETE"
            with m.State("COMPLETE"):
                m.d.comb += completed.eq(1)
                m.d.sync += bank.eq(~bank)
                m.next = "IDLE"
        m.d.comb += [
            link.writing.eq(~fsm.ongoing("IDLE") & ~fsm.ongoing("COMPLETE") & ~(fsm.ongoing("CAPTURED") & missing)),
            link.drained.eq(self.write.idle),
            self.idle.eq(fsm.ongoing("IDLE") & ~jobs.o.valid & self.write.idle),
            new.en.eq(fsm.ongoing("READ")),
        ]
        return m

    def _keep(self, m, write, jobs):
        """Store the blocks of this layer; its last value block is the job."""
        operands = self.operands
        bank, owner, value, mine = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            owner.eq(self.channel == self.position.channel),
            value.eq(operands.kind == NewestKind.VALUE),
            mine.eq(operands.valid & (value | (operands.kind == NewestKind.KEY))),
            write.en.eq(mine & owner),
            write.addr.eq((((bank << 1) | value) << (len(write.addr) - 2)) | operands.address[:len(write.addr) - 2]),
            write.data.exponent.eq(operands.exponent),
            jobs.valid.eq(mine & value & operands.last),
            jobs.payload.owner.eq(owner),
            jobs.payload.slot.eq(self.position.slot),
        ]
        for n in range(BLOCK):
            m.d.comb += write.data.mantissas.word_select(n, 8).eq(operands.mantissas[n][:8])
        with m.If(jobs.valid):
            m.d.sync += bank.eq(~bank)
