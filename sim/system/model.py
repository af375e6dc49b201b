"""The Verilated model of a whole system: accelerator, device models, store and monitors for one configuration."""

from pathlib import Path

from hw.top import Headrace
from hw.verilog import convert
from sim.build import COCOTB_MAIN, compile_model, public_ports
from sim.lpddr.device import Device
from sim.lpddr.table import device_timing
from sim.system.wrapper import PORTS, TOP, wrapper_text

__all__ = ["system_program"]

HERE = Path(__file__).parent

WAIVED = ("DECLFILENAME", "PROCASSINIT", "UNUSEDSIGNAL", "WIDTHEXPAND", "UNDRIVEN", "UNUSEDPARAM", "WIDTHTRUNC",
          "CASEINCOMPLETE", "UNOPTFLAT", "BLKSEQ", "SYNCASYNCNET")


def system_program(config, *, timing=None, device=None, jobs=2):
    """Path of the program that simulates the accelerator of *config*, compiled if need be (minutes, the first time).

    *timing* replaces the controllers' LPDDR5X timing, *device* the device models'
    (:class:`sim.lpddr.table.DeviceTiming`).
    """
    accelerator = Headrace(config, timing)
    memory = Device(config.beat_address_bits, device or device_timing(config.density_gbit))
    files = {
        "system.sv": wrapper_text(accelerator, memory, config.channels, config.lanes),
        "headrace.v": convert(accelerator, "headrace"),
        "lpddr5x.v": convert(memory, "lpddr5x"),
        "public.vlt": public_ports(TOP, PORTS),
        "main.cpp": f'#define COCOTB_MAIN "{COCOTB_MAIN}"\n' + (HERE / "main.cpp").read_text(),
    }
    files |= {name: (HERE / name).read_text() for name in ("register_port.sv", "events.cpp", "store.cpp")}
    return compile_model(
        f"system-{config.name}", files, top=TOP, opt="-O2", cflags="-march=native", jobs=jobs,
        args=["--no-public-flat-rw", "--timing", "--timescale", "1ns/1ns", "-O3", "--x-assign", "fast",
              "--x-initial", "fast", "-Wall", "-Wfuture-PROCASSINIT", *(f"-Wno-{waived}" for waived in WAIVED)])
