"""Why a channel clock carried a data beat or did not."""

from amaranth.lib import enum

__all__ = ["Cause"]


class Cause(enum.Enum, shape=3):
    """The one cause of a channel clock. When several apply the first in this order is reported."""

    DATA = 0  # a RD or WR was issued: one beat
    REFRESH = 1  # the next beat's bank pair is being refreshed or made ready for it
    ACTIVATE = 2  # the next beat's row is not open yet, or same bank group as the beat before (tCCD_L)
    TURNAROUND = 3  # RD after WR, WR after RD, or WCK restarts
    NO_REQUEST = 4  # nothing asked for
    BACK_PRESSURE = 5  # no credit: the receiving FIFO is full
