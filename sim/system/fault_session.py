"""The side of a fault run that is inside the simulator: faults and aborts, and after each a good step.

Run as a cocotb module by :mod:`sim.system.simulator`, on memories that are filled.
"""

import hashlib
import random
from dataclasses import replace
from functools import partial

import cocotb
import numpy as np
from cocotb import start_soon
from cocotb.triggers import Event

from firmware.compiler import compile_model
from firmware.driver import DeviceError
from firmware.gguf_model import read_model
from hw.config import BEAT_BYTES, Config
from sim.system.faults import planted_faults
from sim.system.session import carry_out, connected
from sim.system.simulator import open_store
from sim.system.transport import Axi4Transport, SimulatedTransport

WATCHDOG = 1 << 20

LONGEST = 128
"""Beats of a read."""


class Trial:
    """A driver, the good program, and what came of its good steps."""

    def __init__(self, driver, compiled, store, token, position):
        self.driver, self.compiled, self.store = driver, compiled, store
        self.token, self.position = token, position
        self.good = []

    async def good_step(self):
        """The step after a fault or an abort."""
        run = await self.driver.run(self.token, self.position, logits=True)
        logits = await self.driver.logits()
        self.good.append({"token": run.tokens[0], "logits": hashlib.sha256(logits.tobytes()).hexdigest()})

    async def fault(self, planted):
        """The error that *planted* gives, {} for none; then a good step."""
        driver, error = self.driver, {}
        entry = self.entry(planted.entry)
        kept = entry.copy()
        if planted.entry:
            entry[:] = np.frombuffer(np.uint32(planted.entry[-1]).tobytes(), np.uint8)
        registers = self.compiled.registers | planted.registers
        await driver.configure(replace(self.compiled, program=planted.program, registers=registers))
        await driver.write("watchdog", clocks=planted.watchdog)
        try:
            await driver.run(self.token, self.position, planted.steps, logits=planted.logits)
        except DeviceError as raised:
            error = {name: value for name, value in raised.error.items() if value}
        entry[:] = kept
        await driver.configure(self.compiled)
        await driver.write("watchdog", clocks=WATCHDOG)
        await self.good_step()
        return error

    def entry(self, where):
        """The bytes of a block table entry in the store."""
        if not where:
            return np.zeros(0, np.uint8)
        channel, layer, page, _ = where
        at = (self.compiled.layout.table_base + layer * self.compiled.layout.table_stride) * BEAT_BYTES + 4 * page
        return self.store[channel, at:at + 4]

    async def abort(self, clocks, logits):
        """A run of several steps that is dropped after *clocks*; then a good step."""
        await self.driver.start(self.token, self.position, 3, logits=logits)
        await self.driver.transport.wait_clocks(clocks)
        await self.driver.abort()
        await self.good_step()


class HostReads:
    """Reads of weights through the AXI4 port, one after the other, each compared with the store."""

    def __init__(self, dut, config, store, end, rng):
        self._transport, self._store, self._end, self._rng = Axi4Transport(dut, config), store, end, rng
        self.right = self.wrong = 0
        self._going, self.ended = True, Event()
        start_soon(self._run())

    async def _run(self):
        while self._going:
            channel, beats = self._rng.randrange(len(self._store)), self._rng.randint(1, LONGEST)
            beat = self._rng.randrange(self._end - beats)
            got = await self._transport.read_memory(channel, beat, beats)
            if np.array_equal(got, self._store[channel, beat * BEAT_BYTES:(beat + beats) * BEAT_BYTES]):
                self.right += 1
            else:
                self.wrong += 1
        self.ended.set()

    async def stop(self):
        self._going = False
        await self.ended.wait()


@cocotb.test()
async def fault_job(dut):
    """Carry out a :class:`sim.system.simulator.FaultJob`."""
    await carry_out(partial(trials_of, dut))


async def trials_of(dut, task, _):
    """The result of a job."""
    config, rng = Config(**task["config"]), random.Random(task["seed"])
    store = open_store(task["store"], config)
    transport = SimulatedTransport(dut, store)
    driver = await connected(dut, transport, config)
    compiled = compile_model(read_model(task["model"]), config, task["context"])
    await driver.configure(compiled)
    prompt = task["prompt"]
    for position, token in enumerate(prompt):
        await driver.run(token, position, head=False)
    trial = Trial(driver, compiled, store, task["token"], len(prompt))
    await trial.good_step()
    errors = [await trial.fault(planted) for planted in planted_faults(compiled, len(prompt))]
    began = transport.clock
    await driver.run(task["token"], len(prompt), 3)
    longest = transport.clock - began
    reads = None
    for number in range(task["aborts"]):
        if number == task["aborts"] - task["reads"]:
            reads = HostReads(dut, config, store, compiled.layout.kv_base, rng)
        await trial.abort(rng.randrange(longest), logits=bool(number % 2))
    if reads:
        await reads.stop()
    return {"errors": errors, "good": trial.good, "clocks": transport.clock, "run_clocks": longest,
            "reads": [reads.right, reads.wrong] if reads else []}
