"""Named properties of a proof."""

from amaranth.hdl import Assert, Assume, Cat, Module, Signal

__all__ = ["always", "every"]


def always(m, name, condition, assume=False):
    """*condition* holds in every clock: to be proved, or (*assume*) proved elsewhere or a part of the contract."""
    part = Module()
    holds = Signal(name=name)
    part.d.comb += [holds.eq(condition), Assume(holds) if assume else Assert(holds)]
    m.submodules[name] = part


def every(*conditions):
    """All *conditions*, each a list of which one must hold."""
    return Cat(Cat(condition).any() for condition in conditions).all()
