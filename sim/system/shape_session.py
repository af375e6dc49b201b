"""The side of a shape run that is inside the simulator: programs of several numbers of layers, one after the other.

Run as a cocotb module by :mod:`sim.system.simulator`, on memories that are filled.
"""

import time
from dataclasses import asdict
from functools import partial

import cocotb
from cocotb import start_soon

from firmware.compiler import compile_layout
from firmware.layout import ModelShape, plan_layout
from hw.config import Config
from hw.isa import Format
from sim.system.session import carry_out, connected, tell_progress
from sim.system.simulator import open_store
from sim.system.transport import SimulatedTransport


@cocotb.test()
async def shape_job(dut):
    """Carry out a :class:`sim.system.simulator.ShapeJob`."""
    await carry_out(partial(runs_of, dut))


async def runs_of(dut, task, events):
    """The result of a job."""
    config = Config(**task["config"])
    formats = {role: Format(value) for role, value in task["shape"].pop("formats").items()}
    layout = plan_layout(ModelShape(**task["shape"], formats=formats), config, task["context"], task["expert_seed"])
    transport = SimulatedTransport(dut, open_store(task["store"], config))
    driver = await connected(dut, transport, config)
    began, start = transport.clock, time.monotonic()
    start_soon(tell_progress(transport, events))
    runs = []
    for layers in task["layers"]:
        await driver.configure(compile_layout(layout.first_layers(layers), task["exponents"], task["epsilon"]))
        done = await driver.run(task["token"], task["first"], task["steps"])
        runs.append({"layers": layers, "tokens": done.tokens} | asdict(done.counters))
    return {
        "runs": runs, "clocks": transport.clock - began, "host_seconds": time.monotonic() - start,
        "load": transport.load_method}
