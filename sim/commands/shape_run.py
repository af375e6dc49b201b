"""``headrace bench decode --model``: decode steps of a model of which only the sizes are known, on the simulated RTL.

Contents are generated, the golden model is not run, and of a deep model only some layers are simulated.
"""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from firmware.compiler import compile_layout
from firmware.driver import Counters
from firmware.errors import UserError
from firmware.layout import plan_layout
from firmware.traffic import step_traffic
from hw.config import Config
from sim.build import run_folder, toolchain
from sim.catalogue import find_model
from sim.commands.progress import RunProgress, working
from sim.compose import compose, layers_to_run
from sim.generated_contents import EPSILON, GeneratedContents
from sim.losses.decode import measured_losses
from sim.losses.log import read_log
from sim.losses.ranking import compose_losses, ranked
from sim.report import Traffic, utilisation
from sim.roofline import predicted_clocks, roof_clocks
from sim.roofline.devices import CLOCK_HZ
from sim.shape_plan import check_part, shape_plan
from sim.system.model import system_program
from sim.system.simulator import ShapeJob, SimulationError, Simulator, open_store

__all__ = ["Request", "run", "simulate_shape"]

WITHIN = 0.03
"""By how much the measured clocks may differ from the roofline's."""


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    config: Config
    model: str  # name in the catalogue, or path
    context: int = 1024  # tokens of the sequence at the last step, its own included
    layers: int | None = None  # to simulate; None: all
    steps: int = 2  # to measure
    batch: int = 1
    weights: str | None = None
    seed: int = 0
    part: str = "all"  # of sim.shape_plan.PARTS
    html: Path | None = None  # report to write


def run(request, console):
    """Figures of *request* as a dict for JSON; progress on *console*."""
    if request.layers is not None and request.layers < 2:
        raise UserError(f"--layers {request.layers}: the first and the last are always simulated; give 2 or more")
    if request.steps < 1:
        raise UserError(f"--steps {request.steps}: measure 1 step or more")
    if request.seed < 0:
        raise UserError(f"--seed {request.seed}: give 0 or more")
    check_part(request.part)
    toolchain()
    model = find_model(request.model)
    try:
        plan = checked_plan(model, request)
        layout = plan_layout(plan.shape, request.config, request.context, request.seed)
    except UserError as error:
        raise UserError(f"{error}; `headrace roofline` predicts it") from None
    first = request.context - request.steps
    if first < 1:
        raise UserError(f"--context {request.context}: {request.steps} steps are measured, with older tokens before "
                        f"them; give {request.steps + 1} or more")
    counts = layers_to_run(request.layers or layout.shape.layers, layout.shape.layers)
    result = simulate_shape(layout, counts, first, request.steps, request.seed, console=console,
                            trained=True)
    found = figures(request, model, plan, layout, first, result)
    if request.html:
        # Takes a second to import, which runs without it need not wait for.
        from sim.page.run_page import write_shape_page
        write_shape_page(found, result["runs"][-1]["losses"], request)
        console.print(f"report: {request.html}", soft_wrap=True)
    return found


def checked_plan(model, request):
    """The :class:`sim.shape_plan.ShapePlan`; :class:`UserError` if hardware or memory do not suffice for the model."""
    if request.batch != 1:
        raise UserError(f"--batch {request.batch}: the hardware decodes one sequence at a time")
    plan = shape_plan(model, request.weights, request.part)
    if request.part != "all":  # the model that the part is of has to be one that runs
        plan_layout(shape_plan(model, request.weights).shape, request.config, request.context)
    return plan


def simulate_shape(layout, counts, first, steps, seed, *, table_seed=None, console=None, **system):
    """Result of :mod:`sim.system.shape_session`: programs of *counts* layers each, *steps* steps from *first* on.

    With ``logits``, float32 (programs * steps, vocab). Each of its ``runs`` has its
    :class:`sim.losses.decode.Losses` as ``losses``.

    *seed*: of the contents; *table_seed*: of the order of the KV pages, if another. *system*: arguments of
    :func:`sim.system.model.system_program`.
    """
    console = console or Console(quiet=True)
    contents = GeneratedContents(layout, seed, table_seed)
    # Refuses what no register holds.
    programs = [compile_layout(layout.first_layers(layers), contents.exponents, EPSILON) for layers in counts]
    with working(console, "generating and compiling the design (minutes, once)"):
        program = system_program(layout.config, **system)
    job = ShapeJob(layout.config, layout.shape, layout.context, counts, contents.exponents, EPSILON, contents.token,
                   first, steps, layout.expert_seed)
    with run_folder("shape") as folder:
        with working(console, "writing generated contents to memory"):
            store = open_store(folder / "store", layout.config, create=True)
            contents.write(list(store), max(counts), first, first + steps - 1)
        with RunProgress(console, expected_clocks(layout, counts, first, steps)) as progress, \
                Simulator(program, job, folder) as simulator:
            for event in simulator.events():
                progress.clock(event["clock"])
            result = simulator.result()
            result["logits"] = simulator.logits(len(counts) * steps, layout.shape.vocab)
        logs = read_log(simulator.losses, layout.config.channels)
    for done, log, compiled in zip(result["runs"], logs, programs, strict=True):
        done["losses"] = measured_losses([log], compiled, first, steps, done["causes"])
    for done in result["runs"]:
        if done["tokens"] != [contents.token] * steps:
            raise SimulationError(f"the generated contents let token {contents.token} win in every step; the "
                                  f"accelerator gave {done['tokens']}")
    return result


def expected_clocks(layout, counts, first, steps):
    """Clocks of the simulation at the memory roof, for the time left."""
    return sum(roof_clocks(layout.first_layers(layers), first, steps) for layers in counts)


def figures(request, model, plan, layout, first, result):
    """All figures of a finished run, for JSON and the table."""
    config, layers, steps = layout.config, layout.shape.layers, request.steps
    runs = {done["layers"]: Counters(done["clocks"], done["causes"]) for done in result["runs"]}
    whole = compose(runs, layers, steps, config.channels)
    clocks, causes = whole.counters.clocks, whole.counters.causes
    traffic = [step_traffic(layout, first + n) for n in range(steps)]
    alone = layout.shape.part == "attention"
    total = Traffic(moved=32 * causes["data"], model=sum(t.kv_bytes if alone else t.model_bytes for t in traffic),
                    codes=sum(t.code_bytes for t in traffic))
    shares = utilisation(total, causes, clocks, config.channels)
    largest = result["runs"][-1]
    lost = compose_losses(largest["losses"].counts, layers, largest["layers"], causes)
    parts = [{"layers": count, "clocks": counters.clocks, "causes": counters.causes,
              "predicted_clocks": predicted_clocks(layout.first_layers(count), first, steps)}
             for count, counters in runs.items()]
    return {
        "preset": config.name, "overrides": config.changes(), "model": model.name, "source": model.source,
        "channels": config.channels, "weights": {role: fmt.name for role, fmt in layout.shape.formats.items()},
        "part": request.part, "left_out": list(plan.left_out), "experts": experts_figures(layout, max(runs)),
        "context": request.context, "batch": 1, "seed": request.seed, "contents": "generated", "golden": "not run",
        "load": result["load"], "layers": layers, "simulated_layers": list(runs),
        "composed_layers": whole.composed_layers, "layer_clocks": whole.layer_clocks, "runs": parts,
        "clocks": result["clocks"], "decode_clocks": clocks, "decode_steps": steps,
        "tokens_per_second": CLOCK_HZ * steps / clocks, "bytes": total.moved, "bus_busy": shares.bus_busy,
        "model_mbu": shares.model_mbu, "goodput": None if alone else shares.goodput,
        "predicted_clocks": predicted_clocks(layout, first, steps), "causes": causes,
        "losses": ranked(lost, clocks * config.channels), "violations": 0,
        "host_seconds": result["host_seconds"],
        "clocks_per_host_second": result["clocks"] / result["host_seconds"]}


def experts_figures(layout, simulated):
    """Experts of a layer, and those drawn for each simulated layer; None without."""
    if not layout.shape.experts:
        return None
    return {"count": layout.shape.experts, "chosen": layout.shape.chosen, "drawn": layout.drawn[:simulated]}
