"""The register block in Verilator; sim/tb/registers.py has the tests."""

import pytest

from hw.config import preset
from hw.host.register_map import register_map
from hw.host.registers import Registers
from hw.isa import PROGRAM_DEPTH
from hw.sequencer.control import ACCESS_WORDS, EXECUTE_WORDS
from sim.bench import run_bench


@pytest.mark.parametrize(("stall", "seed"), [(False, 1), (True, 2)])
def test_registers(stall, seed):
    run_bench(Registers(preset("tiny")), "sim.tb.registers", args={"stall": stall}, seed=seed)


def test_map_has_room_for_the_programs():
    windows = register_map().windows
    assert windows["access_program"].words == PROGRAM_DEPTH * ACCESS_WORDS
    assert windows["execute_program"].words == PROGRAM_DEPTH * EXECUTE_WORDS


def test_registers_do_not_overlap():
    taken = sorted((r.address, r.bits // 8) for r in register_map().registers.values())
    taken += sorted((w.address, 4 * w.words) for w in register_map().windows.values())
    for (address, size), (following, _) in zip(taken, taken[1:], strict=False):
        assert address + size <= following


def test_pack_refuses_what_does_not_fit():
    heads = register_map()["heads"]
    assert heads.unpack(heads.pack(kv_heads=3, group=5)) == {"kv_heads": 3, "group": 5, "passes": 0, "head_blocks": 0}
    with pytest.raises(ValueError, match="heads.group is 32; it has 5 bits"):
        heads.pack(group=32)
    with pytest.raises(ValueError, match="no field speed"):
        heads.pack(speed=1)
