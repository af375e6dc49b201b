"""AXI4-Lite, 32 bits wide, and the simple bus that it becomes."""

from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out, Signature

__all__ = ["ADDRESS_WIDTH", "AxiLiteBridge", "axi_lite_signature", "register_bus_signature"]

ADDRESS_WIDTH = 16
SLVERR = 2


def axi_lite_signature():
    """AXI4-Lite seen from the master; signal names of the AMBA specification (IHI 0022)."""
    return Signature({
        "awaddr": Out(ADDRESS_WIDTH), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
        "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
        "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "araddr": Out(ADDRESS_WIDTH), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
        "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
    })


def register_bus_signature():
    """Reads and writes of 32-bit words, answered in the same clock; ``write`` and ``read`` are never high together.

    ``word`` is the byte address / 4; ``strobe`` a bit for each byte of ``data``; ``error`` refuses the access.
    """
    return Signature({
        "word": Out(ADDRESS_WIDTH - 2),
        "write": Out(1),
        "data": Out(32),
        "strobe": Out(4),
        "read": Out(1),
        "result": In(32),
        "error": In(1),
    })


class AxiLiteBridge(Component):
    """AXI4-Lite to the register bus. One access at a time, a write before a read; each answered in the following clock.

    A refused access gives SLVERR. The low two address bits are ignored.
    """

    axil: In(axi_lite_signature())
    bus: Out(register_bus_signature())

    def elaborate(self, platform):
        m = Module()
        axil, bus = self.axil, self.bus
        m.d.comb += [
            bus.write.eq(axil.awvalid & axil.wvalid & ~axil.bvalid),
            bus.read.eq(axil.arvalid & ~axil.rvalid & ~bus.write),
            bus.word.eq(axil.araddr >> 2),
            bus.data.eq(axil.wdata),
            bus.strobe.eq(axil.wstrb),
            axil.awready.eq(bus.write),
            axil.wready.eq(bus.write),
            axil.arready.eq(bus.read),
        ]
        with m.If(bus.write):
            m.d.comb += bus.word.eq(axil.awaddr >> 2)
            m.d.sync += [axil.bvalid.eq(1), axil.bresp.eq(bus.error * SLVERR)]
        with m.Elif(axil.bready):
            m.d.sync += axil.bvalid.eq(0)
        with m.If(bus.read):
            m.d.sync += [axil.rvalid.eq(1), axil.rdata.eq(bus.result), axil.rresp.eq(bus.error * SLVERR)]
        with m.Elif(axil.rready):
            m.d.sync += axil.rvalid.eq(0)
        return m
