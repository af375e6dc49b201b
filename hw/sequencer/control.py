"""What the registers tell the sequencer, and what it answers."""

from amaranth.lib import enum
from amaranth.lib.data import StructLayout

from hw.config import Config
from hw.interfaces import Position
from hw.isa import PROGRAM_DEPTH

__all__ = ["ACCESS_WORDS", "EXECUTE_WORDS", "TOKEN_BITS", "ErrorInfo", "Fault", "ProgramWrite", "RunSettings", "Wait"]

TOKEN_BITS = 20

ACCESS_WORDS = 4
"""32-bit words from one access record to the next in the program window."""

EXECUTE_WORDS = 2
"""32-bit words from one execute record to the next in the program window."""


def RunSettings(config: Config):  # noqa: N802
    """A run: ``steps`` tokens, the first ``token`` at ``position``, the next the argmax of the one before."""
    return StructLayout({
        "token": TOKEN_BITS,  # token that the first step embeds
        "position": Position(config),  # of the first step
        "beyond": 1,  # that position is past the longest context
        "steps": TOKEN_BITS,
        "head": 1,  # the steps compute logits and argmax; needed for more than one
        "stop_enable": 1,  # end the run after ``stop_token``
        "stop_token": TOKEN_BITS,
    })


ProgramWrite = StructLayout({
    "execute": 1,  # which program
    "word": range(PROGRAM_DEPTH * ACCESS_WORDS),
    "data": 32,
})
"""One 32-bit word of a program memory."""


class Fault(enum.Enum, shape=4):
    """Why a run was stopped."""

    NONE = 0
    OPCODE = 1  # unknown record kind
    CONDITION = 2  # unknown condition
    LOOP = 3  # LOOP inside a loop or of no layers, NEXT outside, END inside
    OVERRUN = 4  # the last record of the memory is not END
    SETTINGS = 5  # no steps, several without head, or a first position beyond the context
    FIELD = 6  # unknown weight format or row scale, or a KV head that the model does not have
    ADDRESS = 7  # an access record's beats, or its position's block table entry, end past the memory or the context
    TABLE = 8  # a block table entry names a page past the memory
    FENCE = 9  # a slice waits for an operand, and nothing that could bring it is at work or has moved in time
    WATCHDOG = 10  # no slice has moved in time, for another reason
    LEFTOVER = 11  # beats were fetched, results or operands computed, that no record took
    LOGITS = 12  # logits would be written past the memory


class Wait(enum.Enum, shape=3):
    """What a slice waits for."""

    NOTHING = 0  # it has no record
    OPERAND = 1  # a fence: an operand, or the newest K and V
    MAXIMUM = 2  # score maxima of all channels
    RESULTS = 3  # room for what it computes
    DATA = 4  # beats


ErrorInfo = StructLayout({
    "fault": Fault,
    "execute": 1,  # engine: 0 access, 1 execute
    "record": range(PROGRAM_DEPTH),
    "channel": 5,  # of TABLE, FENCE and WATCHDOG
    "wait": Wait,  # of that channel's slice, for FENCE and WATCHDOG
})
