"""Inner signals of an elaborated component, for invariants; the hardware itself stays free of proof code."""

from amaranth.hdl import Array, Elaboratable, Value

from hw.verilog.signal_names import name_signals

__all__ = ["Opened"]


class Opened(Elaboratable):
    """An elaborated component whose inner signals, memories and submodules can be named.

    Amaranth has no public way to this: the attributes of :class:`amaranth.hdl.Module` used here are those of the
    version that requirements.lock pins. ``ports``: the component. ``parts``: submodules by name, each opened too.
    """

    def __init__(self, component):
        self.ports = component
        self._module = component.elaborate(None)
        component._MustUse__used = True  # as when Amaranth elaborates it
        self._module._flush()
        self.parts, self._memories = {}, {}
        for name, (part, place) in list(self._module._named_submodules.items()):
            if hasattr(part, "read_port"):
                self._memories[name] = part
            else:
                self.parts[name] = Opened(part)
                self._module._named_submodules[name] = self.parts[name], place
        name_signals(self._module._driving)
        self._signals = {signal.name: signal for signal in self._module._driving}

    def __getitem__(self, name):
        """The signal called *name*; KeyError if nothing in the component drives one."""
        return self._signals[name]

    def signals(self, name):
        """All signals called *name*, in the order in which they are driven."""
        return [signal for signal in self._module._driving if signal.name == name]

    def state(self, *names):
        """The component's FSM is in one of the states *names*."""
        fsm = self._module._generated["fsm"]
        found = Value.cast(0)
        for name in names:
            found = found | (fsm.state == fsm.encoding[name])
        return found

    def rows(self, name):
        """What the memory *name* holds, as an :class:`amaranth.hdl.Array` of its rows."""
        memory = self._memories[name]
        ports = []
        for row in range(memory.depth):
            port = memory.read_port(domain="comb")
            self._module.d.comb += port.addr.eq(row)
            ports.append(port.data)
        return Array(ports)

    def elaborate(self, platform):
        return self._module
