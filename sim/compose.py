"""Counters of a whole model's steps from those of runs of its first layers.

The first and the last layer, the LM head and the token boundary are in every run. A run with more layers than another
has that many middle layers more, and what they took is the difference; layers that were in no run are taken for the
mean of those.
"""

from dataclasses import dataclass

from firmware.driver import Counters

__all__ = ["Composed", "compose", "layers_to_run"]

ENDS = 2
"""The first and the last layer."""


def layers_to_run(wanted, layers):
    """Layers of each run, for *wanted* layers simulated of *layers*: all of them at once, or two and more."""
    return (layers,) if wanted >= layers or layers <= ENDS + 1 else (ENDS, max(wanted, ENDS + 1))


@dataclass(frozen=True)
class Composed:
    """Counters of the whole model, with what they are made of."""

    counters: Counters
    layer_clocks: float | None  # of a middle layer in one step; None if all were simulated
    composed_layers: int  # middle layers that were in no run


def compose(runs, layers, steps, channels):
    """The :class:`Composed` of *layers* layers and *steps* steps from *runs*, a dict of layers to :class:`Counters`.

    One run with all layers is taken as it is; of two the larger is gone on from.
    """
    largest = max(runs)
    known = runs[largest]
    if largest == layers:
        return Composed(known, None, 0)
    smaller = runs[min(runs)]
    middle = largest - min(runs)
    more = (layers - largest) / middle
    clocks = known.clocks + round(more * (known.clocks - smaller.clocks))
    # A cause that is rare can be rarer in the larger run, by chance.
    causes = {name: max(0, count + round(more * (count - smaller.causes[name])))
              for name, count in known.causes.items()}
    largest_loss = max((name for name in causes if name != "data"), key=causes.get)
    causes[largest_loss] += clocks * channels - sum(causes.values())
    return Composed(Counters(clocks, causes), (known.clocks - smaller.clocks) / middle / steps, layers - largest)
