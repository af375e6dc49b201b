"""docs/dfi.md lists the signals of the bus, and the times of the controller's timing."""

import re
from pathlib import Path

from amaranth.hdl import Shape
from amaranth.lib.wiring import Out

from hw.dram.interface import dfi_signature
from hw.dram.timing import timing_for

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "dfi.md").read_text()


def test_signals():
    signature = dfi_signature()
    wanted = {".".join(path): (Shape.cast(member.shape).width, "controller" if member.flow is Out else "PHY")
              for path, member, _ in signature.flatten(signature.create())}
    listed = {}
    for names, width, driver in re.findall(r"^\| (`[^|]+`) \| (\d+) \| (controller|PHY) \|", PAGE, re.MULTILINE):
        listed |= {name: (int(width), driver) for name in re.findall(r"`([^`]+)`", names)}
    assert listed == wanted


def test_times():
    timing = timing_for(16)
    for name in ("tphy_wrlat", "trddata_en"):
        listed = re.search(rf"^\| {name} \|[^|]+\| (\d+) \|", PAGE, re.MULTILINE)[1]
        assert int(listed) == getattr(timing, name)
        assert getattr(timing.replace(dfi_write_ahead=2, dfi_read_ahead=2), name) == int(listed) - 2
