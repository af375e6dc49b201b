"""LPDDR5 command truth table (BG mode), used by the controller to encode and by the device model to decode.

A command word is 14 bits, {F CA[6:0], R CA[6:0]}: the low half at the rising CK edge, the high half at the falling one,
CA0 in the lowest bit. Bank number: BA0, BA1, BG0, BG1 from bit 0 up, so banks x and x + 8 are a refresh pair.
Source: LiteDRAM and DRAMPower, which agree bit for bit.
"""

from amaranth.hdl import C, Cat, Value
from amaranth.lib import enum

__all__ = ["COMMAND_BITS", "MRW2_OPCODE", "Opcode", "act1", "act2", "cas", "column", "mrw1", "mrw2", "pre", "ref",
           "ref_all"]

COMMAND_BITS = 14


class Opcode(enum.Enum, shape=7):
    """CA0..CA6 at the rising edge, CA0 lowest; bits that carry an operand are 0. See :data:`FIXED_BITS`."""

    NOP = 0b000_0000
    ACT1 = 0b000_0111  # H H H
    ACT2 = 0b000_0011  # H H L
    RD16 = 0b000_0001  # H L L
    RD32 = 0b000_0101  # H L H
    WR16 = 0b000_0110  # L H H
    MWR = 0b000_0010  # L H L
    WR32 = 0b000_0100  # L L H L
    CAS = 0b000_1100  # L L H H
    PRE = 0b111_1000  # L L L H H H H
    REF = 0b011_1000  # L L L H H H L
    MRW1 = 0b101_1000  # L L L H H L H
    MRW2 = 0b000_1000  # L L L H L L OP7
    MRR = 0b001_1000  # L L L H H L L
    SRE = 0b110_1000  # L L L H L H H
    SRX = 0b010_1000  # L L L H L H L
    PDE = 0b100_0000  # L L L L L L H


MRW2_OPCODE = 0b00_1000
"""The six fixed bits of MRW-2; the seventh is OP7."""


def _word(rising, falling):
    rising, falling = Value.cast(rising), Value.cast(falling)
    assert len(rising) == 7, f"rising half has {len(rising)} bits"
    return Cat(rising, falling, C(0, 7 - len(falling)))


def act1(bank, row):
    """ACT-1: bank and R[17:11]; *row* is at least 12 bits wide."""
    row = Cat(row, C(0, 18 - len(row)))
    return _word(Cat(C(0b111, 3), row[14:18]), Cat(bank, row[11:14]))


def act2(row):
    """ACT-2: R[10:0]."""
    return _word(Cat(C(0b011, 3), row[7:11]), row[0:7])


def column(write, bank, col):
    """RD16 or (*write*) WR16 without auto-precharge at column C[5:0]."""
    return _word(Cat(~write, write, write, col[0], col[3:6]), Cat(bank, col[1:3], C(0, 1)))


def cas(write):
    """CAS that starts WCK for a read, or (*write*) for a write; the RD or WR follows in the next CK."""
    return _word(Cat(C(0b1100, 4), write, ~write, C(0, 1)), C(0, 7))


def pre(bank):
    """PRE of one bank."""
    return _word(C(Opcode.PRE.value, 7), Cat(bank, C(0, 3)))


def ref(pair):
    """REF of a bank pair (BA0, BA1, BG0)."""
    return _word(C(Opcode.REF.value, 7), Cat(pair, C(0, 4)))


def ref_all():
    """REF of all banks."""
    return _word(C(Opcode.REF.value, 7), C(0b1000000, 7))


def mrw1(register):
    """MRW-1: the mode register's number."""
    return _word(C(Opcode.MRW1.value, 7), register)


def mrw2(value):
    """MRW-2: the eight bits to write."""
    return _word(Cat(C(MRW2_OPCODE, 6), value[7]), value[0:7])
