"""Losses of decode steps: attributed, composed for deep models, ranked and put in words."""

from collections import Counter

from sim.losses.words import words
from sim.report import CAUSES

__all__ = ["compose_losses", "ranked"]


def compose_losses(counts, layers, simulated, causes):
    """Counter of :class:`sim.losses.attribute.Key` of a model of *layers* layers from that of its first *simulated*.

    What was lost in layers in the middle is taken as often as there are such layers; then each cause is brought to the
    composed count in *causes* (:func:`sim.compose.compose`), which differs from that by the noise of single layers.
    """
    more = (layers - 2) / (simulated - 2) if simulated > 2 else 1
    total = Counter()
    for cause in CAUSES[1:]:
        weights = {key: count * (more if key.operator.place == "middle" else 1)
                   for key, count in counts.items() if key.cause == cause}
        total.update(shared(causes[cause], weights))
    return total


def shared(amount, weights):
    """*amount* in whole parts in proportion to *weights*; the parts sum to it."""
    whole = sum(weights.values())
    if not whole:
        if amount:
            raise ValueError(f"{amount} channel clocks were lost to nothing that was seen")
        return {}
    parts, given, so_far = {}, 0, 0
    for key, weight in sorted(weights.items()):
        so_far += weight
        upto = round(amount * so_far / whole)
        parts[key] = upto - given
        given = upto
    return parts


def ranked(counts, total):
    """Losses as dicts for JSON, the largest first; *total*: all channel clocks, of which the shares are."""
    rows = sorted((row for row in counts.items() if row[1]), key=lambda row: (-row[1], row[0]))
    return [{"operator": key.operator.name, "head": key.operator.head if key.operator.head >= 0 else None,
             "layers": key.operator.place, "cause": key.cause, "reason": key.reason, "channel_clocks": count,
             "share": count / total, "words": words(key)} for key, count in rows]
