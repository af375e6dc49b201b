"""A channel's accesses as a trace of Ramulator 2 (https://github.com/CMU-SAFARI/ramulator2), frontend ReadWriteTrace.

A line an access, ``R`` or ``W`` and the address vector of its LPDDR5 organisation in BG mode: channel, rank, bank
group, bank, row, column (in bursts). They stand in the order of the column commands. Rows are those of the device, so
no address mapping takes part.
"""

__all__ = ["access_lines"]


def access_lines(window, channel):
    """Yields the lines of *channel*, which is channel 0 there, without accesses to rows opened before the window."""
    for command in window.commands[channel]:
        if command.name in ("RD16", "WR16") and command.row >= 0:
            kind = "R" if command.name == "RD16" else "W"
            yield f"{kind} 0,0,{command.bank >> 2},{command.bank & 3},{command.row},{command.column}\n"
