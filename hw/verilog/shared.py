"""One built component behind many instances."""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib.wiring import Component, In

__all__ = ["Shared"]


class Shared(Component):
    """An instance of the module that *component* is emitted as; same signature.

    Stands in a design where the component would, so that it is elaborated once however often it is instanced. All
    instances of one ``module`` name share one component; what differs between them must be ports. *clear*, a signal,
    resets the instance like its clock domain's reset does.
    """

    def __init__(self, component, module, clear=None):
        self.component = component
        self.module = module
        self._clear = clear
        super().__init__(component.signature)

    def elaborate(self, platform):
        reset = ResetSignal() if self._clear is None else ResetSignal() | self._clear
        ports = {"i_clk": ClockSignal(), "i_rst": reset}
        for path, member, value in self.signature.flatten(self):
            direction = "i" if member.flow is In else "o"
            ports[f"{direction}_{'__'.join(str(part) for part in path)}"] = Value.cast(value)
        m = Module()
        m.submodules.instance = Instance(self.module, **ports)
        return m
