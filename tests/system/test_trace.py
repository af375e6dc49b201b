"""A trace of a run agrees with itself: causes with commands, accesses with both, spans of a track with each other."""

import json
from collections import Counter
from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console

from firmware.errors import UserError
from hw.config import preset
from sim.commands.trace import Request, run
from sim.random_model import write_model

CLOCKS = 4000


def test_trace_of_a_run(tmp_path):
    request = {"config": preset("tiny"), "model": write_model(tmp_path / "model.gguf"), "prompt": "abc",
               "clocks": CLOCKS, "start": 400}
    console = Console(file=StringIO())
    window = run(Request(**request, output=tmp_path / "trace.json"), console)
    assert "golden model was not run" in console.file.getvalue()
    assert (window.start, window.stop) == (400, 400 + CLOCKS)
    for commands, states in zip(window.commands, window.states, strict=True):
        data = sum(later.clock - state.clock for state, later in pairwise(states) if state.cause == "data")
        data += (window.stop - states[-1].clock) * (states[-1].cause == "data")
        columns = sum(c.name in ("RD16", "WR16") for c in commands)
        assert abs(data - columns) <= 2  # the edges of the window
        assert columns > CLOCKS // 2
        kinds = Counter(c.name for c in commands)
        assert kinds["REF"] >= 8 and kinds["WR16"] and kinds["ACT1"] == kinds["ACT2"]

    spans = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    for track in {(e["pid"], e["tid"]) for e in spans}:
        ordered = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if (e["pid"], e["tid"]) == track)
        assert all(before[1] <= after[0] + 1e-5 for before, after in pairwise(ordered))

    run(Request(**request, output=tmp_path / "accesses", format="ramulator2", channel=1), console)
    lines = (tmp_path / "accesses").read_text().splitlines()
    known = [c for c in window.commands[1] if c.name in ("RD16", "WR16") and c.row >= 0]
    assert len(lines) == len(known) and {line[0] for line in lines} == {"R", "W"}

    with pytest.raises(UserError, match="ended before"):
        run(Request(**request | {"start": 10**9}, output=tmp_path / "none"), console)
    assert not (tmp_path / "none").exists()
