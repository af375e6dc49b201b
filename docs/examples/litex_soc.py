"""A LiteX SoC with the accelerator: registers on the SoC's bus, interrupt, memory port for a DMA master on pads.

    headrace verilog --preset tiny -o build/verilog
    python docs/examples/litex_soc.py build/verilog > soc.v

The memory port is 256 bits wide, and a write of less takes some hundred clocks (docs/host.md): give it a master of that
width (PCIe, DMA), not the SoC's 32-bit bus.
"""

import json
import sys
from pathlib import Path

from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.build.io import CRG
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import axi
from migen import ClockSignal, Instance, ResetSignal, Signal

REGISTERS = 0x3000_0000
REGISTERS_BYTES = 0x1_0000
LITE = {"aw": ("addr", "prot"), "w": ("data", "strb"), "b": ("resp",), "ar": ("addr", "prot"), "r": ("data", "resp")}
FULL = {"aw": ("id", "addr", "len", "size", "burst"), "w": ("data", "strb", "last"), "b": ("id", "resp"),
        "ar": ("id", "addr", "len", "size", "burst"), "r": ("id", "data", "resp", "last")}


class Accelerator(LiteXModule):
    """``registers``: AXI4-Lite; ``memory``: AXI4; ``irq``. *folder* is what ``headrace verilog`` wrote."""

    def __init__(self, platform, folder):
        manifest = json.loads((Path(folder) / "manifest.json").read_text())
        top = next(module for module in manifest["modules"] if module["name"] == manifest["top"])
        self.registers = registers = axi.AXILiteInterface(data_width=32, address_width=32)
        self.memory = memory = axi.AXIInterface(data_width=256, address_width=40, id_width=4)
        self.irq = Signal()

        joined = {"clk": ClockSignal(), "rst": ResetSignal(), "irq": self.irq}
        for prefix, bus, channels in (("axil", registers, LITE), ("axi", memory, FULL)):
            for channel, names in channels.items():
                end = getattr(bus, channel)
                joined |= {f"{prefix}__{channel}{name}": getattr(end, name) for name in ("valid", "ready", *names)}
        joined["axil__awaddr"], joined["axil__araddr"] = registers.aw.addr[:16], registers.ar.addr[:16]

        phys = {}
        for port in top["ports"]:
            if port["name"].startswith("dfi__"):
                _, channel, name = port["name"].split("__", 2)
                joined[port["name"]] = signal = Signal(port["width"], name=port["name"])
                way = "i" if port["direction"] == "output" else "o"  # the PHY's side
                phys.setdefault(channel, {})[f"{way}_{name}"] = signal
        for port in top["ports"]:
            joined.setdefault(port["name"], Signal(port["width"], name=port["name"]))  # taps
        self.specials += Instance(top["name"], **{f"{port['direction'][0]}_{port['name']}": joined[port["name"]]
                                                  for port in top["ports"]})
        for ports in phys.values():
            self.specials += Instance("lpddr5x_phy", i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
        for name in (Path(folder) / "headrace.f").read_text().split():
            platform.add_source(str(Path(folder) / name))


class SoC(SoCMini):
    """A UART bridge drives the registers."""

    def __init__(self, platform, folder, clk_freq=100_000_000):
        self.crg = CRG(platform.request("clk"))
        super().__init__(platform, clk_freq, with_timer=False)
        self.add_uartbone()
        self.accelerator = accelerator = Accelerator(platform, folder)
        self.bus.add_slave("headrace", accelerator.registers,
                           SoCRegion(origin=REGISTERS, size=REGISTERS_BYTES, cached=False))
        platform.add_extension(accelerator.memory.get_ios("memory"))
        self.comb += accelerator.memory.connect_to_pads(platform.request("memory"), mode="slave")
        self.comb += platform.request("irq").eq(accelerator.irq)


def make(folder):
    """Verilog of the SoC round the modules in *folder*, as text."""
    platform = GenericPlatform("none", [
        ("clk", 0, Pins(1)), ("irq", 0, Pins(1)), ("serial", 0, Subsignal("tx", Pins(1)), Subsignal("rx", Pins(1)))])
    soc = SoC(platform, folder)
    soc.finalize()
    return platform.get_verilog(soc, name="soc").main_source


if __name__ == "__main__":
    print(make(sys.argv[1]))
