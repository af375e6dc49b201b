"""``headrace trace``: a window of a run as a timeline for Perfetto, or as accesses for Ramulator 2."""

import json
from dataclasses import dataclass
from pathlib import Path

from firmware.compiler import compile_model
from firmware.errors import UserError
from firmware.gguf_model import read_model
from firmware.image import write_image
from firmware.tokenizer import Tokenizer
from hw.config import Config
from sim.build import run_folder, toolchain
from sim.commands.decode import expected_clocks
from sim.commands.progress import RunProgress, working
from sim.losses.operators import step_records
from sim.lpddr.table import device_timing
from sim.model_fetch import smollm2
from sim.report import check_output, written
from sim.system.model import system_program
from sim.system.simulator import Job, Simulator, open_store
from sim.trace.perfetto import chrome_trace
from sim.trace.ramulator import access_lines
from sim.trace.window import read_window

__all__ = ["FORMATS", "Request", "run"]

FORMATS = ("perfetto", "ramulator2")

MOST_CLOCKS = 10_000_000


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    config: Config
    model: Path | None
    prompt: str
    output: Path
    format: str = "perfetto"
    start: int = 0  # clocks after the start of the first step
    clocks: int = 20_000
    channel: int = 0  # for ramulator2
    tokens: int = 1

    def check(self):
        """:class:`UserError` for what can't be."""
        if self.format not in FORMATS:
            raise UserError(f"unknown format {self.format!r}; known: {', '.join(FORMATS)}")
        if self.start < 0 or not 1 <= self.clocks <= MOST_CLOCKS:
            raise UserError(f"--from {self.start} --clocks {self.clocks}: give 0 or more, and 1 to {MOST_CLOCKS:,}")
        if not 0 <= self.channel < self.config.channels:
            raise UserError(f"--channel {self.channel}: the preset has channels 0 to {self.config.channels - 1}")
        if self.tokens < 1:
            raise UserError(f"--tokens {self.tokens}: ask for 1 token or more")


def run(request, console):
    """Run the model until its answer ends and write the window; returns its :class:`sim.trace.window.Window`."""
    request.check()
    check_output(request.output, "-o")
    toolchain()
    path = request.model or smollm2(console.print)
    model = read_model(path)
    compiled = compile_model(model, request.config)
    layout = compiled.layout
    prompt = Tokenizer(model.tokenizer).encode(request.prompt)
    if not 0 < len(prompt) <= layout.context - request.tokens:
        raise UserError(f"the prompt has {len(prompt)} tokens; 1 to {layout.context - request.tokens} fit")
    with working(console, "generating and compiling the design (minutes, once)"):
        program = system_program(request.config, trace=True)
    job = Job(request.config, str(path), layout.context, prompt, request.tokens, [], model.vocab)
    with run_folder("trace") as folder:
        write_image(model, layout, list(open_store(folder / "store", request.config, create=True)))
        records = folder / "trace"
        window = (records, request.start, request.clocks)
        with RunProgress(console, expected_clocks(layout, job)) as progress, \
                Simulator(program, job, folder, trace=window) as simulator:
            for event in simulator.events():
                progress.clock(event["clock"])
            simulator.result()
        window = read_window(records, request.config.channels, request.start, request.clocks)
    if window.stop == window.start:
        raise UserError(f"--from {request.start}: the run ended before; give a smaller one, or more --tokens")
    with written(request.output) as file:
        if request.format == "perfetto":
            title = f"{model.name} on {request.config.name}, {request.config.channels} channels"
            names = record_names(compiled.program, len(prompt), request.tokens)
            json.dump(chrome_trace(window, device_timing(request.config.density_gbit), title, names), file)
        else:
            file.writelines(access_lines(window, request.channel))
    count = sum(map(len, window.commands))
    console.print(f"{request.output}: clocks {window.start:,} to {window.stop - 1:,} of the run, {count:,} commands; "
                  "the golden model was not run", soft_wrap=True)
    return window


def record_names(program, prompt, tokens):
    """Names of the slice records of a run that takes in *prompt* tokens and generates *tokens*."""
    without, with_head = ([f"layer {layer} {operator.text}" if layer >= 0 else operator.text
                           for operator, layer in zip(records.slices, records.layers, strict=True)]
                          for records in (step_records(program, head) for head in (False, True)))
    return without * (prompt - 1) + with_head * tokens
