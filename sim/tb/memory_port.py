"""Bench of the AXI4 memory port over modelled channels: random traffic against a byte array, refusals, order."""

import logging
import random

import cocotb
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiResp
from cocotbext.axi.axi_channels import (
    AxiARBus,
    AxiARSource,
    AxiARTransaction,
    AxiAWBus,
    AxiAWSource,
    AxiAWTransaction,
    AxiBBus,
    AxiBSink,
    AxiRBus,
    AxiRSink,
    AxiWBus,
    AxiWSource,
    AxiWTransaction,
)

from hw.interfaces import ChunkCommand
from sim.bench import bench_args
from sim.streams import start, unpack
from sim.tb.kv_reference import bench_config


class PortChannel:
    """Channel *n* behind the port. Reads return what has been drained; writes drain on ``flush`` or a full queue.

    While ``halted`` its reader takes commands and drops them, and the beats of a command that have not been asked for.
    """

    def __init__(self, dut, n, rng, stall):
        self._dut, self._rng, self._stall = dut, rng, stall
        self.beats, self.pending, self.answers, self.halted = {}, [], [], False
        self._write = {part: getattr(dut, f"write__{n}__{part}")
                       for part in ("beats__valid", "beats__ready", "beats__payload", "idle")}
        self._read = {part: getattr(dut, f"read__{n}__{part}")
                      for part in ("command__valid", "command__ready", "command__payload", "flush", "valid", "data")}
        self._write["beats__ready"].value = self._read["command__ready"].value = self._read["valid"].value = 0
        self._write["idle"].value = 1
        cocotb.start_soon(self._run())

    async def _run(self):
        rng, write, read = self._rng, self._write, self._read
        pending, answers = self.pending, self.answers
        halted = False
        while True:
            await RisingEdge(self._dut.clk)
            if self._dut.rst.value:
                continue
            if read["command__valid"].value and read["command__ready"].value:
                command = unpack(ChunkCommand, int(read["command__payload"].value))
                assert command["beat"] % 128 + command["last"] < 128
                if not self.halted:
                    answers += (self.beats.get(command["beat"] + i, 0) for i in range(command["last"] + 1))
            if self.halted and not halted:
                del answers[rng.randrange(len(answers) + 1):]
            halted = self.halted
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


async def setup(dut, master=True):
    """Configuration, random numbers, channels and, with *master*, a master with random pauses."""
    args = bench_args()
    rng = random.Random(args["seed"])
    config = bench_config(args)
    channels = [PortChannel(dut, n, rng, args["stall"]) for n in range(config.channels)]
    logging.getLogger(f"cocotb.{dut._name}.axi_").setLevel(logging.WARNING)  # prints every byte otherwise
    master = AxiMaster(AxiBus.from_prefix(dut, "axi_"), dut.clk, dut.rst) if master else None
    await start(dut, restart=0)
    if args["stall"] and master:
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


def stored(config, channels, address, length):
    """Bytes of memory from *address* on; the bench's memory starts with zeros."""
    channel, first = divmod(address, config.channel_bytes)
    beats = range(first // 32, (first + length - 1) // 32 + 1)
    data = b"".join(channels[channel].beats.get(beat, 0).to_bytes(32, "little") for beat in beats)
    return data[first % 32:first % 32 + length]


@cocotb.test(timeout_time=400, timeout_unit="us")
async def narrow_and_unaligned(dut):
    """Any size, alignment and length, some at once in neighbouring beats, leave all other bytes alone."""
    config, rng, channels, master = await setup(dut)
    memory = {}  # address of a region to its bytes

    async def worker(number):
        local = random.Random(rng.random())
        channel = local.randrange(config.channels)
        base = channel * config.channel_bytes + local.choice([0, config.channel_bytes - 65536]) + number * 5000
        image = bytearray(5000)
        for _ in range(12):
            offset, size = local.randrange(4500), local.randrange(6)
            length = local.choice([1, 2, 5, 31, 32, 33, 64, local.randint(1, 64 << size) % 400 + 1])
            data = local.randbytes(length)
            assert (await master.write(base + offset, data, size=size)).resp == AxiResp.OKAY
            image[offset:offset + length] = data
            offset, size = max(0, offset - local.randrange(40)), local.randrange(6)
            length = local.randint(1, min(500, 16 << size))
            read = await master.read(base + offset, length, size=size)
            assert (read.resp, read.data) == (AxiResp.OKAY, image[offset:offset + length]), f"{offset} {size} {length}"
        memory[base] = image

    for task in [cocotb.start_soon(worker(number)) for number in range(4)]:
        await task
    for base, image in memory.items():
        assert stored(config, channels, base, len(image)) == image


@cocotb.test(timeout_time=40, timeout_unit="us")
async def refusals(dut):
    """Bad bursts are answered, write nothing, and leave the port working."""
    config, rng, channels, master = await setup(dut)
    outside = config.memory_bytes
    for address, size, length, burst, want in (
        (outside, 5, 64, AxiBurstType.INCR, AxiResp.DECERR),
        (outside + 3, 1, 9, AxiBurstType.INCR, AxiResp.DECERR),
        ((1 << 40) - 64, 5, 64, AxiBurstType.INCR, AxiResp.DECERR),
        (0x2000, 5, 544, AxiBurstType.FIXED, AxiResp.SLVERR),
        (0x3000, 5, 64, AxiBurstType.WRAP, AxiResp.SLVERR),
        (0x3000, 2, 64, AxiBurstType.WRAP, AxiResp.SLVERR),
    ):
        written = await master.write(address, rng.randbytes(length), burst=burst, size=size)
        assert written.resp == want, f"{address:#x}"
        assert (await master.read(address, length, burst=burst, size=size)).resp == want, f"{address:#x}"
    assert not any(channel.beats for channel in channels)
    data = rng.randbytes(96)
    assert (await master.write(0x5000, data)).resp == AxiResp.OKAY
    assert (await master.read(0x5000, 96)).data == data


@cocotb.test(timeout_time=40, timeout_unit="us")
async def raw_bursts(dut):
    """What no AXI master may send: bursts across 4 KB and too wide transfers; and sparse strobes, which it may."""
    config, rng, channels, _ = await setup(dut, master=False)
    addresses = AxiAWSource(AxiAWBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    words = AxiWSource(AxiWBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    answers = AxiBSink(AxiBBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    asks = AxiARSource(AxiARBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    reads = AxiRSink(AxiRBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)

    async def write(address, size, strobes, data):
        await addresses.send(AxiAWTransaction(awid=9, awaddr=address, awlen=len(strobes) - 1, awsize=size, awburst=1))
        for n, strobe in enumerate(strobes):
            await words.send(AxiWTransaction(wdata=data, wstrb=strobe, wlast=n == len(strobes) - 1))
        answer = await answers.recv()
        assert answer.bid == 9
        return AxiResp(answer.bresp)

    async def read(address, size, transfers):
        await asks.send(AxiARTransaction(arid=5, araddr=address, arlen=transfers - 1, arsize=size, arburst=1))
        got = [await reads.recv() for _ in range(transfers)]
        assert [int(item.rlast) for item in got] == [0] * (transfers - 1) + [1] and all(item.rid == 5 for item in got)
        assert len({int(item.rresp) for item in got}) == 1
        return AxiResp(got[0].rresp)

    whole = (1 << 32) - 1
    for address, size, transfers in ((0xFE0, 5, 2), (0xFE1, 5, 2), (0x800, 5, 256), (0xFFE, 0, 3), (0xF01, 3, 33),
                                     (0x2000, 6, 1), (0x2000, 7, 2)):
        assert await write(address, size, [whole] * transfers, 1) == AxiResp.SLVERR, f"{address:#x}"
        assert await read(address, size, transfers) == AxiResp.SLVERR, f"{address:#x}"
    assert not any(channel.beats for channel in channels)
    for address, size, transfers in ((0xFC0, 5, 2), (0xFFE, 0, 2), (0xF01, 3, 32), (0x1000, 4, 256)):
        assert await write(address, size, [0] * transfers, 1) == AxiResp.OKAY, f"{address:#x}"
        assert await read(address, size, transfers) == AxiResp.OKAY, f"{address:#x}"
    assert not any(channel.beats for channel in channels), "no strobe, no write"
    want = bytearray(96)
    for _ in range(6):
        data, strobes = rng.getrandbits(256), [rng.getrandbits(32), rng.choice([whole, 0]), rng.getrandbits(32)]
        assert await write(0x6000, 5, strobes, data) == AxiResp.OKAY
        for n in range(96):
            if strobes[n // 32] >> n % 32 & 1:
                want[n] = data >> 8 * (n % 32) & 0xFF
    assert stored(config, channels, 0x6000, 96) == want


@cocotb.test(timeout_time=200, timeout_unit="us")
async def readers_that_are_reset(dut):
    """Bursts come whole though the readers are reset now and then; the bench's channels drop what was not asked yet."""
    config, rng, channels, master = await setup(dut)
    going = True

    async def reset():
        while going:
            for _ in range(rng.randint(10, 150)):
                await RisingEdge(dut.clk)
            for channel in channels:
                channel.halted = True
            while any(channel.answers for channel in channels):
                await RisingEdge(dut.clk)
            for _ in range(3):
                await RisingEdge(dut.clk)
            dut.restart.value = 1
            for _ in range(8):
                await RisingEdge(dut.clk)
            dut.restart.value = 0
            for channel in channels:
                channel.halted = False

    task = cocotb.start_soon(reset())
    for number in range(30):
        address = rng.randrange(config.channels) * config.channel_bytes + 8192 * number + rng.randrange(4096)
        data = rng.randbytes(rng.choice([1, 40, 1000, 3000]))
        assert (await master.write(address, data)).resp == AxiResp.OKAY
        read = await master.read(address, len(data))
        assert (read.resp, read.data) == (AxiResp.OKAY, data)
    going = False
    await task


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


@cocotb.test(timeout_time=200, timeout_unit="us")
async def fixed_bursts(dut):
    """FIXED bursts of 1 to 16 transfers of any size: each overlays the same bytes; reads return them each time."""
    config, rng, channels, _ = await setup(dut, master=False)
    sources = [source(bus.from_prefix(dut, "axi_"), dut.clk, dut.rst) for source, bus in (
        (AxiAWSource, AxiAWBus), (AxiWSource, AxiWBus), (AxiBSink, AxiBBus), (AxiARSource, AxiARBus),
        (AxiRSink, AxiRBus))]
    for source in sources:
        source.set_pause_generator(pauses(rng, bench_args()["stall"]))
    addresses, words, answers, asks, reads = sources
    image = bytearray(256)
    for _ in range(40):
        address, size, transfers = rng.randrange(256), rng.randrange(6), rng.randint(1, 16)
        lanes = range(address % 32, (address >> size << size) % 32 + (1 << size))
        await addresses.send(AxiAWTransaction(awid=2, awaddr=address, awlen=transfers - 1, awsize=size, awburst=0))
        for n in range(transfers):
            data, strobe = rng.getrandbits(256), sum(1 << lane for lane in lanes if rng.random() < 0.8)
            await words.send(AxiWTransaction(wdata=data, wstrb=strobe, wlast=n == transfers - 1))
            for lane in lanes:
                if strobe >> lane & 1:
                    image[address // 32 * 32 + lane] = data >> 8 * lane & 0xFF
        assert AxiResp((await answers.recv()).bresp) == AxiResp.OKAY
        assert stored(config, channels, 0, 256) == image
        await asks.send(AxiARTransaction(arid=3, araddr=address, arlen=transfers - 1, arsize=size, arburst=0))
        for n in range(transfers):
            got = await reads.recv()
            assert (AxiResp(got.rresp), int(got.rlast)) == (AxiResp.OKAY, n == transfers - 1)
            data = int(got.rdata).to_bytes(32, "little")
            assert all(data[lane] == image[address // 32 * 32 + lane] for lane in lanes)
