"""``headrace sweep``: points of a file, resuming, a Dask cluster, and what a user can get wrong."""

from io import StringIO

import pytest
from rich.console import Console

from firmware.errors import UserError
from sim.commands import sweep
from sim.sweep import Results, read_points

GRID = """
[[grid]]
preset = "bertha500"
model = ["SmolLM2-135M", "Llama-3.1-8B"]
context = [64, 128]
set.fifo_beats = 256

[[grid]]
model = "SmolLM2-135M"
"""


@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path / "build"))
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def swept(path, **options):
    """(text, figures, whether all have figures)."""
    console = Console(file=StringIO(), width=120)
    figures, good = sweep.run(path, options.get("jobs", 1), options.get("cluster"), console)
    return console.file.getvalue(), figures["points"], good


def test_points(grid):
    points = read_points(grid)
    assert [(p.preset, p.model, p.context) for p in points[2:]] == [
        ("bertha500", "Llama-3.1-8B", 64), ("bertha500", "Llama-3.1-8B", 128), ("demo", "SmolLM2-135M", 1024)]
    assert points[0].config().fifo_beats == 256
    assert len({point.key() for point in points}) == 5
    grid.write_text(GRID + GRID)
    assert read_points(grid) == points


def test_a_stopped_sweep_goes_on(grid, monkeypatch):
    whole = swept(grid)[1]
    points = read_points(grid)
    kept = Results().get(points[1])
    for path in (grid.parent / "build" / "sweep").iterdir():
        path.unlink()

    done = []

    def stopping(point):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(point)
        return kept, None
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "work_out", stopping)
        with pytest.raises(KeyboardInterrupt):
            swept(grid)
    assert sum(Results().get(point) is not None for point in points) == 3

    Results().put(points[1], kept)
    text, rows, good = swept(grid)
    assert good and [row["kept"] for row in rows] == [True, True, True, False, False]
    assert rows[3]["figures"] == whole[3]["figures"]
    assert "5 points, 3 known from before" in text


def test_cluster_gives_the_same(grid):
    from distributed import LocalCluster

    here = swept(grid)[1]
    for path in (grid.parent / "build" / "sweep").iterdir():
        path.unlink()
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        there = swept(grid, cluster=cluster.scheduler_address)[1]
    assert there == here


def test_a_point_with_layers_is_simulated(grid, monkeypatch):
    asked = []

    def simulated(request, console):
        asked.append(request)
        return {"tokens_per_second": 12.5, "model_mbu": 0.75}
    monkeypatch.setattr(sweep.shape_run, "run", simulated)
    grid.write_text('[[grid]]\nmodel = "SmolLM2-135M"\ncontext = 64\nlayers = [2, 3]\nsteps = 1\nseed = 4\n')
    text, rows, good = swept(grid)
    assert good and "75.00 %" in text and "12.50" in text
    assert [(each.layers, each.steps, each.seed, each.context) for each in asked] == [(2, 1, 4, 64), (3, 1, 4, 64)]
    assert rows[0]["figures"]["simulated"]["model_mbu"] == 0.75 and rows[0]["figures"]["accelerator"]
    assert swept(grid)[1][0]["kept"] and len(asked) == 2


def test_a_point_that_cannot_be_is_a_row(grid):
    grid.write_text('[[grid]]\nmodel = ["SmolLM2-135M", "no-such-model"]\ncontext = 64\n')
    text, rows, good = swept(grid)
    assert not good and rows[0]["figures"] and rows[1]["figures"] is None
    assert "unknown model 'no-such-model'" in rows[1]["error"]
    assert f"point 2, no-such-model: {rows[1]['error']}\n" in text


@pytest.mark.parametrize("layers", [0, 1, -1])
def test_layers_that_cannot_be_simulated_are_no_prediction(grid, layers):
    grid.write_text(f'[[grid]]\nmodel = "SmolLM2-135M"\ncontext = 64\nlayers = {layers}\n')
    rows, good = swept(grid)[1:]
    assert not good and f"--layers {layers}" in rows[0]["error"]


@pytest.mark.parametrize("text, words", [
    ("", "no [[grid]]"), ("grid = 3", "no [[grid]]"), ("a = 1", "unknown a"), ("[[grid]]\n", "no model"),
    ("[[grid]]\nmodel = 3", "give a text"), ("[[grid]]\nmodel = []", "give a text"), ("[[", "not TOML"),
    ("[[grid]]\nmodel = 'a'\ncontext = true", "give a whole number"), ("[[grid]]\nmodel = 'a'\nbeats = 1", "beats"),
    ("[[grid]]\nmodel = 'a'\nset.channels = 99", "channels is 99"), ("[[grid]]\nmodel = 'a'\nset.x = 1", "no field x"),
    ("[[grid]]\nmodel = 'a'\ncontext = [" + "1," * 100_001 + "]", None),
    ("[[grid]]\nmodel = 'a'\ncontext = [" + ",".join(map(str, range(100_001))) + "]", "more than 100,000"),
])
def test_refusals(tmp_path, text, words):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    if words is None:
        assert len(read_points(path)) == 1
        return
    with pytest.raises(UserError) as refusal:
        read_points(path)
    assert words in str(refusal.value) and str(path) in str(refusal.value)


def test_results_that_cannot_be_kept_are_told_first(grid, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_BUILD", str(tmp_path / "file"))
    monkeypatch.setattr(sweep, "work_out", None)
    with pytest.raises(UserError, match="cannot keep results in .*; free space or set HEADRACE_BUILD"):
        swept(grid)


def test_no_file_no_scheduler_no_jobs(grid, tmp_path):
    with pytest.raises(UserError, match="No such file"):
        swept(tmp_path / "absent.toml")
    with pytest.raises(UserError, match="--jobs 0"):
        swept(grid, jobs=0)
    with pytest.raises(UserError, match="no Dask scheduler"):
        swept(grid, cluster="tcp://127.0.0.1:1")
