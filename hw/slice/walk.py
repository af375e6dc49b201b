"""Walks of the issue logic: blocks of a matrix share, and tokens of a channel's KV cache."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import Component, In, Out

from hw.config import Config
from hw.isa import Format
from hw.slice.operand import region_bases

__all__ = ["MatrixWalk", "TokenWalk", "place_layout", "place_of"]


class MatrixWalk(Component):
    """Where the blocks of a beat belong: a run of rows * blocks blocks, packed across row borders, in superblocks.

    ``load`` starts a matrix of ``rows`` rows (1 or more) of ``blocks`` blocks (2 or more) in ``format``, whose
    operand starts at address ``base``; ``step`` moves on by one data beat. State stands in the clock after.

    Outputs describe the beat to come: ``address`` of its blocks' operands; ``ends[block]``, a row ends with it;
    ``second``, it has a second block; ``first`` beat of a superblock, which has ``index`` beats before; ``last`` beat
    of the matrix.
    """

    def __init__(self, config: Config):
        _, depth = region_bases(config)
        address = range(depth)
        super().__init__({
            "load": In(1),
            "base": In(address),
            "rows": In(20),
            "blocks": In(11),
            "format": In(Format),
            "step": In(1),
            "address": Out(address).array(2),
            "ends": Out(1).array(2),
            "second": Out(1),
            "first": Out(1),
            "index": Out(4),
            "last": Out(1),
        })
        self._address = address

    def elaborate(self, platform):
        m = Module()
        begin, end = Signal(self._address), Signal(self._address)
        here = [Signal(self._address, name=f"here_{n}") for n in range(2)]
        follow = [Signal(self._address, name=f"follow_{n}") for n in range(2)]
        rows = Signal(20)
        format = Signal(Format)
        nibbles = Signal()
        row_ends = Signal()
        m.d.comb += [
            nibbles.eq(format != Format.Q8_0),
            follow[0].eq(Mux(here[1] == end, begin, here[1] + 1)),
            follow[1].eq(Mux(follow[0] == end, begin, follow[0] + 1)),
            self.address[0].eq(here[0]),
            self.address[1].eq(here[1]),
            self.ends[0].eq(here[0] == end),
            self.ends[1].eq(nibbles & (here[1] == end)),
            row_ends.eq(self.ends[0] | self.ends[1]),
            self.last.eq(row_ends & (rows == 1)),
            self.second.eq(nibbles & ~(self.ends[0] & (rows == 1))),
        ]
        with m.Switch(format):
            with m.Case(Format.Q4_1):
                m.d.comb += self.first.eq(self.index[:2] == 0)
            with m.Case(Format.Q4_0):
                m.d.comb += self.first.eq(self.index[:3] == 0)
            with m.Default():
                m.d.comb += self.first.eq(self.index == 0)
        with m.If(self.load):
            m.d.sync += [
                begin.eq(self.base),
                end.eq(self.base + self.blocks - 1),
                here[0].eq(self.base),
                here[1].eq(self.base + 1),
                rows.eq(self.rows),
                self.index.eq(0),
                format.eq(self.format),
            ]
        with m.Elif(self.step):
            m.d.sync += [
                self.index.eq(self.index + 1),
                rows.eq(rows - row_ends),
                here[0].eq(Mux(nibbles, follow[0], here[1])),
                here[1].eq(Mux(nibbles, follow[1], follow[0])),
            ]
        return m


def place_layout(config: Config):
    """Which block of which token, and what ends with it."""
    return StructLayout({
        "block": range(max(2, config.head_blocks)),
        "pass_": range(max(2, config.max_passes)),
        "first": 1,  # the channel's first token
        "newest": 1,  # the newest token, from the bypass rather than from memory
        "final": 1,  # the channel's last token
        "empty": 1,  # no token at all
        "pass_end": 1,  # last pass of this block
        "block_end": 1,  # last block of this token
    })


def place_of(walk):
    """Where *walk* (anything with the members of :func:`place_layout`) is, as one value in that layout."""
    return Cat(walk.block, walk.pass_, walk.first, walk.newest, walk.final, walk.empty, walk.pass_end, walk.block_end)


class TokenWalk(Component):
    """Tokens of a channel in order, each block of a token in turn, each block ``passes`` times.

    ``load`` starts a walk over ``older`` tokens from memory and, if ``owner``, the newest; ``step`` moves on. State
    stands in the clock after. A channel without tokens walks over one that is ``empty``. ``last``: the walk's last
    step; the other outputs are those of :func:`place_layout`. Needs ``passes`` and ``head_blocks`` held.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({
            "load": In(1),
            "older": In(range(config.max_slots + 1)),
            "owner": In(1),
            "step": In(1),
            "passes": In(4),
            "head_blocks": In(4),
            **{name: Out(field.shape) for name, field in place_layout(config)},
            "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(self._config.max_slots + 2))
        owner = Signal()
        m.d.comb += [
            self.newest.eq(owner & (left == 1)),
            self.empty.eq(left == 0),
            self.final.eq(left <= 1),
            self.pass_end.eq(self.pass_ == self.passes - 1),
            self.block_end.eq(self.block == self.head_blocks - 1),
            self.last.eq(self.final & self.pass_end & self.block_end),
        ]
        with m.If(self.load):
            m.d.sync += [
                left.eq(self.older + self.owner),
                owner.eq(self.owner),
                self.first.eq(1),
                self.block.eq(0),
                self.pass_.eq(0),
            ]
        with m.Elif(self.step):
            m.d.sync += self.pass_.eq(Mux(self.pass_end, 0, self.pass_ + 1))
            with m.If(self.pass_end):
                m.d.sync += self.block.eq(Mux(self.block_end, 0, self.block + 1))
                with m.If(self.block_end):
                    m.d.sync += [left.eq(left - 1), self.first.eq(0)]
        return m
