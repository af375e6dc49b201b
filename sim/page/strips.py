"""Bandwidth over time as stacked areas in SVG, with the numbers that the page's readout shows."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from sim.losses.strip import WINDOWS, operator_spans, step_strip, strip
from sim.report import CAUSES

__all__ = ["CAUSE_NAMES", "Picture", "pictures"]

CAUSE_NAMES = {cause: cause.replace("_", " ").replace("activate precharge", "rows") for cause in CAUSES}
"""Causes as the page has them; ``rows`` is activate and precharge."""

HEIGHT = 100
"""Units of the drawing; it is stretched to the page."""

NARROW = 0.02
"""Share of the width below which an operator's name is left out."""


@dataclass(frozen=True)
class Label:
    """A piece of the axis of operators, in percent of the width."""

    left: float
    width: float
    text: str
    wide: bool  # there is room for the text


@dataclass(frozen=True)
class Picture:
    """A strip as the page shows it."""

    title: str
    note: str
    areas: tuple  # (cause, path in SVG), from the bottom up
    labels: tuple  # Labels
    first: int  # clock
    stop: int
    windows: list  # for the readout: [first clock, permille by cause ...] each


def pictures(losses):
    """The strips of :class:`sim.losses.decode.Losses`: all steps, the last step, and a layer of it."""
    log, records, count = losses.log, losses.records, losses.count
    shown = []
    if count > 1:
        shown.append(picture(strip(log), f"All {count} steps", "", ()))
    step = step_strip(log, records, count - 1)
    layers = layer_spans(step.spans)
    shown.append(picture(step, "The last step" if count > 1 else "The step", "numbers are layers",
                         [(str(n), *span) for n, span in layers.items()]))
    middle = sorted(layers)[len(layers) // 2]
    start, stop = layers[middle]
    taken = log.channels[0].taken
    spans = [span for span in operator_spans(taken, records, count - 1, stop) if span[1] == middle]
    shown.append(picture(
        strip(log, start, stop, WINDOWS, spans), f"Layer {middle} of that step",
        "operators as channel 0's slice takes them; the memory is ahead of it by the prefetch FIFO",
        [(operator.text, first, last) for operator, _, first, last in spans]))
    return shown


def layer_spans(spans):
    """Number of each layer to its (first clock, clock after)."""
    layers = {}
    for _, layer, first, stop in spans:
        if layer >= 0:
            layers[layer] = (layers.get(layer, (first,))[0], stop)
    return layers


def picture(data, title, note, named):
    """The :class:`Picture` of a :class:`sim.losses.strip.Strip`; *named*: (text, first clock, clock after)."""
    first, stop = int(data.edges[0]), int(data.edges[-1])
    span = max(1, stop - first)
    labels = tuple(
        Label(100 * (begin - first) / span, 100 * (end - begin) / span, text,
              (end - begin) / span > max(NARROW, 0.011 * len(text)))
        for text, begin, end in named if end > begin)
    shares = data.counts / data.counts.sum(0)
    permille = np.rint(1000 * shares).astype(int)
    windows = [[int(edge), *column] for edge, column in zip(data.edges[:-1], permille.T.tolist(), strict=True)]
    return Picture(title, note, tuple(areas(data, shares)), labels, first, stop, windows)


def areas(data, shares):
    """Yields (cause, path): steps from the top of the cause below to its own."""
    edges = (data.edges - data.edges[0]) / (data.edges[-1] - data.edges[0]) * 1000
    below = np.zeros(shares.shape[1])
    for cause, share in zip(CAUSES, shares, strict=True):
        above = below + share
        if share.any():
            yield cause, Markup(outline(edges, HEIGHT * (1 - above)) + " L"
                                + outline(edges, HEIGHT * (1 - below), back=True)[1:] + " Z")
        below = above


def outline(edges, heights, back=False):
    """A path of steps along *edges*; *back*: from right to left."""
    points = []
    for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
        points += [(left, height), (right, height)]
    # A level stretch needs its ends only.
    kept = [p for n, p in enumerate(points)
            if n in (0, len(points) - 1) or not points[n - 1][1] == p[1] == points[n + 1][1]]
    return "M" + " ".join(f"{x:.4g},{y:.4g}" for x, y in (reversed(kept) if back else kept))
