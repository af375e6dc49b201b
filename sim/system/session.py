"""The side of a run that is inside the simulator: a job comes as JSON, its result goes as JSON.

Run as a cocotb module by :mod:`sim.system.simulator`. The memories are filled before it starts, unless the job says
axi4.
"""

import json
import os
import time
from functools import partial
from pathlib import Path

import cocotb
from cocotb import start_soon

from firmware.compiler import compile_model
from firmware.driver import DeviceError, Driver
from firmware.engine import Sampling, generate
from firmware.gguf_model import read_model
from hw.config import Config
from sim.system.simulator import open_store
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


async def carry_out(work):
    """Await *work*, a function of the task in ``$HEADRACE_JOB`` and :class:`Events`, and write what it returns as the
    result; an error of the accelerator instead, if there is one."""
    task = json.loads(Path(os.environ["HEADRACE_JOB"]).read_text())
    try:
        result = await work(task, Events(int(os.environ["HEADRACE_EVENTS"])))
    except DeviceError as error:
        result = {"device_error": str(error)}
    Path(task["result"]).write_text(json.dumps(result))


async def connected(dut, transport, config):
    """A :class:`Driver` on *transport*, with the accelerator out of reset and its memory initialised."""
    driver = Driver(transport, config)
    dut.request.value = 0
    await transport.wait_clocks(20)
    await driver.connect()
    return driver


@cocotb.test()
async def job(dut):
    """Carry out a :class:`sim.system.simulator.Job`."""
    await carry_out(partial(generation_of, dut))


async def generation_of(dut, task, events):
    """The result of a job."""
    config = Config(**task["config"])
    with open(task["replay"], "w") if task["replay"] else open(os.devnull, "w") as replay:
        if task["load"] == "axi4":
            transport = Axi4Transport(dut, config, replay)
        else:
            transport = SimulatedTransport(dut, open_store(task["store"], config), replay)
        driver = await connected(dut, transport, config)
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
    return {
        "tokens": generation.tokens, "decode_steps": generation.decode_steps, "clocks": clocks, "host_seconds": seconds,
        "prompt_clocks": generation.prompt.clocks, "decode_clocks": generation.decode.clocks,
        "causes": generation.decode.causes, "load": transport.load_method, "read_back": head}
