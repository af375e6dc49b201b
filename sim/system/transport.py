"""The driver's way into the simulated accelerator: the register port, and the store's file for memory."""

import numpy as np
from cocotb.triggers import RisingEdge, Timer, ValueChange
from cocotbext.axi import AxiBus, AxiMaster, AxiResp

from firmware.transport import Transport
from hw.config import BEAT_BYTES

__all__ = ["Axi4Transport", "CLOCK_STEPS", "RegisterFault", "SimulatedTransport"]

CLOCK_STEPS = 2
"""Time units (ns) of a clock of the model."""


class RegisterFault(Exception):
    """A register access was answered with an error."""


class SimulatedTransport(Transport):
    """Transport of module ``system``. Python wakes once a register access and at the interrupt, never on clock edges.

    *store*: the memories as a uint8 array (channels, bytes). *replay*: a text file that takes every register access
    and wait, for the bare loop to repeat.
    """

    load_method = "backdoor"

    def __init__(self, dut, store, replay=None):
        self._dut = dut
        self._store = store
        self._replay = replay

    def _note(self, *words):
        if self._replay is not None:
            print(*words, file=self._replay)

    async def _access(self, write, address, value):
        dut = self._dut
        dut.write.value, dut.address.value, dut.data.value = write, address, value
        dut.request.value = 1 - int(dut.done.value)
        await ValueChange(dut.done)
        if dut.response.value:
            raise RegisterFault(f"{'write to' if write else 'read of'} register {address:#x} is refused")
        return int(dut.result.value)

    async def read_register(self, address):
        self._note("read", address)
        return await self._access(0, address, 0)

    async def write_register(self, address, value):
        self._note("write", address, value)
        await self._access(1, address, value)

    async def read_memory(self, channel, beat, beats):
        return self._store[channel, beat * BEAT_BYTES:(beat + beats) * BEAT_BYTES].copy()

    async def write_memory(self, channel, beat, data):
        self._store[channel, beat * BEAT_BYTES:beat * BEAT_BYTES + len(data)] = data

    async def wait_interrupt(self):
        self._note("interrupt")
        if not self._dut.raised.value:
            await RisingEdge(self._dut.raised)

    async def load(self, channels, beats, fill):
        fill(list(self._store[:channels]))

    @property
    def clock(self):
        """Clocks since the start of the simulation."""
        return int(self._dut.clock.value)

    async def wait_clocks(self, clocks):
        """Sleep for *clocks* clocks."""
        await Timer(CLOCK_STEPS * clocks, "ns")


class Axi4Transport(SimulatedTransport):
    """The same, but memory is reached through the accelerator's AXI4 port. Wakes on clock edges: for small models."""

    load_method = "axi4"

    def __init__(self, dut, config, replay=None):
        super().__init__(dut, None, replay)
        self._channel_bytes = config.channel_bytes
        self._master = AxiMaster(AxiBus.from_prefix(dut, "axi_"), dut.axi_clock, dut.rst)

    async def read_memory(self, channel, beat, beats):
        answer = await self._master.read(channel * self._channel_bytes + beat * BEAT_BYTES, beats * BEAT_BYTES)
        self._check(answer, "read")
        return np.frombuffer(answer.data, np.uint8)

    async def write_memory(self, channel, beat, data):
        answer = await self._master.write(channel * self._channel_bytes + beat * BEAT_BYTES, data.tobytes())
        self._check(answer, "write")

    async def load(self, channels, beats, fill):
        await Transport.load(self, channels, beats, fill)

    @staticmethod
    def _check(answer, what):
        if answer.resp != AxiResp.OKAY:
            raise RegisterFault(f"memory {what} at {answer.address:#x} is answered with {answer.resp.name}")
