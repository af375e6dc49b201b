"""Bench of the LPDDR5X device model: every rule broken by the least amount, and kept by none to spare."""

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from sim.bench import bench_args
from sim.lpddr.rules import Rule
from sim.lpddr.table import DeviceTiming
from sim.streams import start
from sim.tb import dram_words as words
from sim.tb.dram_scenarios import scenarios

MODES = ((1, 0xD0), (2, 0xDD), (3, 0x06), (18, 0x00))


class Player:
    """Plays commands at CK times on a freshly reset device, and drives the data enables as a PHY would."""

    def __init__(self, dut, timing):
        self.dut, self.timing = dut, timing

    async def reset(self):
        dut = self.dut
        dut.rst.value = 1
        await ClockCycles(dut.clk, self.timing.rfc_ab)  # nothing of the run before matters any more
        dut.rst.value = 0
        dut.dfi__init_start.value = 1
        while not dut.dfi__init_complete.value:
            await RisingEdge(dut.clk)

    async def play(self, commands, modes=MODES, shift_enables=0):
        """Reset, mode registers, then *commands* (time in CK, word), time 0 well after the last MRW.

        Returns the set of rules broken. *shift_enables* moves wrdata_en and rddata_en by clocks.
        """
        await self.reset()
        commands = sorted(commands)
        first = 64
        setup = []
        for n, (register, value) in enumerate(modes):
            setup += [(n * 12, words.mrw1(register)), (n * 12 + 1, words.mrw2(value))]
        timed = setup + [(time + first, word) for time, word in commands]
        assert len({time for time, _ in timed}) == len(timed), "two commands in one CK"
        slots, reads, writes = {}, set(), set()
        for time, word in timed:
            slots.setdefault(time // 2, {})[time % 2] = word
            if word & 7 == 1:
                reads.add((time + self.timing.rl) // 2 + shift_enables)
            if word & 7 == 6:
                writes.add((time + self.timing.wl) // 2 + shift_enables)
        events = sorted({*slots, *reads, *writes, *(clock + 1 for clock in (*slots, *reads, *writes))})
        now = 0
        for clock in events:
            if clock > now:
                await ClockCycles(self.dut.clk, clock - now)
                now = clock
            self._drive(slots.get(clock, {}), clock in reads, clock in writes)
        await ClockCycles(self.dut.clk, 4)
        broken = int(self.dut.broken.value)
        return {rule for rule in Rule if broken >> rule & 1}

    def _drive(self, slot, read, write):
        dut = self.dut
        for phase in range(2):
            getattr(dut, f"dfi__p{phase}__cs").value = phase in slot
            getattr(dut, f"dfi__p{phase}__address").value = slot.get(phase, 0x2AAA)
        dut.dfi__rddata_en.value = read
        dut.dfi__wrdata_en.value = write


def quiet_inputs():
    return {"dfi__wck_en": 1, "dfi__wck_toggle": 3, "dfi__init_start": 0, "dfi__wrdata": 0, "dfi__wrdata_en": 0,
            "dfi__rddata_en": 0, "dfi__p0__cs": 0, "dfi__p1__cs": 0, "dfi__p0__address": 0, "dfi__p1__address": 0,
            "store__read_data": 0}


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def rules(dut):
    """Each scenario of this timing: broken by name one CK too early (or late), clean at the limit."""
    args = bench_args()
    timing = DeviceTiming(**args["timing"])
    await start(dut, **quiet_inputs())
    player = Player(dut, timing)
    for scenario in scenarios(timing, args["set"]):
        broken = await player.play(scenario.commands(scenario.bad), **scenario.options(scenario.bad))
        assert scenario.rule in broken, f"{scenario}: {scenario.bad} broke only {broken}"
        extra = broken - {scenario.rule} - set(scenario.also)
        assert not extra, f"{scenario}: {scenario.bad} broke {extra} too"
        broken = await player.play(scenario.commands(scenario.good), **scenario.options(scenario.good))
        assert not broken, f"{scenario}: {scenario.good} broke {broken}"


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def data(dut):
    """Random legal columns: each read fetches its beat one clock before it is on the bus, each write commits at WL."""
    args = bench_args()
    rng = random.Random(args["seed"])
    timing = DeviceTiming(**args["timing"])
    await start(dut, **quiet_inputs())
    player = Player(dut, timing)
    row, base = rng.randrange(timing.rows), 40
    commands = []
    for n, bank in enumerate((0, 8)):
        commands += [(8 * n, words.act1(bank, row)), (8 * n + 1, words.act2(row))]
    wanted, time = [], base + 1
    for group in range(6):
        write = bool(group % 2)
        commands.append((time - 1, words.cas(write)))
        for n in range(rng.randint(1, 9)):
            bank, col = 8 * (n % 2), rng.randrange(64)
            commands.append((time, words.wr(bank, col) if write else words.rd(bank, col)))
            wanted.append((write, row << 10 | col << 1 | n % 2))
            time += 2
        time += 40 + 2 * rng.randrange(3)
    seen = []

    async def watch():
        due = None
        while True:
            await RisingEdge(dut.clk)
            if due is not None:
                assert dut.dfi__rddata_valid.value
                dut.store__read_data.value = due
            due = None
            if dut.store__read_valid.value:
                seen.append((False, int(dut.store__read_beat.value)))
                due = rng.getrandbits(256)
            if dut.store__write_valid.value:
                seen.append((True, int(dut.store__write_beat.value)))

    watching = cocotb.start_soon(watch())
    assert not await player.play(commands)
    await ClockCycles(dut.clk, 20)
    watching.cancel()
    assert seen == wanted
    assert int(dut.reads.value) == sum(not write for write, _ in wanted)
    assert int(dut.writes.value) == sum(write for write, _ in wanted)
    assert int(dut.activates.value) == 2
