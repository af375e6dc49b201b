"""Registers that carry data and valid bits along a free-running pipeline."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import Out, Signature

__all__ = ["delay", "delay_valid", "groups"]


def delay(m: Module, value, clocks, name):
    """*value* as it was *clocks* ago; data, so it has no reset."""
    for n in range(clocks):
        register = Signal.like(value, name=f"{name}_{n + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def delay_valid(m: Module, valid, clocks, name):
    """A one-bit *valid* as it was *clocks* ago; 0 after reset."""
    chain = Signal(clocks, name=name)
    m.d.sync += chain.eq(Cat(valid, chain))
    return chain[-1]


def groups(lanes):
    """Signature of a run of binary32 groups inside the vector unit, no back-pressure.

    ``last`` marks the last group of a record.
    """
    return Signature({"valid": Out(1), "last": Out(1), "values": Out(ArrayLayout(32, lanes))})
