"""The fluid model against a clock-by-clock FIFO, and its simple cases by hand."""

import random
from collections import deque

import pytest

from sim.roofline.stream import GATE, Fetch, Stream


def test_memory_alone_sets_the_pace():
    stream = Stream([Fetch(1000, 1000)], depth=64, latency=14)
    assert stream.take(1000, 100, "slice") == pytest.approx(1014)
    assert stream.lost == {}


def test_a_wait_within_the_fifo_costs_nothing():
    stream = Stream([Fetch(1000, 1000)], depth=256, latency=14)
    stream.take(500, 100, "matrix")
    stream.wait(stream.now + 200, "fence")
    assert stream.take(500, 100, "matrix") == pytest.approx(1014)


def test_a_wait_beyond_the_fifo_is_lost():
    stream = Stream([Fetch(1000, 1000)], depth=256, latency=14)
    stream.take(500, 100, "matrix")
    stream.wait(stream.now + 300, "fence")
    # 14 of 256 credits are on their way when the slice stops
    assert stream.take(500, 100, "matrix") == pytest.approx(1014 + 300 - 242)
    assert stream.lost == {"fence": pytest.approx(300 - 242)}


def test_a_full_fifo_stays_full_if_the_slice_is_no_faster_than_memory():
    def lost(clocks):
        stream = Stream([Fetch(2000, 2000)], depth=64, latency=14)
        for _ in range(4):
            stream.take(400, clocks, "matrix")
            stream.wait(stream.now + 40, "fence")
        return stream.lost["fence"] if stream.lost else 0
    assert lost(400) > 90  # after the first fence there is no room
    assert lost(320) < 1  # rate 1.25: 80 beats of room after each


def test_a_slow_slice_holds_memory_up():
    stream = Stream([Fetch(1000, 1000)], depth=64, latency=14)
    assert stream.take(1000, 3000, "passes") == pytest.approx(3014, abs=1)
    stream.wait(5000, "end")
    assert stream.lost["passes"] == pytest.approx(3014 - 3 * 64 - 1000, abs=1)  # the last 64 are in the FIFO


def test_gate_and_bus_time_without_beats():
    stream = Stream([Fetch(10, 10), Fetch(0, 50), Fetch(10, 10, gate=True)], depth=64, latency=5)
    stream.open(100)
    assert stream.take(10, 1, "a") == pytest.approx(15)
    assert stream.take(10, 1, "b") == pytest.approx(115)
    assert stream.lost == {GATE: pytest.approx(40)}


def test_beats_that_are_there_at_the_start():
    stream = Stream([Fetch(8, 8, gate=True)], depth=64, latency=5, present=12)
    stream.open(30)
    assert stream.take(12, 12, "loads") == pytest.approx(12)
    assert stream.take(8, 8, "row") == pytest.approx(43)


def test_beats_that_never_come_are_an_error():
    with pytest.raises(ValueError, match="never come .matrix"):
        Stream([Fetch(10, 10)], depth=64, latency=5).take(11, 11, "matrix")


def clock_by_clock(segments, depth, latency):
    """Clocks of the same, a beat a clock from memory: segments of (wait, beats, clocks)."""
    issued = consumed = 0
    arrivals = deque()
    there = 0
    clock = 0
    total = sum(beats for _, beats, _ in segments)
    for wait, beats, clocks in segments:
        start, credit, left = clock + wait, 0.0, beats
        while left:
            if issued < total and issued - consumed < depth:
                issued += 1
                arrivals.append(clock + latency)
            while arrivals and arrivals[0] <= clock:
                arrivals.popleft()
                there += 1
            if clock >= start:
                credit = min(credit + beats / clocks, 2.0)
                while credit >= 1 and there and left:
                    credit, there, left, consumed = credit - 1, there - 1, left - 1, consumed + 1
            clock += 1
    return clock


@pytest.mark.parametrize("seed", range(20))
def test_against_a_fifo_clock_by_clock(seed):
    rng = random.Random(seed)
    depth, latency = rng.choice([64, 128, 256]), rng.randrange(5, 30)
    segments = [(rng.choice([0, 0, rng.randrange(300)]), n := rng.randrange(1, 1500), rng.choice([n * 0.8, n, n * 1.5]))
                for _ in range(12)]
    total = sum(beats for _, beats, _ in segments)
    stream = Stream([Fetch(total, total)], depth, latency)
    for wait, beats, clocks in segments:
        stream.wait(stream.now + wait, "fence")
        stream.take(beats, clocks, "matrix")
    exact = clock_by_clock(segments, depth, latency)
    assert stream.now == pytest.approx(exact, rel=0.005, abs=latency + 2 * len(segments)), f"seed {seed}"
    assert stream.now + 1e-6 >= total
