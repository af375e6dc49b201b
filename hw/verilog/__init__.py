"""Verilog of the design: one module for each kind of component, written once and instanced where it stands."""

from dataclasses import dataclass

from hw.verilog.hierarchy import split
from hw.verilog.module import module_text
from hw.verilog.netlist import Netlist
from hw.verilog.rtlil import parse
from hw.verilog.shared import Shared

__all__ = ["ModuleFile", "Port", "Shared", "module_files", "verilog_files"]


@dataclass(frozen=True)
class Port:
    """A port of a module; ``direction`` is "input" or "output"."""

    name: str
    direction: str
    width: int


@dataclass(frozen=True)
class ModuleFile:
    """A module and its text. ``source`` is the Python file of ``component``, the class's, from the root."""

    name: str
    text: str
    ports: tuple
    component: object
    source: str
    summary: str

    @property
    def file(self):
        """Name of its file."""
        return f"{self.name}.sv"


def module_files(component, name):
    """:class:`ModuleFile` of *component*, as module *name*, after those of everything in it."""
    files, outputs = [], {}
    for part in split(component, name):
        module = parse(part.rtlil)
        for signal, values in part.states.items():
            module.wires[f"\\{signal}"].values = values
        netlist = Netlist.of(module, outputs)
        outputs[part.name] = netlist.paths()
        kind = type(part.component).__name__
        header = [f"{part.name}: {part.summary}",
                  f"Written from class {kind} of {part.source}: change that, not this.",
                  "SPDX-License-Identifier: Apache-2.0"]
        wires = [module.wires[f"\\{port}"] for port in part.ports]
        ports = tuple(Port(wire.name[1:], wire.direction, wire.width) for wire in wires)
        files.append(ModuleFile(part.name, module_text(netlist, part.ports, header), ports, part.component, part.source,
                                part.summary))
    return files


def verilog_files(component, name):
    """File name -> SystemVerilog text of *component* as module *name* and of everything in it."""
    return {file.file: file.text for file in module_files(component, name)}
