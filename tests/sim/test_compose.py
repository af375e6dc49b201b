"""Composition of counters: exact where layers are alike, and always accounting for every channel clock."""

from firmware.driver import Counters
from sim.compose import compose, layers_to_run

CHANNELS = 3
STEPS = 2


def counters(clocks, **causes):
    return Counters(clocks, causes)


def test_layers_to_run():
    assert layers_to_run(2, 32) == (2, 3)
    assert layers_to_run(6, 32) == (2, 6)
    assert layers_to_run(32, 32) == layers_to_run(99, 32) == (32,)
    assert layers_to_run(2, 3) == (3,)
    assert layers_to_run(2, 2) == (2,)


def test_equal_layers_are_multiplied():
    ends, middle = counters(100, data=250, refresh=20, no_request=30), counters(40, data=100, refresh=5, no_request=15)
    whole = compose({2: ends, 5: ends + middle + middle + middle}, 30, STEPS, CHANNELS)
    expected = ends
    for _ in range(28):
        expected += middle
    assert whole.counters == expected
    assert whole.layer_clocks == 40 / STEPS
    assert whole.composed_layers == 25


def test_every_clock_has_a_cause():
    """Layers that divide unevenly, and a cause that is rarer in the larger run."""
    runs = {2: counters(100, data=250, refresh=20, no_request=30),
            4: counters(181, data=500, refresh=13, no_request=30)}
    whole = compose(runs, 9, STEPS, CHANNELS).counters
    assert whole.clocks == 181 + round(2.5 * 81)
    assert sum(whole.causes.values()) == whole.clocks * CHANNELS
    assert whole.causes["data"] == 500 + 625
    assert min(whole.causes.values()) >= 0


def test_one_run_is_the_whole():
    run = counters(100, data=250, refresh=50)
    assert compose({4: run}, 4, STEPS, CHANNELS).counters is run
