"""Runs: contiguous beats to fetch, with what becomes of them; and their split into chunks."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import enum, stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.interfaces import ChunkCommand
from hw.isa import ADDRESS_BITS, Format

__all__ = ["ChunkSplitter", "Route", "Run", "Tag", "page_bits"]

CHUNK_BEATS = 128

OUTSTANDING_BITS = 13
"""Sign and bits of the credits that are not spoken for; a controller holds at most some ten chunks."""


def page_bits(config: Config):
    """Width of a physical page number: pages of the smallest size, one KV head of one block, fill the channel."""
    smallest = 2 + 2 * config.page_slots
    return min(32, (config.channel_beats // smallest).bit_length())


class Route(enum.Enum, shape=3):
    """Where the beats of a run go."""

    DATA = 0  # data FIFO
    WEIGHTS = 1  # first beat of each superblock to the scale FIFO, the others to the data FIFO
    KEYS = 2  # first ``scales`` beats to the scale FIFO, the others to the data FIFO
    TABLE = 3  # block table buffer of the KV fetch unit
    HOST = 4  # host memory port


Tag = StructLayout({
    "route": Route,
    "format": Format,  # WEIGHTS
    "beats": 24,
    "scales": 7,  # KEYS: exponent beats, half of them of K, half of V
    "capture": 1,  # KEYS: exponent beats ``capture_beat`` of K and of V are also for the KV writer
    "capture_beat": 6,
    "lane": 3,  # TABLE: entry of the last beat that is the newest token's page
})

Run = StructLayout({"beat": ADDRESS_BITS, "tag": Tag})


class ChunkSplitter(Component):
    """Cuts runs at multiples of 128 beats. A chunk a clock, also from one run to the next; latency one clock.

    With ``bounded`` a chunk is at most a quarter of the prefetch FIFO and is offered only when there is a credit for
    each of its beats that no earlier chunk needs, so that no read in the controller ever waits for the slice.

    Members: ``runs`` (at least one beat each); ``command`` the chunks; ``tags`` each run's tag, handed out in the clock
    in which its first chunk is taken. ``tags.ready`` must not depend on ``tags.valid``. ``credit``: credits that went
    back to the controller. ``bounded``: constant while runs are under way. ``halt``: no chunk is offered; ``drained``:
    every beat that was asked for has come and its credit is back.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "bounded": In(1),
            "credit": In(2),
            "halt": In(1),
            "drained": Out(1),
            "runs": In(stream.Signature(Run)),
            "command": Out(stream.Signature(ChunkCommand)),
            "tags": Out(stream.Signature(Tag)),
        })

    def elaborate(self, platform):
        m = Module()
        busy, first = Signal(), Signal()
        beat = Signal(ADDRESS_BITS, reset_less=True)
        left = Signal(24, reset_less=True)
        tag = Signal(Tag, reset_less=True)
        room = Signal(range(CHUNK_BEATS + 1))
        size = Signal(range(CHUNK_BEATS + 1))
        final, taken = Signal(), Signal()
        spare = Signal(signed(OUTSTANDING_BITS), init=self._config.fifo_beats)
        part = min(CHUNK_BEATS, self._config.fifo_beats // 4)
        m.d.comb += [
            room.eq(Mux(self.bounded, part - beat[:part.bit_length() - 1], CHUNK_BEATS - beat[:7])),
            final.eq(left <= room),
            size.eq(Mux(final, left, room)),
            self.command.valid.eq(busy & ~self.halt & (~first | self.tags.ready) & (~self.bounded | (size <= spare))),
            self.drained.eq(spare == self._config.fifo_beats),
            self.command.payload.beat.eq(beat),
            self.command.payload.last.eq(size - 1),
            taken.eq(self.command.valid & self.command.ready),
            self.tags.valid.eq(taken & first),
            self.tags.payload.eq(tag),
            self.runs.ready.eq(~busy | (taken & final)),
        ]
        m.d.sync += spare.eq(spare + self.credit - Mux(taken, size, 0))
        with m.If(self.runs.ready):
            m.d.sync += busy.eq(self.runs.valid)
        with m.If(self.runs.ready & self.runs.valid):
            m.d.sync += [
                first.eq(1),
                beat.eq(self.runs.payload.beat),
                left.eq(self.runs.payload.tag.beats),
                tag.eq(self.runs.payload.tag),
            ]
        with m.Elif(taken):
            m.d.sync += [first.eq(0), beat.eq(beat + size), left.eq(left - size)]
        return m
