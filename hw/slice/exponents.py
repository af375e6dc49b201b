"""Exponent bytes of K and V: from whole beats, page by page, to one byte a block."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import BEAT_BYTES, Config
from hw.fork import Queue
from hw.interfaces import BEAT, Geometry

__all__ = ["ByteFeed", "ExponentBeat", "ExponentLoader", "page_exponent_beats"]

ExponentBeat = StructLayout({
    "beat": BEAT,
    "count": range(BEAT_BYTES + 1),  # leading bytes that count, 1 to 32
})


def page_exponent_beats(config: Config):
    """Beats of one kind of exponents (K or V) of one head in a page, for the widest head."""
    return -(-config.page_slots * config.head_blocks // BEAT_BYTES)


class ByteFeed(Component):
    """Bytes of a stream of beats, the first ``count`` of each.

    A byte is there in the clock after its beat is taken; one byte a clock without a gap between beats. ``clear``
    forgets the beat in hand.
    """

    i: In(stream.Signature(ExponentBeat))
    o: Out(stream.Signature(8))
    clear: In(1)

    def elaborate(self, platform):
        m = Module()
        bytes_left = Signal(range(BEAT_BYTES + 1))
        beat = Signal(BEAT, reset_less=True)
        pop = Signal()
        m.d.comb += [
            pop.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(bytes_left != 0),
            self.o.payload.eq(beat[:8]),
            self.i.ready.eq(((bytes_left == 0) | (pop & (bytes_left == 1))) & ~self.clear),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [beat.eq(self.i.payload.beat), bytes_left.eq(self.i.payload.count)]
        with m.Elif(pop):
            m.d.sync += [beat.eq(beat >> 8), bytes_left.eq(bytes_left - 1)]
        with m.If(self.clear):
            m.d.sync += bytes_left.eq(0)
        return m


class ExponentLoader(Component):
    """Takes the exponent beats of a KV head's pages: first of K, then of V, for each page with an older token.

    Up to two pages ahead of the bytes that are used. Bytes of slots without a token are dropped.

    Members: ``start`` with ``tokens`` in this channel's memory (may be 0) begins a head; ``idle``, the head's beats
    are all taken; ``scales``; ``keys`` and ``values``, one byte a block in token order; ``kept_valid``, ``kept``: a
    beat of V exponents to keep for the V phase.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "geometry": In(Geometry(config)),
            "start": In(1),
            "tokens": In(range(config.max_slots + 1)),
            "idle": Out(1),
            "scales": In(stream.Signature(BEAT)),
            "keys": Out(stream.Signature(8)),
            "values": Out(stream.Signature(8)),
            "kept_valid": Out(1),
            "kept": Out(ExponentBeat),
        })

    def elaborate(self, platform):
        m = Module()
        config, geometry = self._config, self.geometry
        is_value, take, busy = Signal(), Signal(), Signal()
        count = Signal(range(BEAT_BYTES + 1))
        rooms = [self._feed(m, name, output, take & (count != 0) & (is_value == n), count)
                 for n, (name, output) in enumerate((("keys", self.keys), ("values", self.values)))]
        most = config.page_slots * config.head_blocks
        left = Signal.like(self.tokens)  # tokens of this page and the pages after it
        after = Signal.like(self.tokens)  # tokens of the pages after it
        rest = Signal(range(most + 1))  # bytes of this kind that this page still has
        beats = Signal.like(geometry.exponent_beats)  # beats of this kind taken
        m.d.comb += [
            busy.eq(left != 0),
            self.idle.eq(~busy),
            self.kept.beat.eq(self.scales.payload),
            self.kept.count.eq(count),
        ]
        with m.If(busy):
            m.d.comb += [
                count.eq(Mux(rest > BEAT_BYTES, BEAT_BYTES, rest)),
                after.eq(Mux(left > config.page_slots, left - config.page_slots, 0)),
                self.scales.ready.eq(Mux(is_value, rooms[1], rooms[0])),
                take.eq(self.scales.valid & self.scales.ready),
                self.kept_valid.eq(take & is_value & (count != 0)),
            ]

        def bytes_of(tokens):
            return Mux(tokens > config.page_slots, config.page_slots, tokens) * geometry.head_blocks

        with m.If(self.start):
            m.d.sync += [left.eq(self.tokens), rest.eq(bytes_of(self.tokens)), beats.eq(0), is_value.eq(0)]
        with m.Elif(take):
            m.d.sync += [rest.eq(rest - count), beats.eq(beats + 1)]
            with m.If(beats == geometry.exponent_beats - 1):
                m.d.sync += [beats.eq(0), is_value.eq(~is_value), rest.eq(bytes_of(Mux(is_value, after, left)))]
                with m.If(is_value):
                    m.d.sync += left.eq(after)
        return m

    def _feed(self, m, name, output, push, count):
        """Queue and bytes of one kind; returns whether the queue has room."""
        depth = 1 << (2 * page_exponent_beats(self._config) - 1).bit_length()
        m.submodules[f"{name}_queue"] = queue = Queue(ExponentBeat, depth)
        m.submodules[f"{name}_feed"] = feed = ByteFeed()
        m.d.comb += [
            queue.i.payload.beat.eq(self.scales.payload),
            queue.i.payload.count.eq(count),
            queue.i.valid.eq(push),
            feed.i.valid.eq(queue.o.valid),
            feed.i.payload.eq(queue.o.payload),
            queue.o.ready.eq(feed.i.ready),
            output.valid.eq(feed.o.valid),
            output.payload.eq(feed.o.payload),
            feed.o.ready.eq(output.ready),
        ]
        return queue.i.ready
