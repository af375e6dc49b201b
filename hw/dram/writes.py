"""Write queue of a channel: gathers beats and drains them in groups."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from hw.dram.lookahead import ChunkLayout
from hw.dram.policy import Policy
from hw.dram.timing import COLUMN_PHASE, Timing
from hw.interfaces import BEAT, write_signature

__all__ = ["WriteQueue"]


class WriteQueue(Component):
    """Holds accepted writes until they are worth a turn of the bus, then turns them into chunks.

    A drain takes all beats present when it starts; it starts when the queue is three quarters full, on ``flush``,
    when nothing was read for a while (``quiet``) or nothing written for ``Policy.write_timeout`` clocks. Between two
    drains at least one waiting read chunk is let through. Neighbouring beats of one row form one chunk; a beat a
    clock is looked at.

    Members: ``port``, the native write port; ``flush``; ``quiet``; ``read_waiting``, ``read_taken``: a read chunk
    waits, or was let in; ``chunks`` out; ``draining``: the chunk queue is reserved for writes. ``low``: address bits
    6..0 of the next beat to issue; ``issued``: its WR is issued in this clock. ``wrdata``, ``wrdata_en``: the data,
    on the DFI bus tphy_wrlat after a command that leaves a register in the clock after ``issued``.
    """

    def __init__(self, depth, beat_bits, timing: Timing, policy: Policy):
        if (timing.wl + COLUMN_PHASE) % 2:
            raise ValueError(f"WL {timing.wl} from phase {COLUMN_PHASE} does not start data on phase 0 (not built)")
        if timing.dfi_write_ahead % 2 or not 0 <= timing.dfi_write_ahead < timing.wl:
            raise ValueError(f"dfi_write_ahead is {timing.dfi_write_ahead} CK; it must be even, 0 to WL {timing.wl}")
        self._depth = depth
        self._beat_bits = beat_bits
        self._timing = timing
        self._policy = policy
        super().__init__({
            "port": In(write_signature()),
            "flush": In(1),
            "quiet": In(1),
            "read_waiting": In(1),
            "read_taken": In(1),
            "chunks": Out(stream.Signature(ChunkLayout(beat_bits))),
            "draining": Out(1),
            "low": Out(7),
            "issued": In(1),
            "wrdata": Out(BEAT),
            "wrdata_en": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        depth, policy = self._depth, self._policy
        index = depth.bit_length() - 1
        m.submodules.addresses = addresses = Memory(shape=self._beat_bits, depth=depth, init=[])
        m.submodules.data = data = Memory(shape=BEAT, depth=depth, init=[])
        tail, scanned, issued, sent = (Signal(index + 1, name=f"{n}_pointer")
                                       for n in ("tail", "scanned", "issued", "sent"))

        accept = Signal()
        write_address, write_data = addresses.write_port(), data.write_port()
        m.d.comb += [
            self.port.beats.ready.eq((tail - sent)[:index + 1] != depth),
            accept.eq(self.port.beats.valid & self.port.beats.ready),
            write_address.addr.eq(tail), write_address.en.eq(accept),
            write_address.data.eq(self.port.beats.payload.beat),
            write_data.addr.eq(tail), write_data.data.eq(self.port.beats.payload.data), write_data.en.eq(accept),
            self.port.idle.eq(tail == issued),
        ]
        m.d.sync += tail.eq(tail + accept)

        m.d.sync += issued.eq(issued + self.issued)
        self._elaborate_low(m, addresses, issued)
        self._elaborate_data(m, data, sent)

        level = Signal(index + 1)
        still = Signal(range(policy.write_timeout + 1))
        fair = Signal(init=1)
        start = Signal()
        end = Signal(index + 1)
        with m.If(accept):
            m.d.sync += still.eq(0)
        with m.Elif(still != policy.write_timeout):
            m.d.sync += still.eq(still + 1)
        m.d.comb += [
            level.eq(tail - scanned),
            start.eq(~self.draining & (level != 0) & (fair | ~self.read_waiting)
                     & ((level >= policy.drain_level(depth)) | self.flush | self.quiet
                        | (still == policy.write_timeout))),
        ]
        with m.If(self.read_taken):
            m.d.sync += fair.eq(1)
        with m.If(start):
            m.d.sync += [self.draining.eq(1), fair.eq(0), end.eq(tail)]
        self._elaborate_chunks(m, addresses, scanned, end)
        return m

    def _elaborate_low(self, m, addresses, issued):
        """Address of the beat at ``issued``, read in the clock before for either way that clock goes.

        A beat is issued three clocks after it was taken in at the earliest, so it is in the memory by then.
        """
        went = Signal()
        lows = [Signal(7, name=f"low_{n}") for n in range(2)]
        for n, low in enumerate(lows):
            read = addresses.read_port(domain="comb")
            m.d.comb += read.addr.eq(issued + n)
            m.d.sync += low.eq(read.data)
        m.d.sync += went.eq(self.issued)
        m.d.comb += self.low.eq(Mux(went, lows[1], lows[0]))

    def _elaborate_data(self, m, data, sent):
        """Read a beat's data when it is due; only a bit is delayed."""
        read = data.read_port()
        stages = self._timing.column_to_row(self._timing.tphy_wrlat)
        on_way = Signal(stages)
        m.d.sync += [on_way.eq((on_way << 1) | self.issued), self.wrdata_en.eq(on_way[-1]), sent.eq(sent + on_way[-1])]
        m.d.comb += [read.addr.eq(sent), read.en.eq(on_way[-1]), self.wrdata.eq(read.data)]

    def _elaborate_chunks(self, m, addresses, scanned, end):
        read = addresses.read_port(domain="comb")
        have = Signal()
        first = Signal(self._beat_bits)
        last = Signal(7)
        more, extends = Signal(), Signal()
        m.d.comb += [
            read.addr.eq(scanned),
            more.eq(self.draining & (scanned != end)),
            extends.eq((read.data[7:] == first[7:]) & (last != 127)),
            self.chunks.valid.eq(have & ~(more & extends)),
            self.chunks.payload.write.eq(1),
            self.chunks.payload.beat.eq(first),
            self.chunks.payload.last.eq(last),
        ]
        with m.If(more & (~have | extends)):
            m.d.sync += [
                scanned.eq(scanned + 1), have.eq(1),
                first.eq(Mux(have, first, read.data)), last.eq(Mux(have, last + 1, 0)),
            ]
        with m.Elif(self.chunks.valid & self.chunks.ready):
            m.d.sync += have.eq(0)
            with m.If(~more):
                m.d.sync += self.draining.eq(0)
