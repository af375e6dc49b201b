"""Mode registers that the controller programs before traffic (JESD209-5 numbering, from LiteDRAM and the LPDDR5
VIP)."""

__all__ = ["MODE_REGISTERS"]

MODE_REGISTERS = (
    (1, 0b1101_0000),  # OP[7:4] write latency bin: 8533 MT/s
    (2, 0b1101_1101),  # OP[3:0] read latency and nRBTP, OP[7:4] nWR: 8533 MT/s
    (3, 0b0000_0110),  # OP[5] write latency set A, OP[4:3] = 00 BG mode, OP[2:0] drive strength default
    (18, 0b0000_0000),  # OP[7] = 0: WCK:CK = 4:1; OP[4] = 0: WCK not always on
)
"""Pairs (register, value) in the order in which they are written."""
