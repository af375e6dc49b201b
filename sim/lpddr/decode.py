"""Decoder of one command phase."""

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import Component, In, Out

from hw.dram.command import COMMAND_BITS

__all__ = ["Decoder"]


class Decoder(Component):
    """Combinational. Exactly one of the kinds is high while ``cs``; ``illegal`` covers commands that the model does
    not have (BL32, masked writes, auto-precharge, MRR, self-refresh, power-down, MPC, FIFO, RFM)."""

    KINDS = ("nop", "act1", "act2", "rd", "wr", "cas", "pre", "ref", "mrw1", "mrw2", "illegal")

    def __init__(self):
        super().__init__({
            "word": In(COMMAND_BITS),
            "cs": In(1),
            **{kind: Out(1) for kind in self.KINDS},
            "bank": Out(4),
            "col": Out(6),
            "all": Out(1),  # AB of PRE and REF
            "row_high": Out(7),  # R17..R11 of ACT-1
            "row_low": Out(11),  # R10..R0 of ACT-2
            "operand": Out(7),  # MA of MRW-1
            "value": Out(8),  # OP of MRW-2
            "ws_write": Out(1),
            "ws_read": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        r, f = Value.cast(self.word)[:7], Value.cast(self.word)[7:]
        m.d.comb += [
            self.bank.eq(f[:4]), self.col.eq(Cat(r[3], f[4:6], r[4:7])), self.all.eq(f[6]),
            self.row_high.eq(Cat(f[4:7], r[3:7])), self.row_low.eq(Cat(f, r[3:7])),
            self.operand.eq(f), self.value.eq(Cat(f, r[6])), self.ws_write.eq(r[4]), self.ws_read.eq(r[5]),
        ]
        with m.If(self.cs):
            with m.Switch(r):
                with m.Case("0000000"):
                    m.d.comb += self.nop.eq(1)
                with m.Case("----111"):
                    m.d.comb += self.act1.eq(1)
                with m.Case("----011"):
                    m.d.comb += self.act2.eq(1)
                with m.Case("----001"):
                    m.d.comb += [self.rd.eq(~f[6]), self.illegal.eq(f[6])]
                with m.Case("----110"):
                    m.d.comb += [self.wr.eq(~f[6]), self.illegal.eq(f[6])]
                with m.Case("0011100", "0101100"):
                    m.d.comb += self.cas.eq(1)
                with m.Case("1111000"):
                    m.d.comb += self.pre.eq(1)
                with m.Case("0111000"):
                    m.d.comb += [self.ref.eq(~f[3] | f[6]), self.illegal.eq(f[3] & ~f[6])]
                with m.Case("1011000"):
                    m.d.comb += self.mrw1.eq(1)
                with m.Case("-001000"):
                    m.d.comb += self.mrw2.eq(1)
                with m.Default():
                    m.d.comb += self.illegal.eq(1)
        return m
