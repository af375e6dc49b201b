"""Public decode measurements of other devices, with their sources, and figures of the accelerator's own runs."""

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from firmware.errors import UserError
from sim.catalogue import find_model, model_names

__all__ = ["Measured", "public_measurements", "read_run"]

SAME_SIZES = {"Llama-3-8B": "Llama-3.1-8B", "Llama-3-70B": "Llama-3.1-70B", "Llama-3.x-70B": "Llama-3.1-70B",
              "Llama-3.3-70B": "Llama-3.1-70B", "Qwen3-Coder-30B-A3B": "Qwen3-30B-A3B"}
"""Models that differ from one of the catalogue in training or context, not in sizes."""


@dataclass(frozen=True)
class Measured:
    """Decode speed of a device. ``step_bytes`` are those that had to be read, as its source counts them."""

    device: str
    model: str
    types: str
    batch: int
    context: int
    step_bytes: float
    tokens_per_second: float  # of all sequences
    bandwidth: float  # peak, bytes a second
    source: str
    note: str = ""

    @property
    def achieved(self):
        """Bytes a second."""
        return self.step_bytes * self.tokens_per_second / self.batch

    @property
    def share(self):
        """Of the peak bandwidth."""
        return self.achieved / self.bandwidth

    @property
    def trusted(self):
        """Whether the bytes can be right: more than the peak cannot have been read."""
        return self.share <= 1

    @property
    def catalogued(self):
        """The :class:`sim.model_shape.Model` of these sizes, or None."""
        name = SAME_SIZES.get(self.model, self.model)
        return find_model(name) if name in model_names() else None

    @property
    def intensity(self):
        """Operations a byte, or None if the model's sizes are not in the catalogue."""
        model = self.catalogued
        if model is None:
            return None
        attention = model.cached_tokens(self.context + 1) * model.score_operations
        return self.batch * (model.matrix_operations + attention) / self.step_bytes


@cache
def public_measurements():
    """All rows of sim/data/device_measurements.csv that are of a model (not of a read test)."""
    text = (files("sim") / "data" / "device_measurements.csv").read_text()
    return tuple(
        Measured(row["device"], row["model"], row["quant"], int(row["batch"]), int(row["ctx"]),
                 1e9 * float(row["streamed_GB_per_step"]), float(row["agg_tok_s"]), 1e9 * float(row["peak_GBps"]),
                 row["source"], row["note"])
        for row in csv.DictReader(text.splitlines()) if row["quant"] != "-")


def read_run(path):
    """Figures of a run or bench from its JSON at *path*: the keys of :class:`sim.report.Report`."""
    try:
        figures = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the --json file of a run") from None
    except ValueError:
        raise UserError(f"{path}: not JSON; give the --json file of a run") from None
    needed = {"preset": str, "model": str, "channels": int, "bytes": int, "decode_clocks": int, "decode_steps": int,
              "model_mbu": float}
    for key, kind in needed.items():
        if not isinstance(figures, dict) or not isinstance(figures.get(key), kind):
            raise UserError(f"{path}: no {key}; give the --json file of headrace run or headrace bench decode")
    if figures["decode_steps"] < 1 or figures["decode_clocks"] < 1 or not 0 < figures["model_mbu"] <= 1:
        raise UserError(f"{path}: no decode steps in it; give a run of 2 tokens or more")
    return figures
