"""Losses by operator: the log, whose clock it was, composing, and words. The log of a whole run: tests/system."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from firmware.compiler import compile_layout
from firmware.layout import ModelShape, plan_layout
from firmware.traffic import step_traffic
from hw.config import preset
from hw.dram.causes import Cause
from hw.fetch.reader import Starved
from hw.isa import Format
from sim.losses.attribute import ARGMAX, WRITES, Key, Steps, attribute
from sim.losses.decode import measured_losses
from sim.losses.log import RECORD, ChannelLog, RunLog, joined, read_log
from sim.losses.operators import Operator, step_records
from sim.losses.ranking import compose_losses, ranked
from sim.losses.strip import step_strip, strip
from sim.losses.words import words
from sim.system.wrapper import LOST

CONFIG = preset("tiny").override(channels=3)
SHAPE = ModelShape(hidden=96, heads=3, kv_heads=3, head_dim=32, ffn=160, vocab=100, layers=3, context=120,
                   formats=dict.fromkeys(("q", "k", "v", "o", "gate_up", "down", "head"), Format.Q4_0))
LAYOUT = plan_layout(SHAPE, CONFIG)
COMPILED = compile_layout(LAYOUT, dict.fromkeys(("q", "k", "v", "o", "gate_up", "down", "head"), 9), 1e-5)
RECORDS = step_records(COMPILED.program, head=True)
FIRST = 50


def word(cause, starved=Starved.NO, write=0, **slice_status):
    return LOST.const({"cause": cause, "starved": starved, "write_beat": write, "slice": slice_status}).as_bits()


def channel_log(entries, taken):
    clock, clocks, words_ = zip(*entries, strict=True) if entries else ((), (), ())
    return ChannelLog(*(np.array(part, np.int64) for part in (clock, clocks, words_)), np.array(taken, np.int64))


def place_of(name, place, head=-1):
    return next(n for n, read in enumerate(RECORDS.reads) if (read.name, read.place, read.head) == (name, place, head))


def test_operators_of_a_step():
    names = [(operator.text, operator.place) for operator in RECORDS.slices]
    assert names[:4] == [("RoPE row", "none"), ("norm weights", "none"), ("embedding", "none"), ("Q", "first")]
    assert names[-2:] == [("down", "last"), ("LM head", "none")]
    layer = ["Q", "K", "V", "norm weights", "norm weights", "attention K of head 0", "attention K of head 1",
             "attention V of head 0", "attention K of head 2", "attention V of head 1", "attention V of head 2", "O",
             "gate, up", "down"]
    assert [name for name, place in names if place == "middle"] == layer
    assert [layer for layer in RECORDS.layers if layer >= 0] == [0] * 14 + [1] * 14 + [2] * 14
    assert [read.text for read in RECORDS.reads if read.place == "last"] == ["block table", *layer]
    headless = step_records(COMPILED.program, head=False)
    assert (headless.slices[-1].name, headless.reads[-1].name) == ("wait for residual and norm", "down")


@pytest.mark.parametrize("change", [{"experts": 4, "chosen": 2}, {"part": "attention"}, {"part": "matrix"}])
def test_operators_and_reads_of_other_layers(change):
    """Experts, whose layers are not looped in the access program; attention alone; one matrix."""
    shape = replace(SHAPE, **change)
    formats = dict.fromkeys((*shape.roles, "head"), Format.Q8_0)
    layout = plan_layout(replace(shape, formats=formats), CONFIG)
    compiled = compile_layout(layout, dict.fromkeys(formats, 9), 1e-5)
    records = step_records(compiled.program, head=True)
    for position in (2, 50):
        assert [records.read_ends(layout, position, n)[-1] for n in range(3)] == step_traffic(layout, position).read
    names = [operator.name for operator in records.reads if operator.place == "middle"]
    assert names[0] == ("router" if "matrix" in change.values() else "block table")
    if "experts" in change:
        assert names[-6:] == ["O", "router", "gate, up", "gate, up", "down", "down"]


@pytest.mark.parametrize("position", [1, 2, 50, 53])
def test_reads_are_those_of_the_step(position):
    traffic = step_traffic(LAYOUT, position)
    assert [RECORDS.read_ends(LAYOUT, position, n)[-1] for n in range(3)] == traffic.read


def run_with(entries, taken=None):
    """A run of two steps whose channel 1 lost *entries*, and the losses of that channel."""
    steps = Steps(RECORDS, FIRST, 2)
    reads = [sum(RECORDS.read_ends(LAYOUT, FIRST + n, channel)[-1] for n in range(2)) for channel in range(3)]
    lost = sum(clocks for _, clocks, _ in entries)
    clocks = reads[1] + lost
    taken = list(range(2 * len(RECORDS.slices))) if taken is None else taken
    # The others have the rest of the clocks in which nothing is left to do.
    end = word(Cause.NO_REQUEST, Starved.PROGRAM)
    idle = [channel_log([(reads[n], clocks - reads[n], end)], taken) for n in (0, 2)]
    log = RunLog(clocks, (idle[0], channel_log(entries, taken), idle[1]), (0, 0, 0))
    counts = attribute(log, steps, LAYOUT)
    for cause, count in log.causes.items():
        assert cause == "data" or sum(c for key, c in counts.items() if key.cause == cause) == count
    return counts - Counter({Key(ARGMAX, "no_request", "program"): 2 * clocks - reads[0] - reads[2]})


def test_late_beats_belong_to_their_record():
    ends = RECORDS.read_ends(LAYOUT, FIRST, 1)
    o, down = place_of("O", "middle"), place_of("down", "first")
    first_of_o, last_of_down = int(ends[o - 1]), int(ends[down]) - 1
    counts = run_with([
        (last_of_down, 5, word(Cause.REFRESH)), (5 + ends[down], 2, word(Cause.TURNAROUND)),
        (7 + first_of_o - 1, 3, word(Cause.ACTIVATE)), (10 + first_of_o, 4, word(Cause.ACTIVATE))])
    assert counts == {
        Key(Operator("down", -1, "first"), "refresh", ""): 5,
        Key(RECORDS.reads[down + 1], "turnaround", ""): 2,
        Key(RECORDS.reads[o - 1], "activate_precharge", ""): 3, Key(RECORDS.reads[o], "activate_precharge", ""): 4}
    second = int(ends[-1]) + first_of_o
    assert run_with([(second, 9, word(Cause.ACTIVATE))]) == {Key(RECORDS.reads[o], "activate_precharge", ""): 9}


def test_before_a_written_beat_the_write_is_late():
    """But a clock without a request is the reader's, and before and after the written beats the read is late."""
    q = place_of("Q", "middle")
    at = int(RECORDS.read_ends(LAYOUT, FIRST, 1)[q]) + 6
    counts = run_with([
        (0, 7, word(Cause.ACTIVATE)), (at, 2, word(Cause.NO_REQUEST, Starved.TABLE)),
        (at + 2, 3, word(Cause.TURNAROUND)), (at + 5, 1, word(Cause.ACTIVATE)), (at + 6, 8, word(Cause.DATA, write=1)),
        (at + 14, 4, word(Cause.TURNAROUND))])
    assert counts == {Key(RECORDS.reads[0], "activate_precharge", ""): 7,
                      Key(RECORDS.reads[q], "no_request", "table"): 2, Key(WRITES, "turnaround", ""): 3,
                      Key(WRITES, "activate_precharge", ""): 1, Key(RECORDS.reads[q], "turnaround", ""): 4}


def test_back_pressure_belongs_to_the_record_in_hand():
    """Records 0, 1, ... are taken in clocks 0, 10, 20, ...; the wait goes on until credits are back."""
    full = Cause.BACK_PRESSURE
    wait = word(full, busy=1, waiting_operand=1)
    counts = run_with([
        (41, 3, wait), (44, 2, word(full, busy=1)), (46, 6, word(full, busy=1)),  # in hand: 4, then 5 from 51 on
        (60, 7, word(full, busy=1, waiting_results=1)),  # taken in 60, so 5 is still in hand
        (68, 5, word(full, busy=1)), (80, 1, word(full))], [10 * n for n in range(2 * len(RECORDS.slices))])
    slices = RECORDS.slices
    assert counts == {Key(slices[4], "back_pressure", "operand"): 11, Key(slices[5], "back_pressure", "results"): 7,
                      Key(slices[6], "back_pressure", "work"): 5, Key(slices[8], "back_pressure", "program"): 1}


def test_other_beats_or_records_are_refused():
    short = int(RECORDS.read_ends(LAYOUT, FIRST, 0)[-1])
    log = RunLog(short - 1, (channel_log([], range(len(RECORDS.slices))),) * 3, (0, 0, 0))
    with pytest.raises(ValueError, match=f"channel 0 read {short - 1} beats .* not {short}"):
        attribute(log, Steps(RECORDS, FIRST, 1), LAYOUT)
    with pytest.raises(ValueError, match="records"):
        run_with([], [1, 2, 3])


def test_log_file(tmp_path):
    """Two runs, clocks between them left out; joined they are one."""
    taken, start, stop = (kind << 14 for kind in (1, 2, 3))
    full, rows = word(Cause.BACK_PRESSURE, busy=1), word(Cause.ACTIVATE)
    np.array([(5, 0, 1, taken), (10, 0, 0, start), (12, 3, 1, full), (12, 0, 0, taken), (20, 0, 0, stop),
              (25, 0, 0, taken), (30, 0, 0, start), (30, 1, 1, rows), (34, 2, 0, word(Cause.DATA, write=1)),
              (40, 0, 0, stop)], RECORD).tofile(tmp_path / "log")
    first, second = read_log(tmp_path / "log", 2)
    assert (first.clocks, first.taken_before) == (10, (0, 1)) and (second.clocks, second.taken_before) == (10, (2, 1))
    assert first.causes == {"data": 17, "refresh": 0, "activate_precharge": 0, "turnaround": 0, "no_request": 0,
                            "back_pressure": 3}
    assert first.channels[0].taken.tolist() == [2]
    both = joined([first, second])
    assert both.channels[1].clock.tolist() == [2, 10] and both.channels[1].reads.tolist() == [2, 7]
    assert both.causes["data"] == 36 and both.clocks == 20
    with pytest.raises(ValueError, match="the performance counters"):
        measured_losses([first, second], COMPILED, 5, 1, both.causes | {"data": 35})


def test_strip_has_every_channel_clock():
    log = RunLog(100, (channel_log([(0, 5, word(Cause.REFRESH)), (17, 30, word(Cause.BACK_PRESSURE))], [0]),
                       channel_log([(99, 1, word(Cause.NO_REQUEST))], [1])), (0, 0))
    data = strip(log, windows=10)
    assert data.edges.tolist() == list(range(0, 101, 10)) and data.counts.sum(0).tolist() == [20] * 10
    assert data.counts[1].tolist() == [5] + [0] * 9
    assert data.counts[5].tolist() == [0, 3, 10, 10, 7, 0, 0, 0, 0, 0]
    assert data.counts[4].tolist() == [0] * 9 + [1]
    part = strip(log, 20, 50, windows=3)
    assert part.counts[5].tolist() == [10, 10, 7]


def test_strip_of_a_step():
    count = len(RECORDS.slices)
    taken = [10 * n for n in range(2 * count)]
    log = RunLog(1000, (channel_log([], taken), channel_log([], [t + 3 for t in taken])), (0, 0))
    data = step_strip(log, RECORDS, 1)
    assert (data.edges[0], data.edges[-1]) == (10 * count, 1000)
    assert data.spans[3][:3] == (RECORDS.slices[3], 0, 10 * count + 30) and data.spans[-1][3] == 1000


def test_composed_losses_sum_to_composed_causes():
    def key(place, cause):
        return Key(Operator("O", -1, place), cause, "operand" if cause == "back_pressure" else "")

    counts = Counter({key("first", "back_pressure"): 100, key("middle", "back_pressure"): 50,
                      key("none", "back_pressure"): 7, key("last", "refresh"): 3, key("middle", "refresh"): 1})
    causes = {"data": 10**6, "refresh": 8, "activate_precharge": 0, "turnaround": 0, "no_request": 0,
              "back_pressure": 512}
    total = compose_losses(counts, layers=10, simulated=3, causes=causes)
    assert {cause: sum(c for k, c in total.items() if k.cause == cause) for cause in ("refresh", "back_pressure")} == {
        "refresh": 8, "back_pressure": 512}
    assert total[key("first", "back_pressure")] == pytest.approx(101, abs=1)  # 507 clocks became 512
    assert total[key("middle", "back_pressure")] == pytest.approx(404, abs=1)
    assert compose_losses(counts, 3, 3, {"data": 1} | {cause: sum(c for k, c in counts.items() if k.cause == cause)
                                                       for cause in list(causes)[1:]}) == counts
    with pytest.raises(ValueError, match="lost to nothing"):
        compose_losses(counts, 10, 3, causes | {"turnaround": 1})


def test_ranked():
    small, large = (Key(Operator("attention V", 2, place), "back_pressure", "maximum") for place in ("last", "first"))
    rows = ranked(Counter({small: 5, large: 20, Key(WRITES, "refresh", ""): 0}), 1000)
    assert rows[0] == {"operator": "attention V", "head": 2, "layers": "first", "cause": "back_pressure",
                       "reason": "maximum", "channel_clocks": 20, "share": 0.02,
                       "words": "fence: attention waits for softmax of head 2, first layer"}
    assert [row["channel_clocks"] for row in rows] == [20, 5]


def test_every_loss_has_words():
    operators = {*RECORDS.slices, *RECORDS.reads, *step_records(COMPILED.program, head=False).slices, WRITES, ARGMAX}
    reasons = {"back_pressure": ("operand", "maximum", "results", "data", "work", "program"),
               "no_request": ("no", "program", "table", "writer"), "refresh": ("",), "activate_precharge": ("",),
               "turnaround": ("",)}
    said = {Key(operator, cause, reason): words(Key(operator, cause, reason))
            for operator in operators for cause, each in reasons.items() for reason in each}
    assert all(": " in text and not text.endswith(" ") for text in said.values())
    assert said[Key(Operator("O", -1, "last"), "back_pressure", "operand")] == (
        "fence: O waits for attention, last layer")
    assert said[Key(Operator("embedding", -1, "none"), "no_request", "program")] == (
        "token boundary: embedding waits for the token")
