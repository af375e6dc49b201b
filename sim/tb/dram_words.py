"""LPDDR5 command words as integers, written down from the truth table apart from :mod:`hw.dram.command`.

A word is {F CA[6:0], R CA[6:0]}. Rows of the table are strings of CA0..CA6, H and L, letters for operand bits.
"""

__all__ = ["act1", "act2", "cas", "mrw1", "mrw2", "pre", "pre_all", "rd", "rd32", "ref", "ref_all", "wr"]


def _half(pattern, **operands):
    """Seven bits from a pattern such as ``HHL7 8 9 10``: H, L, X or name[index] items separated by spaces."""
    bits = 0
    for place, item in enumerate(pattern.split()):
        if item in "HLX":
            bit = item == "H"
        else:
            name, index = item.split(".")
            bit = operands[name] >> int(index) & 1
        bits |= bit << place
    return bits


def _word(rising, falling, **operands):
    return _half(falling, **operands) << 7 | _half(rising, **operands)


_BANK = "bank.0 bank.1 bank.2 bank.3"


def act1(bank, row):
    return _word("H H H row.14 row.15 row.16 row.17", f"{_BANK} row.11 row.12 row.13", bank=bank, row=row)


def act2(row):
    return _word("H H L row.7 row.8 row.9 row.10", "row.0 row.1 row.2 row.3 row.4 row.5 row.6", row=row)


def rd(bank, col=0):
    return _word("H L L col.0 col.3 col.4 col.5", f"{_BANK} col.1 col.2 L", bank=bank, col=col)


def rd32(bank, col=0):
    return _word("H L H col.0 col.3 col.4 col.5", f"{_BANK} col.1 col.2 L", bank=bank, col=col)


def wr(bank, col=0):
    return _word("L H H col.0 col.3 col.4 col.5", f"{_BANK} col.1 col.2 L", bank=bank, col=col)


def cas(write):
    return _word("L L H H w.0 r.0 L", "L L L L L L L", w=int(write), r=int(not write))


def pre(bank):
    return _word("L L L H H H H", f"{_BANK} X X L", bank=bank)


def pre_all():
    return _word("L L L H H H H", "X X X X X X H")


def ref(pair):
    return _word("L L L H H H L", "bank.0 bank.1 bank.2 L L X L", bank=pair)


def ref_all():
    return _word("L L L H H H L", "X X X L L X H")


def mrw1(register):
    return _word("L L L H H L H", "op.0 op.1 op.2 op.3 op.4 op.5 op.6", op=register)


def mrw2(value):
    return _word("L L L H L L op.7", "op.0 op.1 op.2 op.3 op.4 op.5 op.6", op=value)
