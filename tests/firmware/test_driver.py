"""Driver and generation over the model of the accelerator: tokens are the golden model's."""

import asyncio

import numpy as np
import pytest

from firmware.compiler import compile_model
from firmware.driver import DeviceError, Driver, explain
from firmware.engine import Sampling, generate
from firmware.errors import UserError
from firmware.gguf_model import read_model
from hw.config import preset
from hw.host.register_map import register_map
from hw.sequencer.control import Fault
from sim.golden.model import GoldenModel
from sim.model_device import ModelDevice
from sim.random_model import RandomLlama, write_model

CONFIG = preset("tiny").override(channels=3, page_slots=2)
PROMPT = [7, 250, 31, 4]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    return read_model(write_model(path, RandomLlama(vocab=301, context=40, tied=False)))


@pytest.fixture(scope="module")
def golden(model):
    """The first tokens and logits after PROMPT."""
    return list(GoldenModel(model).generate(PROMPT, 8))


def ready(model):
    """A device with the model, and its driver."""
    device = ModelDevice(CONFIG)
    driver = Driver(device, CONFIG)

    async def load():
        await driver.connect()
        await driver.load(compile_model(model, CONFIG), model, seed=3)

    asyncio.run(load())
    return device, driver


def test_greedy_tokens_are_golden_and_the_device_runs_alone(model, golden):
    device, driver = ready(model)
    seen = []
    answer = asyncio.run(generate(driver, PROMPT, 8, on_token=seen.append))
    want = [token for token, _ in golden]
    assert answer.tokens == seen == want
    assert answer.decode_steps == 7
    assert [run["steps"] for run in device.starts] == [1, 1, 1, 1, 7]
    assert [run["head"] for run in device.starts] == [0, 0, 0, 1, 1]
    assert [run["position"] for run in device.starts] == [0, 1, 2, 3, 4]


def test_kept_logits_are_golden(model, golden):
    _, driver = ready(model)
    answer = asyncio.run(generate(driver, PROMPT, 4, keep_logits=True))
    assert answer.tokens == [token for token, _ in golden[:4]]
    for got, (_, want) in zip(answer.logits, golden, strict=False):
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_a_stop_token_ends_the_answer(model, golden):
    want = [token for token, _ in golden]
    stop = want[4]
    _, driver = ready(model)
    answer = asyncio.run(generate(driver, PROMPT, 8, stop=[stop]))
    assert answer.tokens == want[:want.index(stop) + 1]
    answer = asyncio.run(generate(driver, PROMPT, 8, stop=[300, stop]))
    assert answer.tokens == want[:want.index(stop) + 1]


def test_sampling_follows_the_seed(model, golden):
    def sample(**options):
        return asyncio.run(generate(ready(model)[1], PROMPT, 6, sampling=Sampling(**options))).tokens

    assert sample(temperature=2.0, seed=1) == sample(temperature=2.0, seed=1) != sample(temperature=2.0, seed=2)
    assert sample(temperature=3.0, top_k=1) == [token for token, _ in golden[:6]]


def test_sampling_draws_by_the_law():
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
    rng = np.random.default_rng(0)
    counts = np.bincount([Sampling(1.0).choose(logits, rng) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(counts, [0.1, 0.4, 0.2, 0.3], atol=0.03)
    counts = np.bincount([Sampling(0.5, top_k=2).choose(logits, rng) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(counts, [0, 0.64, 0, 0.36], atol=0.03)
    assert Sampling(1e-310).choose(logits, rng) == 1


@pytest.mark.parametrize(("prompt", "count", "message"), [
    ([], 1, "the prompt has no tokens"), (PROMPT, 0, "ask for 1 or more"), (PROMPT, 38, "context of 41; there are 40"),
    (list(range(41)), 1, "there are 40")])
def test_bad_requests_are_refused(model, prompt, count, message):
    with pytest.raises(UserError, match=message):
        asyncio.run(generate(ready(model)[1], prompt, count))


def test_bad_sampling_is_refused():
    for options in ((0,), (-1,), (float("nan"),), (1, -1)):
        with pytest.raises(UserError):
            Sampling(*options)


def test_the_context_can_be_filled(model):
    answer = asyncio.run(generate(ready(model)[1], PROMPT, 37))
    assert answer.tokens == [token for token, _ in GoldenModel(model).generate(PROMPT, 37)]


def test_another_build_is_refused():
    driver = Driver(ModelDevice(CONFIG), CONFIG.override(mantissa_bits=16))
    with pytest.raises(DeviceError, match="built with"):
        asyncio.run(driver.connect())


def test_a_fault_is_told(model):
    _, driver = ready(model)
    with pytest.raises(DeviceError, match="run: settings: ask for one step or more") as raised:
        asyncio.run(driver.run(1, 0, steps=2, head=False))
    assert raised.value.error["fault"] == Fault.SETTINGS.value
    assert asyncio.run(driver.run(1, 0)).tokens, "the next run is good"


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE])
def test_every_fault_has_a_remedy(fault):
    fields = dict.fromkeys(register_map()["error"].fields, 0)
    text = explain(fields | {"fault": fault.value, "record": 7, "channel": 3, "wait": 4})
    assert f" {fault.name.lower()}: " in text and "\n" not in text
    assert "infinity or NaN" in explain(fields | {"vector": 1})
