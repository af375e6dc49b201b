"""A design as modules: one for each kind of component, with its signature as ports, instanced where components stand.

Amaranth itself writes a module for each instance, with ports that it infers. Here a component becomes an ``Instance``
of a module that is converted once: ports are stable and twelve equal multipliers are one file.
"""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Fragment, Instance, Signal, Value
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._ir import Design, PortDirection, build_netlist
from amaranth.lib.wiring import Component, In

from hw.verilog.shared import Shared
from hw.verilog.signal_names import name_signals

__all__ = ["PREFIX", "Part", "split"]

PREFIX = "headrace"
"""What the names of modules begin with."""

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """A module before it is written."""

    name: str
    component: Component  # the first that the module stands for
    ports: tuple  # names, in order
    states: dict  # signal of a state machine -> value -> name of the state
    rtlil: str

    @property
    def source(self):
        """Python file of the component's class, from the root of the repository; of others its name."""
        path = Path(inspect.getfile(type(self.component))).resolve()
        return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name

    @property
    def summary(self):
        """First paragraph of the class's documentation, in one line."""
        return " ".join((inspect.getdoc(type(self.component)) or "").split("\n\n")[0].split())


def split(component, name):
    """:class:`Part` of *component*, called *name*, and of everything in it: those that are instanced first.

    A class that is built from a configuration alone has one form, and its module is called after it. Any other is
    called after the place of its first instance, numbers left out: ``lane_0`` to ``lane_3`` are one module. Another
    form of a name that is taken keeps the place's number.
    """
    return _Splitter().run(component, name)


class _Splitter:
    def __init__(self):
        self.parts = {}

    def run(self, component, name):
        fragment = Fragment.get(component, None)
        design = fragment.prepare(list(_ports(component)), hierarchy=(name,))
        self.infos = dict(design.fragments)
        name_signals({signal.duid: signal for info in self.infos.values() for signal in info.used_signals}.values())
        self.convert(design.fragment, component, [name], _canonical(type(component)))
        return list(self.parts.values())

    def convert(self, fragment, component, names, place):
        """Adds the module of *fragment* under the first free of *names*, returns (name, port names)."""
        info = self.infos[fragment]
        outside = self.infos[info.parent].used_signals if info.parent is not None else ()
        self.replace_children(fragment, place)
        ports = list(_ports(component))
        known = {id(signal) for _, signal, _ in ports}
        taken = {port for port, _, _ in ports}
        clocks = {id(signal) for domain in fragment.domains.values() for signal in (domain.clk, domain.rst)}
        first, further = [], []
        for signal in info.used_signals:
            if id(signal) in clocks:
                first.append((signal.name, signal, PortDirection.Input))
            elif outside and signal in outside and id(signal) not in known and len(signal):
                # Used on both sides without being a port: what ResetInserter adds.
                if signal.name in taken:
                    raise ValueError(f"{place}: signal {signal.name} of outside has the name of a port")
                taken.add(signal.name)
                further.append((signal.name, signal, PortDirection.Input))
        ports = sorted(first, key=lambda port: port[0]) + further + ports
        for name in names:
            design = Design(fragment, ports, hierarchy=(name,))
            text = _rtlil(design, name)
            states = _states(design.fragments[fragment].signal_names)
            order = tuple(port for port, _, _ in ports)
            part = self.parts.setdefault(name, Part(name, component, order, states, text))
            if part.rtlil == text and type(part.component) is type(component):
                return name, ports
        raise ValueError(f"modules of different contents would be called {names[-1]}")

    def replace_children(self, fragment, place):
        for index, (child, name, src_loc) in enumerate(fragment.subfragments):
            component = _component(child)
            if isinstance(component, Shared):
                self.add_shared(component)
                instance = child.subfragments[0][0]
            elif type(child) is not Fragment:
                continue  # memories and instances
            elif component is None:
                raise ValueError(f"{place}.{name} is not a component: it has no signature to make ports of")
            else:
                instance = self.instance(child, component, name, place)
            fragment.subfragments[index] = (instance, name, src_loc)

    def add_shared(self, stand_in):
        if stand_in.module not in self.parts:
            inner = _Splitter()
            inner.parts = self.parts
            inner.run(stand_in.component, stand_in.module)

    def instance(self, fragment, component, name, place):
        own = f"{place}_{re.sub(r'_?[0-9]+$', '', name) or name}"
        names = [own, f"{place}_{name}"]
        if _has_one_form(type(component)):
            names.insert(0, _canonical(type(component)))
        module, ports = self.convert(fragment, component, names, names[0])
        ways = {PortDirection.Input: "i", PortDirection.Output: "o"}
        return Instance(module, *((ways[direction], port, signal) for port, signal, direction in ports))


class _Emitter(rtlil.ModuleEmitter):
    """Amaranth's, with the rows of a memory written at once: it makes an object of each bit."""

    def emit_memory(self, cell_idx, cell):
        bits = "".join(f"{row:0{cell.width}b}" for row in reversed(cell.init)) if cell.width else ""
        self.builder.cell("$meminit_v2", ports={
            "ADDR": self.sigspec(), "DATA": f"{len(bits)}'{bits}", "EN": self.sigspec(),
        }, parameters={"MEMID": self.memories[cell_idx].memid})


def _rtlil(design, name):
    """RTLIL text of the one module of *design*."""
    netlist = build_netlist(design, name=name, ports=())
    builder = rtlil.Design(emit_src=False)
    module, = netlist.modules
    empty = rtlil.EmptyModuleChecker(netlist)
    _Emitter(builder.module(name), netlist, module, SignalDict(), empty_checker=empty).emit()
    return str(builder)


def _ports(component):
    """(name, signal, direction) of each member of the signature."""
    for path, member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        if isinstance(signal, Signal) and len(signal):
            yield ("__".join(map(str, path)), signal,
                   PortDirection.Input if member.flow is In else PortDirection.Output)


def _states(names):
    """State machines among the signals that *names* has the names of."""
    found = {}
    for signal, name in names.items():
        if signal.name.endswith("_state") and signal.decoder is not None:
            found[name] = {}
            for value in range(1 << len(signal)):
                try:
                    found[name][value] = signal.decoder(value).rpartition("/")[0]
                except KeyError:  # fewer states than the signal has values
                    break
    return found


def _component(fragment):
    """The component that *fragment* comes from, None for others."""
    return next((origin for origin in fragment.origins or () if isinstance(origin, Component)), None)


def _has_one_form(kind):
    """Whether all that the constructor of *kind* takes is a configuration."""
    if kind.__init__ is Component.__init__:
        return True
    return set(inspect.signature(kind.__init__).parameters) <= {"self", "config"}


def _canonical(kind):
    """Module name of class *kind*."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()
    return name if name == PREFIX else f"{PREFIX}_{name}"
