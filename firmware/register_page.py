"""docs/registers.md, printed from the register map: ``python -m firmware.register_page > docs/registers.md``."""

from hw.host.register_map import FieldKind, register_map

__all__ = ["register_page"]

ACCESS = {FieldKind.CONSTANT: "read", FieldKind.INPUT: "read", FieldKind.STORAGE: "read, write",
          FieldKind.PULSE: "write 1 to do", FieldKind.EVENT: "read, write 1 to clear"}

HEADER = """\
# Registers

Printed from `hw/host/registers.rdl` by `python -m firmware.register_page`; a test fails when this page is stale.
AXI4-Lite, 32-bit words; an address without a register answers SLVERR. 64-bit registers are two words, low first.
"""


def bits(field):
    """Bit range of a field."""
    return f"{field.low + field.width - 1}:{field.low}" if field.width > 1 else str(field.low)


def register_page():
    """The page as Markdown."""
    known = register_map()
    lines = [HEADER, "| address | register | bits | field | access | meaning |", "|---|---|---|---|---|---|"]
    for register in known.registers.values():
        head = f"{register.address:#05x} | {register.name}"
        for name, field in register.fields.items():
            meaning = field.desc or register.desc
            lines.append(f"| {head} | {bits(field)} | {name} | {ACCESS[field.kind]} | {meaning} |")
            head = " | "
    for window in known.windows.values():
        head = f"{window.address:#05x} | {window.name}"
        lines.append(f"| {head} | | {window.words} words | write, while no run goes on | Records of hw/isa.py. |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(register_page(), end="")
