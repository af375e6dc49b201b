"""Verilog of the design, one module emitted once and instanced many times.

Amaranth writes a module per instance. :class:`Shared` stands in a design where a component would: on export it
elaborates to an ``Instance`` of the component's module, which :func:`convert` emits once beside the rest.
"""

import os
import re

from amaranth.back import verilog
from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, In

__all__ = ["Shared", "convert"]


class Shared(Component):
    """An instance of the module that *component* is emitted as; same signature.

    All instances of one ``module`` name must be built with equal parameters; what differs between them must be ports.
    """

    def __init__(self, component, module):
        self.component = component
        self.module = module
        super().__init__(component.signature)

    def elaborate(self, platform):
        ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for path, member, value in self.signature.flatten(self):
            direction = "i" if member.flow is In else "o"
            ports[f"{direction}_{'__'.join(str(part) for part in path)}"] = Value.cast(value)
        m = Module()
        m.submodules.instance = Instance(self.module, **ports)
        return m


def _shared_modules(component):
    """Every :class:`Shared` that *component* lists in its ``shared`` attribute, by module name, inner ones first."""
    found = {}
    for child in getattr(component, "shared", ()):
        found.update(_shared_modules(child.component))
        found[child.module] = child.component
    return found


def convert(component, name):
    """Verilog text of *component* as module *name*, with the modules that it shares. Same text on any machine."""
    os.environ["AMARANTH_USE_YOSYS"] = "builtin"
    parts = [verilog.convert(inner, name=module, strip_internal_attrs=True)
             for module, inner in _shared_modules(component).items()]
    parts.append(verilog.convert(component, name=name, strip_internal_attrs=True))
    return "\n".join(_tidied(part) for part in parts)


def _tidied(text):
    """*text* without source lines, which differ from machine to machine; one loop sets a memory's equal rows.

    A statement a row makes Verilator's C++ three times as long.
    """
    text = re.sub(r'^ *\(\* src = "[^"]*" \*\)\n', "", text, flags=re.MULTILINE)
    rows = re.compile(r"^    (\S+ ?)\[0\] = (\S+);\n(?:    \1\[\d+\] = \2;\n){8,}", re.MULTILINE)

    def loop(match):
        count = match[0].count("\n")
        return f"    for (int row__ = 0; row__ < {count}; row__ = row__ + 1) {match[1]}[row__] = {match[2]};\n"

    return rows.sub(loop, text)
