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
    parts = zip(window.commands, window.states, window.taken, window.levels, strict=True)
    for commands, states, taken, levels in parts:
        ends = [*(state.clock for state in states[1:]), window.stop]
        data = {clock for state, end in zip(states, ends, strict=True) if state.cause == "data"
                for clock in range(state.clock, end)}
        # What is on the command bus is what the device model sees, in the same clock as its cause.
        columns = {c.ck // 2 for c in commands if c.name in ("RD16", "WR16")}
        assert data == columns
        assert len(columns) > CLOCKS // 2
        assert [t.count for t in taken] == list(range(taken[0].count, taken[0].count + len(taken)))
        assert max(level.data for level in levels) > 32 and max(level.scales for level in levels) > 0
        assert all(level.data + level.scales <= 64 for level in levels)
        kinds = Counter(c.name for c in commands)
        assert kinds["REF"] >= 8 and kinds["WR16"] and kinds["ACT1"] == kinds["ACT2"]

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    fences = Counter(e["name"] for e in events if e["ph"] == "i")
    assert {"hidden state complete", "queries complete", "newest K complete", "newest V complete",
            "attention output complete", "SiLU(gate) * up complete"} <= set(fences)
    names = {e["name"] for e in events if e["ph"] == "X"}
    assert {"layer 0 Q", "layer 1 attention K of head 0", "layer 1 down", "attention", "glu"} <= names
    spans = [e for e in events if e["ph"] == "X"]
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
