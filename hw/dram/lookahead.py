"""The chunk queue of a channel: opens the rows of coming chunks under the running burst."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out, Signature

from hw.dram.pairs import PAIRS
from hw.dram.policy import Policy

__all__ = ["ChunkLayout", "Lookahead"]

_COUNT = 4
"""Bits of a count of chunks that use a pair: the queue's eight, the running one and the one being taken in."""


def ChunkLayout(beat_bits):  # noqa: N802
    """A run of ``last + 1`` beats in one row of a bank pair; a write's beats are those of the write queue, in order."""
    return StructLayout({"write": 1, "beat": beat_bits, "last": 7})


class Lookahead(Component):
    """Queue of chunks with two pointers that run ahead of its head.

    The *claim* pointer takes a chunk's pair for its row as soon as no earlier chunk needs another row of the pair and
    it is less than ``Policy.claim_beats`` away, asking for a precharge if another row is open. The *activate* pointer
    follows and asks for the activation. A chunk is offered to the column engine once both have passed it. A claimed
    pair is not closed before the last chunk that claimed it has finished, except by a refresh out of time.

    Members: ``chunks`` in, ``head`` out (latency three clocks when the row is open). ``first_pair``: pair of the head
    of the queue, ``waiting``: queue not empty. ``issued``: a beat was issued; ``finished`` with ``finished_pair``:
    the last of a chunk. ``open``, ``claim_row``, ``can_precharge``, ``can_activate``: answers of the pair table for
    ``claim_pair`` and ``activate_pair``. ``held`` with ``held_pair``: a pair that refresh wants closed. ``claim``
    with ``claim_pair``, ``claim_new_row``: for the pair table. ``precharge``, ``activate`` (with ``activate_row``):
    requests for the row engine. ``reopen`` with ``reopen_pair``, ``reopen_row``: the running chunk lost its row to a
    refresh. ``scan_pair`` asks whether a pair is ``scan_claimed``, or ``scan_far``: not needed within
    ``refresh_beats``.
    """

    def __init__(self, beat_bits, policy: Policy, refresh_beats):
        self._policy = policy
        self._layout = ChunkLayout(beat_bits)
        self._beat_bits = beat_bits
        self._refresh_beats = refresh_beats
        row_bits = beat_bits - 10
        super().__init__({
            "chunks": In(stream.Signature(self._layout)),
            "head": Out(stream.Signature(self._layout)),
            "waiting": Out(1),
            "first_pair": Out(3),
            "issued": In(1),
            "finished": In(1),
            "finished_pair": In(3),
            "open": In(PAIRS),
            "held": In(1),
            "held_pair": In(3),
            "claim": Out(1),
            "claim_pair": Out(3),
            "claim_new_row": Out(row_bits),
            "claim_row": In(row_bits),
            "can_precharge": In(1),
            "precharge": Out(1),
            "reopen": In(1),
            "reopen_pair": In(3),
            "reopen_row": In(row_bits),
            "can_activate": In(1),
            "activate": Out(Signature({"valid": Out(1), "pair": Out(3), "row": Out(row_bits), "taken": In(1)})),
            "scan_pair": In(3),
            "scan_claimed": Out(1),
            "scan_far": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        depth = self._policy.chunks
        index = depth.bit_length() - 1
        m.submodules.queue = queue = Memory(shape=self._layout, depth=depth, init=[])
        head, activating, claiming, tail = (Signal(index + 1, name=f"{n}_pointer")
                                            for n in ("head", "activate", "claim", "tail"))

        def entry(pointer):
            port = queue.read_port(domain="comb")
            m.d.comb += port.addr.eq(pointer)
            return port.data

        accept = Signal()
        write = queue.write_port()
        m.d.comb += [
            self.chunks.ready.eq((tail - head)[:index + 1] != depth),
            accept.eq(self.chunks.valid & self.chunks.ready),
            write.addr.eq(tail), write.data.eq(self.chunks.payload), write.en.eq(accept),
        ]
        m.d.sync += tail.eq(tail + accept)

        first = entry(head)
        m.d.comb += [
            self.waiting.eq(head != tail),
            self.first_pair.eq(first.beat[7:10]),
            self.head.valid.eq(head != activating),
            self.head.payload.eq(first),
        ]
        m.d.sync += head.eq(head + (self.head.valid & self.head.ready))

        # Counts of four bits, packed: one addition counts up one pair and down another.
        queued = Signal(_COUNT * PAIRS)
        claimed = Signal(_COUNT * PAIRS)

        def one(condition, pair):
            return condition << Cat(C(0, 2), pair)

        accept_pair = self.chunks.payload.beat[7:10]
        release = Signal(_COUNT * PAIRS)
        m.d.comb += release.eq(one(self.finished, self.finished_pair))
        m.d.sync += [
            queued.eq(queued + one(accept, accept_pair) - release),
            claimed.eq(claimed + one(self.claim, self.claim_pair) - release),
        ]

        chunk = self._elaborate_claimed_chunk(m, entry, accept, claiming, tail)
        self._elaborate_claim(m, chunk, claiming, tail, claimed)
        self._elaborate_activate(m, entry(activating), activating, claiming)
        self._elaborate_scan(m, accept, accept_pair, queued, claimed)
        return m

    def _elaborate_claimed_chunk(self, m, entry, accept, pointer, tail):
        """The chunk at the claim pointer, read in the clock before for either way that clock goes."""
        went = Signal()
        found = [Signal(self._layout, name=f"claim_{n}") for n in range(2)]
        for n, chunk in enumerate(found):
            place = Signal.like(pointer, name=f"claim_place_{n}")
            m.d.comb += place.eq(pointer + n)
            m.d.sync += chunk.eq(Mux(accept & (tail == place), self.chunks.payload, entry(place)))
        m.d.sync += went.eq(self.claim)
        chunk = Signal(self._layout, name="claim_chunk")
        m.d.comb += chunk.eq(Mux(went, found[1], found[0]))
        return chunk

    def _elaborate_claim(self, m, chunk, pointer, tail, claimed):
        limit = self._policy.claim_beats
        ahead = Signal(range(limit + 128 + 1))
        near, taken, is_open, same = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.claim_pair.eq(chunk.beat[7:10]),
            self.claim_new_row.eq(chunk.beat[10:]),
            near.eq((pointer != tail) & (ahead < limit) & ~(self.held & (self.held_pair == self.claim_pair))),
            taken.eq(claimed.word_select(self.claim_pair, _COUNT).any()),
            is_open.eq(self.open.bit_select(self.claim_pair, 1)),
            same.eq(self.claim_row == self.claim_new_row),
            self.claim.eq(near & Mux(taken, same, ~is_open | same)),
            self.precharge.eq(near & ~taken & is_open & ~same & self.can_precharge),
        ]
        m.d.sync += [
            pointer.eq(pointer + self.claim),
            ahead.eq(ahead + Mux(self.claim, chunk.last + 1, 0) - self.issued),
        ]

    def _elaborate_activate(self, m, chunk, pointer, claiming):
        pair = Signal(3)
        present, is_open = Signal(), Signal()
        m.d.comb += [
            pair.eq(chunk.beat[7:10]),
            present.eq(pointer != claiming),
            is_open.eq(self.open.bit_select(pair, 1)),
            self.activate.pair.eq(Mux(self.reopen, self.reopen_pair, pair)),
            self.activate.row.eq(Mux(self.reopen, self.reopen_row, chunk.beat[10:])),
            self.activate.valid.eq((self.reopen | present & ~is_open) & self.can_activate
                                   & ~(self.held & (self.held_pair == self.activate.pair))),
        ]
        with m.If(present & (is_open | self.activate.taken & ~self.reopen)):
            m.d.sync += pointer.eq(pointer + 1)

    def _elaborate_scan(self, m, accept, accept_pair, queued, claimed):
        # Positions in the sequence of all beats; their difference is a lower bound of the clocks to a pair's next use.
        bits = (128 * (self._policy.chunks + 1)).bit_length() + 1
        m.submodules.last_use = last_use = Memory(shape=bits, depth=PAIRS, init=[])
        write, read = last_use.write_port(), last_use.read_port(domain="comb")
        accepted, issued = Signal(bits), Signal(bits)
        distance = Signal(bits)
        uses = Signal(_COUNT)
        m.d.comb += [
            write.addr.eq(accept_pair), write.data.eq(accepted), write.en.eq(accept),
            read.addr.eq(self.scan_pair),
            distance.eq(read.data - issued),
            uses.eq(queued.word_select(self.scan_pair, _COUNT)),
            self.scan_claimed.eq(claimed.word_select(self.scan_pair, _COUNT).any()),
            self.scan_far.eq((uses == 0) | (uses == 1) & (distance >= self._refresh_beats)),
        ]
        m.d.sync += issued.eq(issued + self.issued)
        with m.If(accept):
            m.d.sync += accepted.eq(accepted + self.chunks.payload.last + 1)
