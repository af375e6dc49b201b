"""Bench of the AXI4 memory port over modelled channels: random traffic against a byte array, refusals, order."""

import logging
import random

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiResp

from hw.interfaces import ChunkCommand
from sim.bench import bench_args
from sim.streams import start, unpack
from sim.tb.kv_reference import bench_config


class PortChannel:
    """Channel *n* behind the port. Reads return what has been drained; writes drain on ``flush`` or a full queue."""

    def __init__(self, dut, n, rng, stall):
        self._dut, self._rng, self._stall = dut, rng, stall
        self.beats, self.pending = {}, []
        self._write = {part: getattr(dut, f"write__{n}__{part}")
                       for part in ("beats__valid", "beats__ready", "beats__payload", "idle")}
        self._read = {part: getattr(dut, f"read__{n}__{part}")
                      for part in ("command__valid", "command__ready", "command__payload", "flush", "valid", "data")}
        self._write["beats__ready"].value = self._read["command__ready"].value = self._read["valid"].value = 0
        self._write["idle"].value = 1
        cocotb.start_soon(self._run())

    async def _run(self):
        rng, write, read = self._rng, self._write, self._read
        pending, answers = self.pending, []
        while True:
            await RisingEdge(self._dut.clk)
            if self._dut.rst.value:
                continue
            if read["command__valid"].value and read["command__ready"].value:
                command = unpack(ChunkCommand, int(read["command__payload"].value))
                assert command["beat"] % 128 + command["last"] < 128
                answers += (self.beats.get(command["beat"] + i, 0) for i in range(command["last"] + 1))
            if write["beats__valid"].value and write["beats__ready"].value:
                payload = int(write["beats__payload"].value)
                pending.append((payload & (1 << 27) - 1, payload >> 27))
            if pending and (read["flush"].value or len(pending) >= 16) and rng.random() >= self._stall:
                beat, data = pending.pop(0)
                self.beats[beat] = data
            answer = bool(answers) and rng.random() >= self._stall
            read["valid"].value = answer
            if answer:
                read["data"].value = answers.pop(0)
            read["command__ready"].value = rng.random() >= self._stall
            write["beats__ready"].value = len(pending) < 16 and rng.random() >= self._stall
            write["idle"].value = not pending


def pauses(rng, probability):
    while True:
        yield rng.random() < probability


async def setup(dut):
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    channels = [PortChannel(dut, n, rng, args["stall"]) for n in range(config.channels)]
    logging.getLogger(f"cocotb.{dut._name}.axi_").setLevel(logging.WARNING)  # prints every byte otherwise
    master = AxiMaster(AxiBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    await start(dut)
    if args["stall"]:
        for stream in (master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel,
                       master.read_if.ar_channel, master.read_if.r_channel):
            stream.set_pause_generator(pauses(rng, args["stall"]))
    return config, rng, channels, master


@cocotb.test(timeout_time=100, timeout_unit="us")
async def random_traffic(dut):
    """Four masters' worth of writes and read-backs in all channels; a read after BRESP returns the new data."""
    config, rng, channels, master = await setup(dut)

    async def worker(region):
        local = random.Random(rng.random())
        for _ in range(8):
            channel = local.randrange(config.channels)
            beat = local.choice([0, config.channel_beats - 4096]) + region * 1024 + local.randrange(300)
            address = channel * config.channel_bytes + beat * 32
            data = local.randbytes(32 * local.choice([1, 3, 64, 200]))
            written = await master.write(address, data)
            assert written.resp == AxiResp.OKAY
            read = await master.read(address, len(data))
            assert (read.resp, read.data) == (AxiResp.OKAY, data)
            stored = b"".join(channels[channel].beats[beat + n].to_bytes(32, "little") for n in range(len(data) // 32))
            assert stored == data

    workers = [cocotb.start_soon(worker(region)) for region in range(4)]
    for task in workers:
        await task


@cocotb.test(timeout_time=20, timeout_unit="us")
async def refusals(dut):
    """Bad bursts are answered, write nothing, and leave the port working."""
    config, rng, channels, master = await setup(dut)
    outside = config.memory_bytes
    for address, size, length, burst, want in (
        (outside, 5, 64, AxiBurstType.INCR, AxiResp.DECERR),
        ((1 << 40) - 64, 5, 64, AxiBurstType.INCR, AxiResp.DECERR),
        (0x1000, 4, 64, AxiBurstType.INCR, AxiResp.SLVERR),
        (0x2000, 5, 64, AxiBurstType.FIXED, AxiResp.SLVERR),
        (0x3000, 5, 64, AxiBurstType.WRAP, AxiResp.SLVERR),
        (0x4004, 5, 32, AxiBurstType.INCR, AxiResp.SLVERR),
    ):
        written = await master.write(address, rng.randbytes(length), burst=burst, size=size)
        assert written.resp == want, f"{address:#x}"
        assert (await master.read(address, length, burst=burst, size=size)).resp == want, f"{address:#x}"
    assert not any(channel.beats for channel in channels)
    partial = await master.write(0x5000, rng.randbytes(70))
    assert partial.resp == AxiResp.SLVERR
    assert sorted(channels[0].beats) == [0x280, 0x281], "whole beats only"
    data = rng.randbytes(96)
    assert (await master.write(0x5000, data)).resp == AxiResp.OKAY
    assert (await master.read(0x5000, 96)).data == data


@cocotb.test(timeout_time=20, timeout_unit="us")
async def reads_wait_for_other_writes(dut):
    """A read returns what a KV or logit writer had handed to the channel before."""
    config, rng, channels, master = await setup(dut)
    for n, channel in enumerate(channels):
        beats = {beat: rng.getrandbits(256) for beat in range(100, 110)}
        channel.pending += beats.items()
        for _ in range(3):
            await RisingEdge(dut.clk)
        read = await master.read(n * config.channel_bytes + 3200, 320)
        assert read.data == b"".join(data.to_bytes(32, "little") for data in beats.values())
