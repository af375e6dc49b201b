"""``headrace sweep``: many points in parallel, predicted or simulated; what an earlier sweep did is not done again."""

from contextlib import contextmanager, nullcontext
from dataclasses import asdict

import joblib
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from firmware.errors import UserError
from hw.config import ConfigError
from sim.commands import roofline, shape_run
from sim.sweep import Results, read_points
from sim.system.simulator import SimulationError

__all__ = ["run"]


def work_out(point):
    """(figures, None) of ``headrace roofline`` for *point*, or (None, what is wrong with it).

    The figures of ``headrace bench decode --model`` are under ``simulated`` in them; None for a point without layers.
    """
    config, console = point.config(), Console(quiet=True)
    try:
        figures = roofline.run(roofline.Request(config, point.model, point.context, point.batch, point.weights,
                                                point.kv), console)
        simulated = None if point.layers is None else shape_run.run(
            shape_run.Request(config, point.model, point.context, point.layers, point.steps, point.batch,
                              point.weights, point.seed), console)
    except (UserError, ConfigError, SimulationError) as error:
        return None, str(error)
    return figures | {"simulated": simulated}, None


def numbered(number, point):
    return number, *work_out(point)


def run(path, jobs, cluster, console):
    """Work out the points of the file *path*; returns (figures of all for JSON, whether each has some).

    *jobs*: processes on this machine; *cluster*: address of a Dask scheduler that is used instead, or None.
    """
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: give 1 or more")
    points, results = read_points(path), Results()
    rows = [{"point": asdict(point) | {"overrides": dict(point.overrides)}, "figures": results.get(point),
             "error": None, "kept": True} for point in points]
    missing = [number for number, row in enumerate(rows) if row["figures"] is None]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with on_cluster(cluster) if cluster else nullcontext(), Progress(*columns, console=console) as progress:
        task = progress.add_task("points", total=len(points), completed=len(points) - len(missing))
        work = joblib.Parallel(n_jobs=-1 if cluster else min(jobs, max(1, len(missing))),
                               return_as="generator_unordered")
        for number, figures, error in work(joblib.delayed(numbered)(n, points[n]) for n in missing):
            if figures is not None:
                results.put(points[number], figures)
            rows[number] |= {"figures": figures, "error": error, "kept": False}
            progress.advance(task)
    console.print(sweep_table(rows))
    for number, row in enumerate(rows, 1):
        if row["error"]:  # whole, which a cell of the table might not have the width for
            console.print(f"point {number}, {row['point']['model']}: {row['error']}", style="red", markup=False,
                          highlight=False, soft_wrap=True)
    return {"points": rows}, all(row["figures"] for row in rows)


@contextmanager
def on_cluster(address):
    """Have joblib use the Dask scheduler at *address*."""
    from distributed import Client  # a second to import, for those that have a cluster
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"--cluster {address}: no Dask scheduler answers ({error}); start one with `dask scheduler`"
                        ) from None
    with client, joblib.parallel_config(backend="dask", wait_for_workers_timeout=30):
        yield


def sweep_table(rows):
    """A line a point."""
    table = Table(title="Predicted decoding")
    for heading in ("preset", "model"):
        table.add_column(heading)
    for heading in ("context", "batch", "token/s", "model MBU"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        point = row["point"]
        changes = "".join(f" {field}={number}" for field, number in point["overrides"].items())
        cells = [point["preset"] + changes, point["model"], f"{point['context']:,}", str(point["batch"])]
        if row["error"]:
            table.add_row(*cells, "", "none, see below", style="red")
            continue
        predicted, simulated = row["figures"]["accelerator"], row["figures"]["simulated"]
        table.add_row(*cells, *speed(predicted, " (analytic)" if predicted["analytic"] else ""))
        if simulated:
            table.add_row("", "  simulated", "", "", *speed(simulated))
    known = sum(row["kept"] for row in rows)
    table.caption = f"{len(rows)} points, {known} known from before. analytic: beyond the hardware, from bytes alone."
    return table


def speed(figures, note=""):
    """Two cells: tokens a second and model MBU."""
    return f"{figures['tokens_per_second']:,.2f}", f"{100 * figures['model_mbu']:.2f} %{note}"
