"""The picture: rooflines with decode points on them, and the share of peak bandwidth that decoding reaches."""

import os
from io import StringIO

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from firmware.errors import UserError
from hw.config import BEAT_BYTES, PRESETS
from sim.catalogue import find_model, model_names
from sim.roofline.devices import CLOCK_HZ, DEVICES, preset_device
from sim.roofline.measurements import public_measurements

__all__ = ["draw", "roof_svg", "run_point"]

SUFFIXES = (".svg", ".png", ".pdf")

OURS = "#c1272d"
COLOURS = {"H100 SXM": "#4d8c2f", "DGX Spark GB10": "#2a6f97", "Apple M4 Max": "#7d5ba6"}
GREY = "#8a8a8a"

INTENSITIES = (0.5, 2000)
"""Operations a byte, from left to right."""


def draw(path, model, request, device, step, speed, runs):
    """Write the picture to *path* (SVG, PNG or PDF by its name). *runs*: figures of measured runs."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"--plot {path}: name a file that ends in {', '.join(SUFFIXES)}")
    figure = Figure(figsize=(13, 6.2), layout="constrained")
    roofs, shares = figure.subplots(1, 2, width_ratios=(1.35, 1))
    points = [point for run in runs if (point := run_point(run))]
    draw_roofs(roofs, model, request, device, step, speed, points)
    for name in {run["preset"] for run in runs} & set(PRESETS) - {request.config.name}:
        draw_roof(roofs, preset_device(PRESETS[name]), OURS, 0.8)
    draw_shares(shares, model, request, speed, runs)
    kind = "prediction from bytes alone" if speed.reason else "prediction"
    figure.suptitle(f"{model.name} at {request.context:,} tokens on {device.name}: {kind}", fontsize=13)
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, dpi=150, format=path.suffix[1:].lower())
        partial.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; name another file with --plot") from None


def roof_svg(model, request, device, step, speed, run):
    """Text of an SVG element with the rooflines alone and a measured *run* of *model*; texts are kept as text."""
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axes = figure.subplots()
    draw_roofs(axes, model, request, device, step, speed, [run_point(run, model)])
    axes.set_title("")
    text = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "headrace", "font.family": "sans-serif"}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg"):]


def draw_roofs(axes, model, request, device, step, speed, measured):
    """Rooflines, the model's step under the accelerator's, and public measurements of models of known sizes.

    *measured*: (intensity, operations a second) of runs of the RTL.
    """
    low, high = INTENSITIES
    for other in DEVICES:
        draw_roof(axes, other, COLOURS[other.name], 1.3)
    draw_roof(axes, device, OURS, 2.2)
    weights = weight_peak(request.config)
    axes.plot([weights / device.bandwidth, high], [weights, weights], color=OURS, linewidth=1, linestyle="--", zorder=2)
    axes.annotate("with weights alone, 64 products a clock and channel", (high, weights), (-4, 3),
                  textcoords="offset points", color=OURS, fontsize=8, ha="right")
    for name, colour in COLOURS.items():
        points = [m for m in public_measurements() if m.device == name and m.trusted and m.intensity]
        axes.scatter([m.intensity for m in points], [m.intensity * m.achieved for m in points], s=16, color=colour,
                     alpha=0.6, linewidths=0, zorder=3)
    rate = step.operations / request.batch * speed.tokens_per_second
    intensity = rate / (speed.model_mbu * device.bandwidth)
    axes.scatter([intensity], [rate], s=170, marker="*", color=OURS, edgecolors="white", linewidths=0.8, zorder=7)
    # The free side: below the lowest roofline, or above one that others are below.
    lowest = device.bandwidth < min(other.bandwidth for other in DEVICES)
    place, side = ((12, -30), "left") if lowest else ((-12, 8), "right")
    axes.annotate(f"{model.name}\n{speed.tokens_per_second:,.1f} token/s", (intensity, rate), place,
                  textcoords="offset points", color=OURS, fontsize=9, ha=side, zorder=6)
    for point in measured:
        axes.scatter(*point, s=60, marker="D", color=OURS, edgecolors="black", linewidths=0.8, zorder=6)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(device.bandwidth * low * 0.4, 4e15),
             xlabel="arithmetic intensity: operations a byte", ylabel="operations a second")
    axes.set_title("Rooflines", fontsize=11)
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.6)
    handles = [Line2D([], [], color=OURS, marker="*", markersize=11, linestyle="", label="predicted"),
               Line2D([], [], color=OURS, marker="D", markersize=6, markeredgecolor="black", linestyle="",
                      label="measured on the simulated RTL"),
               Line2D([], [], color=GREY, marker="o", markersize=4, linestyle="", label="public decode measurements")]
    axes.legend(handles=handles if measured else handles[::2], loc="upper left", fontsize=8, frameon=False)


def weight_peak(config):
    """Operations a second where beats of 64 weights of 4 bits meet ``v_w`` vectors."""
    return 2 * 64 * config.v_w * config.channels * CLOCK_HZ


def draw_roof(axes, device, colour, width):
    """One roofline, labelled at its ridge."""
    low, high = INTENSITIES
    xs = [low, device.ridge, high] if device.ridge < high else [low, high]
    axes.plot(xs, [device.attainable(x) for x in xs], color=colour, linewidth=width, zorder=2)
    label = f"{device.name}\n{device.bandwidth / 1e9:,.0f} GB/s, ridge {device.ridge:,.0f}"
    axes.annotate(label, (high, device.operations), (-4, 4), textcoords="offset points", color=colour, fontsize=8,
                  ha="right", va="bottom")


def run_model(run):
    """Name in the catalogue of a run's model, which may be called more than that in its file; else the file's name."""
    name = run["model"].lower().replace(" ", "-")
    return next((known for known in model_names() if name.startswith(known.lower())), run["model"])


def run_point(run, model=None):
    """(intensity, operations a second) of a measured run of *model*, or None if its sizes are not in the catalogue."""
    if model is None:
        known = run_model(run)
        if known not in model_names():
            return None
        model = find_model(known)
    tokens = run.get("context", run.get("prompt_tokens", 0) + run["decode_steps"] // 2)
    operations = model.matrix_operations + model.cached_tokens(tokens) * model.score_operations
    seconds = run["decode_clocks"] / CLOCK_HZ
    moved = run["model_mbu"] * run["decode_clocks"] * run["channels"] * BEAT_BYTES
    return operations * run["decode_steps"] / moved, operations * run["decode_steps"] / seconds


def draw_shares(axes, model, request, speed, runs):
    """Decode at batch 1, a line a device: bytes that had to be read, over the peak bandwidth times the time."""
    rows = {}
    for measured in public_measurements():
        if measured.batch == 1 and measured.trusted:
            rows.setdefault(measured.device, []).append(100 * measured.share)
    rows = dict(sorted(rows.items(), key=lambda row: max(row[1])))
    for place, (name, shares) in enumerate(rows.items()):
        colour = COLOURS.get(name, GREY)
        axes.plot([min(shares), max(shares)], [place, place], color=colour, linewidth=1, alpha=0.5, zorder=2)
        axes.scatter(shares, [place] * len(shares), s=22, color=colour, alpha=0.6, linewidths=0, zorder=3)
    labels = list(rows)
    for run in runs:
        draw_share(axes, 100 * run["model_mbu"], len(labels), s=60, marker="D", edgecolors="black")
        labels.append(f"{run['preset']}: {run_model(run)[:28]}, measured")
    draw_share(axes, 100 * speed.model_mbu, len(labels), s=170, marker="*", edgecolors="white")
    labels.append(f"{request.config.name}: {model.name[:28]}, predicted")
    axes.set(xlim=(0, 100), ylim=(-0.7, len(labels) - 0.3), xlabel="weights and KV read, % of peak bandwidth, batch 1")
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    for tick, label in zip(axes.get_yticklabels(), labels, strict=True):
        tick.set_color(COLOURS.get(label, "black" if label in rows else OURS))
    axes.set_title("Bandwidth that decoding uses", fontsize=11)
    axes.grid(True, axis="x", color="#e4e4e4", linewidth=0.6)


def draw_share(axes, share, place, **style):
    """One point of the accelerator, with its value."""
    axes.scatter([share], [place], color=OURS, linewidths=0.8, zorder=5, clip_on=False, **style)
    axes.annotate(f"{share:.1f} %", (share, place), (-11, 0), textcoords="offset points", ha="right", va="center",
                  color=OURS, fontsize=9)
