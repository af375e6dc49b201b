"""Points of a sweep: read from a TOML file, and kept with their figures by the contents of what they depend on.

The file has tables ``[[grid]]``; a field is a value or a list of values, and every combination of a grid is a point::

    [[grid]]
    preset = "bertha500"
    model = ["llama-3.1-8b", "llama-3.1-70b"]
    context = [1024, 8192]
    set.fifo_beats = [256, 512]

A point is predicted; one with ``layers`` is simulated too.
"""

import hashlib
import itertools
import json
import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from firmware.errors import UserError
from hw.config import ConfigError, preset
from sim.build import build_root, replace_text, sources_digest

__all__ = ["Point", "Results", "read_points"]

MOST_POINTS = 100_000

SOURCES = ("hw", "firmware", "sim")


@dataclass(frozen=True)
class Point:
    """What is worked out; the fields are the options of ``headrace roofline`` and ``headrace bench decode``."""

    model: str
    preset: str = "demo"
    overrides: tuple = ()  # ((field, number), ...)
    context: int = 1024
    batch: int = 1
    weights: str | None = None
    kv: str = "KV8"
    layers: int | None = None  # to simulate; None: the point is only predicted
    steps: int = 2  # to simulate
    seed: int = 0  # of the simulation's contents

    def config(self):
        """The preset with its overrides; :class:`hw.config.ConfigError`."""
        return preset(self.preset).override(**dict(self.overrides))

    def key(self):
        """Digest of the point, of the file that its model is read from, and of the code that works it out."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode() + code_digest())
        path = Path(self.model)
        if path.is_file():
            status = path.stat()
            digest.update(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}".encode())
        return digest.hexdigest()[:32]


@cache
def code_digest():
    """SHA-256 of every Python file and data file of ours."""
    return sources_digest(SOURCES, (".py", ".json", ".csv", ".rdl")).digest()


FIELDS = {"model": str, "preset": str, "context": int, "batch": int, "weights": str, "kv": str, "layers": int,
          "steps": int, "seed": int}
"""Fields of a grid beside ``set``, and the type of their values."""


def read_points(path):
    """The points of the sweep file *path*, in its order, each once; :class:`UserError` for what it can't mean."""
    try:
        text = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of a sweep file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML ({error}); put it right") from None
    unknown = sorted(set(text) - {"grid"})
    grids = text.get("grid")
    if unknown or not isinstance(grids, list) or not grids or not all(isinstance(grid, dict) for grid in grids):
        what = f"unknown {', '.join(unknown)}" if unknown else "no [[grid]]"
        raise UserError(f"{path}: {what}; write tables [[grid]], each with model and other fields")
    points = {}
    for number, grid in enumerate(grids, 1):
        for point in grid_points(grid, f"{path}: grid {number}"):
            points[point] = None
            if len(points) > MOST_POINTS:
                raise UserError(f"{path}: more than {MOST_POINTS:,} points; divide it into several files")
    return list(points)


def grid_points(grid, where):
    """Yields every combination of a grid's lists."""
    axes = {}
    for name, value in grid.items():
        if name == "set" and isinstance(value, dict):
            axes |= {("set", field): values(each, int, f"{where}: set.{field}") for field, each in value.items()}
        elif name in FIELDS:
            axes[name,] = values(value, FIELDS[name], f"{where}: {name}")
        else:
            raise UserError(f"{where}: unknown field {name}; known: {', '.join([*FIELDS, 'set'])}")
    if ("model",) not in axes:
        raise UserError(f"{where}: no model; name one of the catalogue, or a GGUF or config.json file")
    for chosen in itertools.product(*axes.values()):
        fields = dict(zip(axes, chosen, strict=True))
        point = Point(overrides=tuple((name[1], value) for name, value in fields.items() if len(name) == 2),
                      **{name[0]: value for name, value in fields.items() if len(name) == 1})
        try:
            point.config()
        except ConfigError as error:
            raise UserError(f"{where}: {error}") from None
        yield point


def values(value, kind, where):
    """*value* as a list of *kind*."""
    each = value if isinstance(value, list) else [value]
    if not each or not all(type(item) is kind for item in each):
        name = "whole number" if kind is int else "text"
        raise UserError(f"{where} is {str(value)[:60]}: give a {name} or a list of them")
    return each


class Results:
    """Figures of points that have been worked out, in ``build/sweep``; each file appears whole."""

    def __init__(self):
        self._folder = build_root() / "sweep"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot keep results in {self._folder}: {error.strerror}; free space or set HEADRACE_BUILD"
                            ) from None

    def _path(self, point):
        return self._folder / f"{point.key()}.json"

    def get(self, point):
        """The figures of *point*, or None."""
        try:
            return json.loads(self._path(point).read_text())
        except FileNotFoundError:
            return None

    def put(self, point, figures):
        """Keep *figures* of *point*."""
        replace_text(self._path(point), json.dumps(figures))
