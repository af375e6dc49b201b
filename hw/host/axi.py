"""AXI4 as the memory port speaks it."""

from amaranth.hdl import Signal
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out, Signature

from hw.config import Config
from hw.interfaces import BEAT

__all__ = ["AXI_ADDRESS_BITS", "AXI_ID_BITS", "BOUNDARY_BEATS", "BURST_FIXED", "LANE_BITS", "Response",
           "axi4_signature", "burst_beats", "burst_response", "next_lane"]

AXI_ADDRESS_BITS = 40
AXI_ID_BITS = 4

BOUNDARY_BEATS = 128
"""Beats between the 4 KB boundaries that a burst must not cross (AXI A3.4.1)."""

BOUNDARY_BITS = 12
LANE_BITS = 5
"""Address bits inside 4 KB, and inside a beat."""

BURST_FIXED, BURST_INCR = 0, 1
FIXED_TRANSFERS_BITS = 4
SIZE_BEAT = 5


class Response(enum.Enum, shape=2):
    """BRESP and RRESP."""

    OKAY = 0
    SLVERR = 2
    DECERR = 3


def axi4_signature():
    """AXI4 with 256-bit data, seen from the master. Member names are AXI's; signals that are not there are not used."""
    members = {}
    for c in ("aw", "ar"):
        members |= {
            f"{c}valid": Out(1), f"{c}ready": In(1), f"{c}id": Out(AXI_ID_BITS), f"{c}addr": Out(AXI_ADDRESS_BITS),
            f"{c}len": Out(8), f"{c}size": Out(3), f"{c}burst": Out(2),
        }
    return Signature(members | {
        "wvalid": Out(1), "wready": In(1), "wdata": Out(BEAT), "wstrb": Out(BEAT // 8), "wlast": Out(1),
        "bvalid": In(1), "bready": Out(1), "bid": In(AXI_ID_BITS), "bresp": In(Response),
        "rvalid": In(1), "rready": Out(1), "rid": In(AXI_ID_BITS), "rdata": In(BEAT), "rresp": In(Response),
        "rlast": In(1),
    })


def aligned(address, size):
    """*address*, of few bits, rounded down to a multiple of 2 ** *size*."""
    return (address >> size) << size


def burst_beats(m, address, length, size):
    """Beats of memory, less one, that the transfers of a burst inside 4 KB begin in."""
    last = Signal(BOUNDARY_BITS)
    m.d.comb += last.eq(aligned(address[:BOUNDARY_BITS], size) + (length << size))
    return last[LANE_BITS:] - address[LANE_BITS:BOUNDARY_BITS]


def next_lane(lane, size):
    """First byte lane of the transfer after one at *lane*; the bit above says that it is in the next beat of memory."""
    return (aligned(lane, size) + (1 << size))[:LANE_BITS + 1]


def burst_response(m, config: Config, address, length, size, burst):
    """Response that a burst deserves by its address phase.

    DECERR outside the memory; SLVERR unless INCR inside 4 KB or FIXED of 16 transfers or fewer, of transfers of 32
    bytes or less.
    """
    response, last, legal = Signal(Response), Signal(BOUNDARY_BITS + 2), Signal()
    m.d.comb += last.eq(aligned(address[:BOUNDARY_BITS], size) + (length << size))
    m.d.comb += legal.eq(((burst == BURST_INCR) & ~last[BOUNDARY_BITS:].any())
                         | ((burst == BURST_FIXED) & ~length[FIXED_TRANSFERS_BITS:].any()))
    shift = config.channel_bytes.bit_length() - 1
    with m.If(address[shift:] >= config.channels):
        m.d.comb += response.eq(Response.DECERR)
    with m.Elif(~legal | (size > SIZE_BEAT)):
        m.d.comb += response.eq(Response.SLVERR)
    return response
