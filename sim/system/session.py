"""The side of a run that is inside the simulator: a job comes as JSON, its result goes as JSON.

Run as a cocotb module by :mod:`sim.system.simulator`. The memories are filled before it starts, unless the job says
axi4.
"""

import json
import os
import time
from pathlib import Path

import cocotb
import numpy as np
from cocotb import start_soon

from firmware.compiler import compile_model
from firmware.driver import Driver
from firmware.engine import Sampling, generate
from firmware.gguf_model import read_model
from hw.config import Config
from sim.system.transport import Axi4Transport, SimulatedTransport

PROGRESS_CLOCKS = 50_000

READ_BACK = 150
"""Beats of the last channel that are read back after the run, the way the model was loaded."""


class Events:
    """Lines of JSON to the process that started the simulator."""

    def __init__(self, descriptor):
        self._file = os.fdopen(os.dup(descriptor), "w", buffering=1)

    def send(self, event, **fields):
        print(json.dumps({"event": event, **fields}), file=self._file)


async def tell_progress(transport, events):
    """Send the clock now and then."""
    while True:
        events.send("progress", clock=transport.clock)
        await transport.wait_clocks(PROGRESS_CLOCKS)


@cocotb.test()
async def job(dut):
    """Carry out the job in ``$HEADRACE_JOB``."""
    task = json.loads(Path(os.environ["HEADRACE_JOB"]).read_text())
    events = Events(int(os.environ["HEADRACE_EVENTS"]))
    config = Config(**task["config"])
    with open(task["replay"], "w") if task["replay"] else open(os.devnull, "w") as replay:
        if task["load"] == "axi4":
            transport = Axi4Transport(dut, config, replay)
        else:
            store = np.memmap(task["store"], np.uint8, "r+", shape=(config.channels, config.channel_bytes))
            transport = SimulatedTransport(dut, store, replay)
        driver = Driver(transport, config)
        dut.request.value = 0
        await transport.wait_clocks(20)
        await driver.connect()
        model = read_model(task["model"])
        compiled = compile_model(model, config, task["context"])
        if task["load"] == "axi4":
            await driver.load(compiled, model, task["seed"])
        else:
            await driver.configure(compiled)
        began, start = transport.clock, time.monotonic()
        start_soon(tell_progress(transport, events))
        sampling = Sampling(**task["sampling"]) if task["sampling"] else None
        generation = await generate(
            driver, task["prompt"], task["count"], sampling=sampling, stop=task["stop"],
            on_token=lambda token: events.send("token", clock=transport.clock, token=token))
        seconds = time.monotonic() - start
        clocks = transport.clock - began
        head = bytes(await transport.read_memory(config.channels - 1, 0, READ_BACK)).hex()
    Path(task["result"]).write_text(json.dumps({
        "tokens": generation.tokens, "decode_steps": generation.decode_steps, "clocks": clocks, "host_seconds": seconds,
        "prompt_clocks": generation.prompt.clocks, "decode_clocks": generation.decode.clocks,
        "causes": generation.decode.causes, "load": transport.load_method, "read_back": head}))
