"""Starts a run in a simulator process of its own, hands on its events, and collects its result."""

import json
import os
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from firmware.errors import UserError
from firmware.layout import ModelShape
from hw.config import Config
from sim.bench import cocotb_environment
from sim.lpddr.rules import Rule
from sim.system.wrapper import TOP

__all__ = ["FaultJob", "Job", "ShapeJob", "SimulationError", "Simulator", "open_store"]


class SimulationError(Exception):
    """The simulated accelerator failed: a broken memory rule, an error of the driver, or no end."""


@dataclass(frozen=True)
class Job:
    """What to run. ``sampling``: the fields of :class:`firmware.engine.Sampling`, or None for greedy."""

    config: Config
    model: str  # GGUF file
    context: int
    prompt: list
    count: int
    stop: list
    vocabulary: int
    sampling: dict | None = None
    record_replay: bool = False
    load: str = "backdoor"  # or "axi4": the model goes to memory through the memory port, before the run
    seed: int = 0  # order of the KV pages in an axi4 load

    session = "sim.system.session"


@dataclass(frozen=True)
class ShapeJob:
    """Steps of programs that run only the first layers of a model of *shape*, on memories with generated contents.

    For each number in ``layers``: ``steps`` steps with head, the first with ``token`` at position ``first``.
    """

    config: Config
    shape: ModelShape
    context: int
    layers: tuple
    exponents: dict  # E_w of each role
    epsilon: float
    token: int
    first: int
    steps: int
    expert_seed: int = 0
    record_replay: bool = False

    session = "sim.system.shape_session"

    @property
    def vocabulary(self):
        return self.shape.vocab


@dataclass(frozen=True)
class FaultJob:
    """Planted faults and aborted runs, each followed by a good step: see :mod:`sim.system.fault_session`."""

    config: Config
    model: str  # GGUF file
    context: int
    prompt: list
    token: int  # that the good step embeds, behind the prompt
    vocabulary: int
    aborts: int  # runs aborted at a random time
    reads: int  # of those, how many with reads through the AXI4 port going on
    seed: int
    record_replay: bool = False

    session = "sim.system.fault_session"


def open_store(path, config, create=False):
    """The memories of all channels as a uint8 array (channels, bytes), in the sparse file *path*."""
    if create:
        with open(path, "wb") as file:
            file.truncate(config.memory_bytes)
    return np.memmap(path, np.uint8, "r+", shape=(config.channels, config.channel_bytes))


class Simulator:
    """A :class:`Job` or :class:`ShapeJob` on *program* (:func:`sim.system.model.system_program`).

    In *folder*, with the filled ``store``.

    Iterate :meth:`events` to the end, then take :meth:`result`. Leaving the context ends the process. *trace*: (path,
    first clock, clocks) of a window that a program made for it writes; see :mod:`sim.trace`.
    """

    def __init__(self, program, job, folder, trace=None):
        self._folder = Path(folder)
        self._log = self._folder / "log"
        self.losses = self._folder / "losses"
        self._violation = None
        values = asdict(job) | {name: str(self._folder / name) for name in ("store", "result", "replay")}
        if not job.record_replay:
            values["replay"] = None
        (self._folder / "job").write_text(json.dumps(values, default=lambda member: member.value))
        self._events, write_end = os.pipe()
        environment = cocotb_environment(TOP, job.session, 0, self._folder / "results.xml")
        environment |= store_environment(self._folder / "store", job.config)
        environment |= {"HEADRACE_JOB": str(self._folder / "job"), "HEADRACE_EVENTS": str(write_end),
                        "HEADRACE_LOGITS": str(self._folder / "logits"),
                        "HEADRACE_LOSSES": str(self.losses), "HEADRACE_VOCABULARY": str(job.vocabulary)}
        if trace:
            environment |= dict(zip(("HEADRACE_TRACE", "HEADRACE_TRACE_FROM", "HEADRACE_TRACE_CLOCKS"), map(str, trace),
                                    strict=True))
        with open(self._log, "w") as log:
            self._process = subprocess.Popen([program], cwd=self._folder, env=environment, pass_fds=[write_end],
                                             stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        os.close(write_end)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def events(self):
        """Dicts with ``event`` (progress, token) and ``clock``, until the simulator ends."""
        with os.fdopen(self._events) as lines:
            for line in lines:
                event = json.loads(line)
                if event["event"] == "violation":
                    self._violation = self._violation or event
                else:
                    yield event

    def finish(self):
        """Run to the end without looking at events; :meth:`result`."""
        for _ in self.events():
            pass
        return self.result()

    def result(self):
        """The result of the job's session.

        :class:`SimulationError` with the accelerator's error, or with the end of the log if there is no result.
        """
        code = self._process.wait()
        if self._violation:
            rule = Rule(self._violation["rule"]).jedec
            raise SimulationError("memory rule broken: {} in channel {channel}, bank {bank}, clock {clock}".format(
                rule, **self._violation))
        result = self._folder / "result"
        if not result.exists():
            text = self._log.read_text()
            if "No space left on device" in text:
                raise UserError(f"no space left in {self._folder.parent}: free some, or set HEADRACE_BUILD")
            raise SimulationError(f"the simulator ended with code {code}\n" + "\n".join(text.splitlines()[-40:]))
        answer = json.loads(result.read_text())
        if "device_error" in answer:
            raise SimulationError(f"the accelerator stopped: {answer['device_error']}")
        return answer

    def logits(self, rows, vocabulary):
        """Logits of the first *rows* steps with head, float32 (rows, vocabulary), as the monitor saw them."""
        return np.fromfile(self._folder / "logits", "<f4", rows * vocabulary).reshape(rows, vocabulary)


def store_environment(path, config):
    """What the program needs to know of the store."""
    return {"HEADRACE_STORE": str(path), "HEADRACE_STORE_BITS": str(config.beat_address_bits)}
