"""The ``headrace`` command: options and errors. What the commands do is in :mod:`sim.commands`."""

import re
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from amaranth.hdl import UnusedElaboratable
from rich.console import Console

from firmware.compiler import compile_model
from firmware.errors import UserError
from firmware.gguf_model import read_model
from hw.config import PRESETS, ConfigError, preset
from sim.commands import bench as bench_command
from sim.commands import decode, shape_run
from sim.commands import roofline as roofline_command
from sim.commands import trace as trace_command
from sim.model_fetch import smollm2
from sim.report import check_output, write_json
from sim.system.simulator import SimulationError

__all__ = ["app", "main"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
                  help="Headrace, an LLM-decode accelerator for LPDDR5X: decode and measure on its simulated RTL.")

INTERRUPTED = 130
"""What typer returns after Ctrl-C."""

TERMINATED = 128 + signal.SIGTERM
"""Exit code after SIGTERM, as shells have it."""

Preset = Annotated[str, typer.Option("--preset", help=f"Sizes of the accelerator: {', '.join(PRESETS)}.")]
Override = Annotated[list[str], typer.Option("--set", metavar="FIELD=NUMBER", help="Change a field of the preset.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE.html", help="Write a report with pictures to this "
                                                                               "file.")]
Model = Annotated[Path | None, typer.Option("--model", help="GGUF file of a llama; without it, SmolLM2-135M.")]
Raw = Annotated[bool, typer.Option("--raw", help="Continue the prompt as it is, without the chat template.")]


def configuration(name, overrides):
    """The preset *name* with *overrides* (``field=number`` texts)."""
    changes = {}
    for text in overrides:
        field, _, number = text.partition("=")
        if not re.fullmatch("-?[0-9]{1,18}", number):
            raise UserError(f"--set {text}: write it as FIELD=NUMBER, for example --set channels=2")
        changes[field] = int(number)
    return preset(name).override(**changes)


def check_reports(json_path, html_path):
    """:class:`UserError` unless both can be written, and are two files."""
    check_output(json_path)
    check_output(html_path, "--html")
    if json_path and html_path and json_path.resolve() == html_path.resolve():
        raise UserError(f"--json {json_path} --html {html_path}: one would replace the other; name two files")


@app.command(epilog='Example: headrace run --prompt "What is gravity?" --tokens 16 --json build/run.json')
def run(
    model: Model = None,
    prompt: Annotated[str, typer.Option(help="What to ask; set in the model's chat template.")] = "What is gravity?",
    raw: Raw = False,
    tokens: Annotated[int, typer.Option(help="Most tokens to generate; an end token ends the answer before.")] = 32,
    preset_name: Preset = "demo",
    overrides: Override = (),
    temperature: Annotated[float, typer.Option(help="Sample on the host with this temperature; 0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Sample among this many most likely tokens; 0 is all.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of sampling and of the order of KV pages.")] = 0,
    json_path: Json = None,
    html_path: Html = None,
):
    """Decode a prompt on the RTL, every token checked against the golden model."""
    check_reports(json_path, html_path)
    request = decode.Request(configuration(preset_name, overrides), model, prompt, raw=raw, tokens=tokens,
                             temperature=temperature, top_k=top_k, seed=seed, html=html_path)
    report = decode.run(request, Console())
    if json_path:
        write_json(json_path, report)
    if not report.good:
        raise typer.Exit(1)


@app.command(epilog="Example: headrace bench stream --json build/stream.json, or "
                    "headrace bench decode --preset bertha500 --model mixtral-8x7b --layers 2 --steps 1")
def bench(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(bench_command.BENCHES)}.")],
    model: Annotated[str | None, typer.Option(help="decode: a model's sizes with generated contents instead of "
                                              "SmolLM2's answer; as in headrace roofline.")] = None,
    context: Annotated[int | None, typer.Option(help="With --model: tokens of the sequence, the newest included; "
                                                "default 1024.")] = None,
    layers: Annotated[int | None, typer.Option(help="With --model: layers to simulate, 2 or more; the other ones in "
                                               "the middle are composed from them.")] = None,
    steps: Annotated[int | None, typer.Option(help="With --model: steps to measure; default 2.")] = None,
    batch: Annotated[int | None, typer.Option(help="With --model: sequences; 1.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="TYPE[,ROLE=TYPE]", help="With --model: types of the "
                                                "weights.")] = None,
    seed: Annotated[int | None, typer.Option(help="With --model: seed of contents, of the order of KV pages and of the "
                                             "experts that are drawn.")] = None,
    part: Annotated[str | None, typer.Option(help="With --model: what of each layer; all, or attention alone.")] = None,
    preset_name: Preset = "demo",
    overrides: Override = (),
    json_path: Json = None,
    html_path: Html = None,
):
    """Measure one thing and print its figures."""
    check_reports(json_path, html_path)
    if html_path and name != "decode":
        raise UserError(f"--html {html_path}: bench {name} has no report; decode does")
    config = configuration(preset_name, overrides)
    wanted = {"context": context, "layers": layers, "steps": steps, "batch": batch, "weights": weights, "seed": seed,
              "part": part}
    if model is None:
        for option, value in wanted.items():
            if value is not None:
                raise UserError(f"--{option} {value}: it belongs to --model, which is not given")
        figures, good = bench_command.run(name, config, Console(), html_path)
    elif name == "decode":
        request = shape_run.Request(config, model, html=html_path,
                                    **{field: value for field, value in wanted.items() if value is not None})
        figures, good = bench_command.decode_shape(request, Console()), True
    else:
        raise UserError(f"--model {model}: bench {name} takes no model; decode does")
    if json_path:
        write_json(json_path, figures)
    if not good:
        raise typer.Exit(1)


@app.command(epilog="Example: headrace roofline --preset bertha500 --model llama-3.1-70b --context 131072")
def roofline(
    model: Annotated[str, typer.Option(help="Name in the catalogue, or a GGUF or config.json file.")] = "SmolLM2-135M",
    context: Annotated[int, typer.Option(help="Tokens of a sequence, the newest included.")] = 1024,
    batch: Annotated[int, typer.Option(help="Sequences that are decoded together.")] = 1,
    weights: Annotated[str | None, typer.Option(metavar="TYPE[,ROLE=TYPE]", help="GGUF types of the weights.")] = None,
    kv: Annotated[str, typer.Option(help="Type of K and V; KV8 is the accelerator's.")] = "KV8",
    bandwidth: Annotated[list[float], typer.Option(metavar="GB/S", help="Show the bound at this bandwidth too.")] = (),
    measured: Annotated[list[Path], typer.Option(help="JSON of a run, to be drawn beside the prediction.")] = (),
    plot: Annotated[Path | None, typer.Option(help="Draw to this file: .svg, .png or .pdf.")] = None,
    preset_name: Preset = "demo",
    overrides: Override = (),
    json_path: Json = None,
):
    """Predict decoding of a model: bytes, operations, clocks, tokens a second, here and on other devices."""
    request = roofline_command.Request(configuration(preset_name, overrides), model, context, batch, weights, kv,
                                       tuple(bandwidth), tuple(measured), plot)
    figures = roofline_command.run(request, Console())
    if json_path:
        write_json(json_path, figures)


@app.command(epilog="Example: headrace trace --from 100000 --clocks 20000 -o build/trace.json")
def trace(
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    model: Model = None,
    prompt: Annotated[str, typer.Option(help="Text that is taken in; without the chat template.")] = "Gravity",
    format_name: Annotated[str, typer.Option("--format", help=f"{' or '.join(trace_command.FORMATS)}.")] = "perfetto",
    start: Annotated[int, typer.Option("--from", help="First clock, counted from the start of the first step.")] = 0,
    clocks: Annotated[int, typer.Option(help="Clocks of the window.")] = 20_000,
    channel: Annotated[int, typer.Option(help="Channel whose accesses go to ramulator2.")] = 0,
    tokens: Annotated[int, typer.Option(help="Tokens to generate; the window may be in any of their steps.")] = 1,
    preset_name: Preset = "demo",
    overrides: Override = (),
):
    """Write a window of a run as a timeline (ui.perfetto.dev), or as a trace for Ramulator 2."""
    trace_command.run(trace_command.Request(configuration(preset_name, overrides), model, prompt, output, format_name,
                                            start, clocks, channel, tokens), Console())


@app.command(epilog="Example: headrace sweep docs/sweep.toml --jobs 2 --json build/sweep.json")
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Tables [[grid]] whose lists are combined.")],
    jobs: Annotated[int, typer.Option(help="Processes on this machine.")] = 2,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler to use instead.")] = None,
    json_path: Json = None,
):
    """Predict or simulate many points in parallel; a sweep that was stopped goes on where it was."""
    from sim.commands import sweep as sweep_command  # libraries that the other commands need not wait for
    check_output(json_path)
    figures, good = sweep_command.run(file, jobs, cluster, Console())
    if json_path:
        write_json(json_path, figures)
    if not good:
        raise typer.Exit(1)


@app.command(epilog="Example: headrace program --preset tiny --model small.gguf")
def program(model: Model = None, preset_name: Preset = "demo", overrides: Override = ()):
    """Print the access and execute programs that a model is compiled to."""
    config = configuration(preset_name, overrides)
    print(compile_model(read_model(model or smollm2(print)), config).program.listing())


@app.command(epilog="Example: headrace verilog --preset tiny -o build/verilog")
def verilog(
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write; replaced whole.")],
    preset_name: Preset = "demo",
    overrides: Override = (),
):
    """Write the design as readable SystemVerilog with filelist, manifest and register map."""
    from sim.commands import verilog as verilog_command  # as above
    verilog_command.run(configuration(preset_name, overrides), folder, Console())


@app.command(epilog="Example: headrace synth --preset tiny --block reader --json build/synth.json")
def synth(
    blocks: Annotated[list[str], typer.Option("--block", metavar="NAME", help="Only this block; can be repeated.")
                      ] = (),
    speed: Annotated[int, typer.Option(help="Speed grade of the ECP5: 6, 7 or 8.")] = 8,
    route: Annotated[bool, typer.Option("--route/--no-route", help="Place and route too.")] = True,
    preset_name: Preset = "tiny",
    overrides: Override = (),
    json_path: Json = None,
):
    """Count each block's cells on an ECP5, and place and route it (long; what is done already is kept)."""
    from sim.commands import synth as synth_command  # as above
    check_output(json_path)
    request = synth_command.Request(configuration(preset_name, overrides), tuple(blocks), speed, route)
    figures = synth_command.run(request, Console())
    if json_path:
        write_json(json_path, figures)


def stop(*_):
    """A request to end: contexts are left, and so their folders and processes removed."""
    sys.exit(TERMINATED)


def main():
    """Exit with 0, 1 for a result that is wrong, 2 for what the user can put right (one line on stderr).

    Without words it prints the help. Ctrl-C raises KeyboardInterrupt, once what was in work is cleaned up.
    """
    signal.signal(signal.SIGTERM, stop)
    errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    warnings.simplefilter("ignore", UnusedElaboratable)  # an interrupted generation leaves components behind
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except (UserError, ConfigError) as error:
        errors.print(f"headrace: {error}")
    except typer.TyperException as error:
        errors.print(f"headrace: {error.format_message().splitlines()[0].rstrip('.')}; see headrace --help")
    except SimulationError as error:
        errors.print(f"headrace: {error}")
        sys.exit(1)
    except OSError as error:
        errors.print(f"headrace: {error.filename or 'system'}: {error.strerror}; check the disk and its permissions")
    sys.exit(2)
