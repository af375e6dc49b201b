"""Commands on a channel's command bus, decoded in Python for traces and benches.

The RTL's own decoder is :mod:`sim.lpddr.decode`; the table is :mod:`hw.dram.command`.
"""

from dataclasses import dataclass
from functools import cache

from hw.dram.command import Opcode

__all__ = ["BusDecoder", "Command"]


@dataclass(frozen=True)
class Command:
    """A command in clock ``ck`` (CK, two a controller clock). Operands are those that the command has."""

    ck: int
    name: str  # of hw.dram.command.Opcode
    bank: int = 0
    row: int = 0  # ACT2: the whole row; RD16, WR16: the open one
    column: int = 0  # in bursts
    all_banks: bool = False


class BusDecoder:
    """Decodes the words of one channel in their order. Rows opened before the first word are not known: row -1."""

    def __init__(self):
        self._rows = {}
        self._bank = self._row_high = 0

    def command(self, ck, word):
        """The :class:`Command` that the 14 bits *word* are at *ck*; of a REF ``bank`` is the pair's lower one."""
        rising, falling = word & 0x7F, word >> 7 & 0x7F
        name, bank = opcode(rising), falling & 15
        match name:
            case "ACT1":
                self._bank, self._row_high = bank, (rising >> 3) << 3 | falling >> 4
                return Command(ck, name, bank)
            case "ACT2":
                self._rows[self._bank] = self._row_high << 11 | (rising >> 3) << 7 | falling
                return Command(ck, name, self._bank, self._rows[self._bank])
            case "RD16" | "WR16":
                column = rising >> 3 & 1 | (falling >> 4 & 3) << 1 | (rising >> 4) << 3
                return Command(ck, name, bank, self._rows.get(bank, -1), column)
            case "PRE" | "REF":
                return Command(ck, name, bank & 7 if name == "REF" else bank, all_banks=bool(falling >> 6))
        return Command(ck, name)


@cache
def opcode(rising):
    """Name of the command with these bits at the rising edge: the one with the most fixed bits that fits."""
    for bits, codes in ((7, ("PRE", "REF", "MRW1", "NOP")), (3, ("ACT1", "ACT2", "RD16", "WR16"))):
        for name in codes:
            if rising & (1 << bits) - 1 == Opcode[name].value:
                return name
    return "CAS" if rising & 0b1111 == Opcode.CAS.value else "MRW2"
