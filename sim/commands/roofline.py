"""``headrace roofline``: what a model's decoding takes, here and on other devices, as a table, JSON and a picture."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from firmware.errors import UserError
from hw.config import Config
from sim.catalogue import find_model
from sim.model_shape import Model
from sim.report import two_columns
from sim.roofline.accelerator import Accelerated, accelerate
from sim.roofline.devices import DEVICES, Device, preset_device
from sim.roofline.measurements import read_run
from sim.roofline.work import Work, decode_work, prefill_work, resident_bytes
from sim.weight_types import KV8, parse_weights, weight_type

__all__ = ["Request", "Prediction", "predict", "run"]

MOST_BATCH = 1 << 16


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    config: Config
    model: str  # name in the catalogue, or path
    context: int
    batch: int = 1
    weights: str | None = None  # default: as the model's files, in what the hardware streams
    kv: str = KV8.name
    bandwidths: tuple = ()  # GB/s of further devices
    measured: tuple = ()  # paths of JSON files of runs
    plot: Path | None = None


@dataclass(frozen=True)
class Prediction:
    """What a :class:`Request` asks for, as numbers."""

    model: Model
    weights: object  # types of the weights, by role
    kv: object  # type of K and V
    step: Work  # of decoding
    speed: Accelerated
    device: Device


def predict(request):
    """The :class:`Prediction` for *request*."""
    model = find_model(request.model)
    check(request, model)
    weights = parse_weights(request.weights) if request.weights else model.streamed_types()
    kv = weight_type(request.kv)
    step = decode_work(model, request.context - 1, kv, request.batch, weights)
    speed = accelerate(model, weights, kv, request.config, request.context)
    return Prediction(model, weights, kv, step, speed, preset_device(request.config))


def run(request, console):
    """Print the tables on *console*, draw the plot if asked for; returns the figures as a dict for JSON."""
    runs = [read_run(path) for path in request.measured]
    found = predict(request)
    model, weights, kv, step, speed = found.model, found.weights, found.kv, found.step, found.speed
    device = found.device
    prompt = prefill_work(model, request.context, kv, weights)
    others = [*DEVICES, *(Device(f"{gbps:g} GB/s", 1e9 * gbps, None, "", "--bandwidth") for gbps in request.bandwidths)]
    resident = resident_bytes(model, request.context, kv, request.batch, weights)

    console.print(model_table(model, weights, kv, request, step, resident))
    console.print(accelerator_table(request.config, speed, request.batch, resident))
    if speed.reason:
        console.print(f"analytic, from bytes alone: {speed.reason}", style="yellow", soft_wrap=True)
    console.print(device_table(request, [device, *others], step, prompt, speed))
    if request.plot:
        # Takes a second to import, which the other commands need not wait for.
        from sim.roofline.plot import draw
        draw(request.plot, model, request, device, step, speed, runs)
        console.print(f"plot: {request.plot}")
    return figures(model, weights, kv, request, step, prompt, speed, device, others, resident)


def check(request, model):
    """UserError for what no model or device allows."""
    if not 1 <= request.context <= model.context:
        raise UserError(f"--context {request.context}: {model.name} has a context of {model.context} tokens; "
                        f"choose 1 to {model.context}")
    if not 1 <= request.batch <= MOST_BATCH:
        raise UserError(f"--batch {request.batch}: choose 1 to {MOST_BATCH}")
    for bandwidth in request.bandwidths:
        if not 0 < bandwidth < 1e6:
            raise UserError(f"--bandwidth {bandwidth:g}: give GB/s, more than 0 and less than 1000000")


def model_table(model, weights, kv, request, step, resident):
    """Sizes, bytes and operations of a step."""
    table = two_columns(f"{model.name}, {request.context:,} tokens, batch {request.batch}", min_width=72)
    read = model.streamed_parameters / 1e9
    table.add_row("parameters", f"{model.parameters / 1e9:,.3f} billion, {read:,.3f} billion read a token")
    table.add_row("weights; KV", f"{weights}; {kv.name}")
    table.add_row("memory", f"{resident / 1e9:,.2f} GB")
    table.add_section()
    table.add_row("bytes a step", f"{step.bytes / 1e6:,.1f} MB, KV {100 * step.kv_bytes / step.bytes:.1f} %")
    attention = step.attention_operations / step.operations
    table.add_row("operations a step", f"{step.operations / 1e9:,.2f} G, attention {100 * attention:.1f} %")
    table.add_row("arithmetic intensity", f"{step.intensity:.2f} operations a byte")
    return table


def accelerator_table(config, speed, batch, resident):
    """Predicted clocks of the accelerator and what they are made of."""
    table = two_columns(f"Headrace {config.name}, {config.channels} channels: prediction", min_width=72)
    table.add_row("clocks a token", f"{speed.clocks:,.0f}")
    table.add_row("  memory roof", f"{speed.roof_clocks:,.0f}")
    for cause, clocks in sorted(speed.lost.items(), key=lambda item: -item[1]):
        if round(clocks) > 0:
            table.add_row(f"  {cause}", f"{clocks:,.0f}  ({100 * clocks / speed.clocks:.2f} %)")
    table.add_row("model MBU", f"{100 * speed.model_mbu:.2f} %")
    table.add_row("tokens a second", f"{speed.tokens_per_second:,.2f}")
    table.add_row("prompt tokens a second", f"{speed.prompt_tokens_per_second:,.2f}")
    if batch > 1:
        table.add_row("batch", "one sequence after the other: weights meet one vector (V_w 1)")
    if resident > config.memory_bytes:
        table.add_row("memory", f"{resident / 1e9:,.1f} GB of {config.memory_bytes / 1e9:,.1f} GB", style="yellow")
    return table


def device_table(request, devices, step, prompt, speed):
    """The accelerator's prediction, then the bounds of other devices at their rooflines."""
    table = Table(title=f"Decode, and a prompt of {request.context:,} tokens")
    table.add_column("device", no_wrap=True)
    for heading in ("GB/s", "T op/s", "ridge", "token/s", "prompt"):
        table.add_column(heading, justify="right", no_wrap=True)
    accelerator, *others = devices
    table.add_row(*peaks(accelerator), f"{speed.tokens_per_second:,.2f}", f"{speed.prompt_tokens_per_second:,.1f}")
    table.add_section()
    for device in others:
        taken_in = prompt.tokens_per_second(device.bandwidth, device.operations) if device.operations else None
        table.add_row(*peaks(device), f"{step.tokens_per_second(device.bandwidth, device.operations):,.2f}",
                      f"{taken_in:,.1f}" if taken_in else "")
    table.caption = (f"ridge: operations a byte; prompt: tokens a second.\n{accelerator.name}: predicted, a token at a "
                     f"time; others: 100 % of their peaks.")
    return table


def peaks(device):
    """Name and peaks of *device* as texts."""
    if device.operations is None:
        return device.name, f"{device.bandwidth / 1e9:,.1f}", "", ""
    return device.name, f"{device.bandwidth / 1e9:,.1f}", f"{device.operations / 1e12:,.1f}", f"{device.ridge:,.1f}"


def figures(model, weights, kv, request, step, prompt, speed, device, others, resident):
    """All figures, for JSON."""
    def work(value):
        return asdict(value) | {"bytes": value.bytes, "operations": value.operations, "intensity": value.intensity}

    def bounds(other):
        peaks_of = other.bandwidth, other.operations
        return asdict(other) | {
            "ridge": other.ridge, "tokens_per_second": step.tokens_per_second(*peaks_of),
            "prompt_tokens_per_second": prompt.tokens_per_second(*peaks_of) if other.operations else None}

    return {
        "model": model.name, "source": model.source, "preset": request.config.name, "context": request.context,
        "batch": request.batch, "weights": str(weights), "kv": kv.name, "parameters": model.parameters,
        "resident_bytes": resident, "decode": work(step), "prompt": work(prompt),
        "accelerator": asdict(speed) | {
            "analytic": bool(speed.reason), "bandwidth": device.bandwidth, "operations": device.operations,
            "ridge": device.ridge, "tokens_per_second": speed.tokens_per_second,
            "prompt_tokens_per_second": speed.prompt_tokens_per_second},
        "devices": [bounds(other) for other in others],
    }
