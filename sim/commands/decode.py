"""``headrace run``: a prompt decoded on the simulated RTL, checked against the golden model."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from firmware.compiler import compile_model
from firmware.engine import Sampling
from firmware.errors import UserError
from firmware.gguf_model import read_model
from firmware.image import write_image
from firmware.tokenizer import Tokenizer
from firmware.traffic import step_traffic
from hw.config import Config
from sim.build import run_folder, toolchain
from sim.commands.golden_run import GoldenRun
from sim.commands.progress import RunProgress, working
from sim.losses.decode import Losses, measured_losses
from sim.losses.log import read_log
from sim.losses.ranking import ranked
from sim.model_fetch import smollm2
from sim.report import Report, Traffic, decode_table, losses_table, utilisation
from sim.roofline import predicted_clocks
from sim.system.model import system_program
from sim.system.simulator import Job, Simulator, open_store

__all__ = ["Request", "run"]


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    config: Config
    model: Path | None
    prompt: str
    raw: bool = False
    tokens: int = 32
    temperature: float = 0.0
    top_k: int = 0
    seed: int = 0
    html: Path | None = None  # report to write

    def sampling(self):
        """Fields of :class:`firmware.engine.Sampling`; None for greedy."""
        if self.temperature == 0 and self.top_k == 0:
            return None
        if self.temperature == 0:
            raise UserError(f"--top-k {self.top_k} samples: add --temperature, for example 0.8")
        return asdict(Sampling(self.temperature, self.top_k, self.seed))


def run(request, console):
    """Decode *request*; returns the :class:`sim.report.Report` and prints answer, progress and table on *console*."""
    if request.tokens < 1:
        raise UserError(f"--tokens {request.tokens}: ask for 1 token or more")
    if not request.prompt:
        raise UserError("the prompt is empty: write something after --prompt")
    if request.seed < 0:
        raise UserError(f"--seed {request.seed}: give 0 or more")
    sampling = request.sampling()
    toolchain()
    path = request.model or smollm2(console.print)
    model = read_model(path)
    for notice in model.notices:
        console.print(f"note: {notice}")
    tokenizer = Tokenizer(model.tokenizer)
    prompt = tokenizer.encode(request.prompt) if request.raw else tokenizer.chat(request.prompt)
    if not prompt:
        raise UserError("the prompt has no tokens: write something after --prompt")
    compiled = compile_model(model, request.config)
    layout = compiled.layout
    last = len(prompt) + request.tokens - 1
    if last > layout.context:
        raise UserError(f"{len(prompt)} prompt tokens and {request.tokens} more are beyond the context of "
                        f"{layout.context}: shorten the prompt, or give a smaller --tokens")
    with working(console, "generating and compiling the design (minutes, once)"):
        program = system_program(request.config, trained=True)
    job = Job(request.config, str(path), layout.context, prompt, request.tokens, list(stop_tokens(tokenizer)),
              model.vocab, sampling)
    with run_folder("run") as folder:
        with working(console, "writing the model to memory"):
            store = open_store(folder / "store", request.config, create=True)
            write_image(model, layout, list(store), request.seed)
        outcome = simulate_and_check(program, job, folder, tokenizer, console, expected_clocks(layout, job))
    losses = measured_losses(outcome.logs[len(prompt):], compiled, len(prompt), outcome.result["decode_steps"],
                             outcome.result["causes"])
    report = make_report(model, layout, job, outcome, tokenizer, losses)
    console.print(decode_table(report))
    if losses:
        console.print(losses_table(vars(report)))
    if request.html:
        # Takes a second to import, which runs without it need not wait for.
        from sim.page.run_page import write_decode_page
        write_decode_page(request.html, report, losses, path, request.config)
        console.print(f"report: {request.html}", soft_wrap=True)
    return report


def stop_tokens(tokenizer):
    """The one token that ends an answer on the accelerator."""
    if tokenizer.eos in tokenizer.stop:
        return (tokenizer.eos,)
    return tuple(sorted(tokenizer.stop))[:1]


def simulate(program, job, folder, tokenizer, progress):
    """Result, logits and logs of lost clocks of *job*, shown on *progress*."""
    text = tokenizer.stream()
    with progress, Simulator(program, job, folder) as simulator:
        for event in simulator.events():
            progress.clock(event["clock"])
            if event["event"] == "token":
                progress.token(text.push(event["token"]))
        result = simulator.result()
        logits = simulator.logits(len(result["tokens"]), job.vocabulary)
    # Complete only when the simulator has ended.
    return result, logits, read_log(simulator.losses, job.config.channels)


def expected_clocks(layout, job):
    """Clocks of the whole run at the memory roof, for the time left."""
    first = len(job.prompt) - 1
    steps = [step_traffic(layout, position, head=position >= first) for position in range(first + job.count)]
    return sum(max(step.beats) for step in steps)


@dataclass(frozen=True)
class Outcome:
    """What came of a job."""

    result: dict  # of sim.system.session
    logits: np.ndarray  # (tokens, vocabulary), as the accelerator computed them
    logs: list  # a sim.losses.log.RunLog for each run: the prompt's tokens, then the decode steps
    golden_tokens: list
    golden_logits: np.ndarray


def simulate_and_check(program, job, folder, tokenizer, console, expected):
    """:class:`Outcome` of *job*. A greedy golden run goes on beside the simulation; a sampled answer is followed by the
    golden model afterwards."""
    progress = RunProgress(console, expected)
    about = (folder, job.model, job.config.mantissa_bits, job.prompt)
    if job.sampling is None:
        with GoldenRun(*about, count=job.count, stop=job.stop) as golden:
            done = simulate(program, job, folder, tokenizer, progress)
            with working(console, "waiting for the golden model"):
                return Outcome(*done, *golden.outcome())
    done = simulate(program, job, folder, tokenizer, progress)
    with GoldenRun(*about, tokens=done[0]["tokens"]) as golden, working(console, "waiting for the golden model"):
        return Outcome(*done, *golden.outcome())


def make_report(model, layout, job, outcome, tokenizer, losses: Losses | None):
    """The :class:`sim.report.Report` of a finished run."""
    result, logits = outcome.result, outcome.logits
    golden_tokens, golden_logits = outcome.golden_tokens, outcome.golden_logits.astype("<f4")
    config, tokens, steps = job.config, result["tokens"], result["decode_steps"]
    first = len(job.prompt)
    logits_written = job.sampling is not None
    traffic = [step_traffic(layout, first + n, logits=logits_written) for n in range(steps)]
    causes = result["causes"]
    total = Traffic(moved=32 * causes["data"], model=sum(t.model_bytes for t in traffic),
                    codes=sum(t.code_bytes for t in traffic))
    predicted = round(predicted_clocks(layout, first, steps, logits=logits_written))
    shares = utilisation(total, causes, result["decode_clocks"], config.channels)
    equal = sum(1 for n in range(min(len(tokens), len(golden_tokens))) if tokens[:n + 1] == golden_tokens[:n + 1])
    same_logits = logits.shape == golden_logits.shape and logits.tobytes() == golden_logits.tobytes()
    return Report(
        preset=config.name, overrides=config.changes(), model=model.name, channels=config.channels, load=result["load"],
        prompt_tokens=first, tokens=tokens, text=tokenizer.decode(tokens), clocks=result["clocks"],
        prompt_clocks=result["prompt_clocks"], decode_clocks=result["decode_clocks"], decode_steps=steps,
        bytes=total.moved, bus_busy=shares.bus_busy, model_mbu=shares.model_mbu, goodput=shares.goodput,
        predicted_clocks=predicted, causes=causes,
        losses=ranked(losses.counts, result["decode_clocks"] * config.channels) if losses else [], violations=0,
        golden_match=same_logits and tokens == golden_tokens, golden_tokens=equal,
        logits_sha256=digest(logits[1:]), golden_logits_sha256=digest(golden_logits[1:]),
        host_seconds=result["host_seconds"], clocks_per_host_second=result["clocks"] / result["host_seconds"],
        notices=list(model.notices))


def digest(logits):
    """SHA-256 over little-endian binary32 logits, step after step."""
    return hashlib.sha256(logits.tobytes()).hexdigest()
