"""The DFI-like interface between a channel controller and its PHY or device model."""

from amaranth.lib import enum
from amaranth.lib.wiring import In, Out, Signature

from hw.dram.command import COMMAND_BITS
from hw.interfaces import BEAT

__all__ = ["WckToggle", "dfi_signature"]


class WckToggle(enum.Enum, shape=2):
    """What WCK does while ``wck_en`` is high (DFI 5: dfi_wck_toggle)."""

    STATIC_LOW = 0
    STATIC_HIGH = 1
    TOGGLE = 2
    FAST_TOGGLE = 3


def dfi_signature():
    """One x16 channel, seen from the controller; one controller clock is two CK, phase ``p0`` before ``p1``.

    ``p0``, ``p1``: command word (see :mod:`hw.dram.command`) valid with ``cs``. ``wrdata``/``wrdata_en``: the 256
    bits of a BL16, tphy_wrlat after the WR. ``rddata_en``: trddata_en after the RD. ``rddata``/``rddata_valid``: the
    data of the RDs in their order, whenever the PHY has it. ``wck_en``, ``wck_toggle``: WCK. ``init_start`` asks the
    PHY to train; it answers with ``init_complete``, which stays high. :class:`hw.dram.timing.Timing` has both times;
    without a PHY's parameters they are WL and RL. docs/dfi.md describes each signal.
    """
    phase = Signature({"address": Out(COMMAND_BITS), "cs": Out(1)})
    return Signature({
        "p0": Out(phase),
        "p1": Out(phase),
        "wrdata_en": Out(1),
        "wrdata": Out(BEAT),
        "rddata_en": Out(1),
        "rddata_valid": In(1),
        "rddata": In(BEAT),
        "wck_en": Out(1),
        "wck_toggle": Out(WckToggle),
        "init_start": Out(1),
        "init_complete": In(1),
    })
