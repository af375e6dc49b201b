"""Writes the HTML report of a run: figures, causes, ranked losses, bandwidth over time, roofline."""

import json
from dataclasses import asdict, dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sim.commands.roofline import Request as RooflineRequest
from sim.commands.roofline import predict
from sim.page.strips import CAUSE_NAMES, pictures
from sim.report import written
from sim.roofline.devices import CLOCK_HZ
from sim.roofline.plot import roof_svg

__all__ = ["render", "write_decode_page", "write_shape_page"]

SHOWN = 15
"""Losses that are shown at once; the rest unfolds."""


@dataclass(frozen=True)
class Tile:
    """A figure with where it comes from: simulated, composed or predicted."""

    name: str
    value: str
    source: str
    note: str = ""


def write_decode_page(path, report, losses, model, config):
    """Write the page of a :class:`sim.report.Report` to *path*. *losses*: its :class:`sim.losses.decode.Losses`, or
    None; *model*: GGUF file."""
    figures = asdict(report)
    facts = [("prompt", f"{report.prompt_tokens} tokens"), ("answer", f"{len(report.tokens)} tokens"),
             ("memory filled by", report.load), ("memory rules broken", str(report.violations)),
             ("golden model", f"{report.golden_tokens} of {len(report.tokens)} tokens equal, logits "
                              + ("equal" if report.logits_sha256 == report.golden_logits_sha256 else "differ")),
             ("simulation", f"{report.clocks:,} clocks in {report.host_seconds:,.0f} s")]
    asked = RooflineRequest(config, str(model), report.prompt_tokens + report.decode_steps // 2 + 1)
    page = render(figures, losses, facts, "simulated", answer=report.text.strip(),
                  roofline=roofline(figures, asked) if losses else None)
    with written(path, "--html") as file:
        file.write(page)


def write_shape_page(figures, losses, request):
    """Write the page of a shape run's *figures*. *losses*: those of its largest simulated program; *request*: what was
    asked for (:class:`sim.commands.shape_run.Request`)."""
    simulated = " and ".join(map(str, figures["simulated_layers"]))
    composed = figures["composed_layers"]
    facts = [("context", f"{figures['context']:,} tokens"), ("contents", f"generated, seed {figures['seed']}"),
             ("golden model", "not run"), ("layers simulated", f"{simulated} of {figures['layers']}"),
             ("memory rules broken", str(figures["violations"])),
             ("simulation", f"{figures['clocks']:,} clocks in {figures['host_seconds']:,.0f} s")]
    if composed:
        facts.insert(4, ("layers composed", f"{composed}, each {figures['layer_clocks']:,.0f} clocks"))
    if request.part != "all":
        facts.append(("part", f"{request.part} alone"))
    if figures["experts"]:
        facts.append(("experts", "{chosen} of {count} in each layer, drawn by seed".format(**figures["experts"])))
    facts += [("left out", text) for text in figures["left_out"]]
    asked = RooflineRequest(request.config, request.model, request.context, weights=request.weights)
    picture = roofline(figures, asked) if request.part == "all" else None  # whole models are what is plotted
    page = render(figures, losses, facts, "composed" if composed else "simulated", roofline=picture)
    with written(request.html, "--html") as file:
        file.write(page)


def roofline(figures, request):
    """The picture of the rooflines with the run of *figures*, as SVG. *request*: of its prediction."""
    found = predict(request)
    return Markup(roof_svg(found.model, request, found.device, found.step, found.speed, figures))


def tiles(figures, source):
    """The figures at the head of the page."""
    clocks, steps, predicted = (figures[key] for key in ("decode_clocks", "decode_steps", "predicted_clocks"))
    return [
        Tile("clocks a token", f"{clocks / steps:,.0f}", source),
        Tile("token/s", f"{CLOCK_HZ * steps / clocks:,.1f}", source, "at 533.3 MHz"),
        Tile("model MBU", f"{100 * figures['model_mbu']:.2f} %", source, "weights once and valid KV"),
        Tile("bus busy", f"{100 * figures['bus_busy']:.2f} %", source, "clocks with a beat"),
        *([] if figures["goodput"] is None else
          [Tile("goodput", f"{100 * figures['goodput']:.2f} %", source, "weight codes alone")]),
        Tile("roofline", f"{predicted / steps:,.0f}", "predicted",
             f"clocks a token; {source}: {100 * (clocks / predicted - 1):+.2f} %"),
    ]


def causes(figures):
    """(cause, name, share in percent) of every cause."""
    total = figures["decode_clocks"] * figures["channels"]
    return [(cause, CAUSE_NAMES[cause], 100 * count / total) for cause, count in figures["causes"].items()]


def render(figures, losses, facts, source, *, roofline=None, answer=None):
    """The page as text. *facts*: (name, value) pairs; *source*: where the figures come from."""
    environment = Environment(loader=PackageLoader("sim.page", "."), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    changed = ", ".join(f"{name} = {value}" for name, value in figures["overrides"].items())
    strips = pictures(losses) if losses else []
    return environment.get_template("page.html.jinja").render(
        title=f"{figures['model']} on {figures['preset']}", figures=figures, changed=changed, facts=facts,
        answer=answer, source=source, tiles=tiles(figures, source) if figures["decode_steps"] else [],
        causes=causes(figures) if figures["decode_steps"] else [], losses=figures["losses"], shown=SHOWN,
        most=max((loss["share"] for loss in figures["losses"]), default=1), strips=strips,
        cause_names=CAUSE_NAMES, roofline=roofline,
        layers=1 + max(losses.records.layers) if losses else 0,
        readout=Markup(json.dumps([strip.windows for strip in strips], separators=(",", ":"))),
        data=Markup(json.dumps(figures).replace("<", "\\u003c")))
