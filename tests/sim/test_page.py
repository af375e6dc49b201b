"""The HTML report of a run: its numbers, in a browser without a network, light and dark, wide and narrow."""

import json
import re

import numpy as np
import pytest

from firmware.traffic import step_traffic
from hw.config import preset
from hw.dram.causes import Cause
from sim.commands.shape_run import Request
from sim.losses.attribute import Steps, attribute
from sim.losses.decode import Losses
from sim.losses.log import ChannelLog, RunLog
from sim.losses.operators import step_records
from sim.losses.ranking import ranked
from sim.page.browser import dump_dom, find_chromium, screenshot
from sim.page.run_page import write_decode_page, write_shape_page
from sim.random_model import RandomLlama, write_model
from sim.report import Report
from sim.system.wrapper import LOST

CONFIG = preset("tiny")
POSITION = 7
CHROMIUM = pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: the page was not opened in a browser")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, a report of two steps whose clocks are invented, and its losses."""
    from firmware.compiler import compile_model
    from firmware.gguf_model import read_model

    path = write_model(tmp_path_factory.mktemp("page") / "model.gguf", RandomLlama(layers=3))
    compiled = compile_model(read_model(path), CONFIG)
    records = step_records(compiled.program, head=True)
    reads = [sum(step_traffic(compiled.layout, POSITION + n).read[channel] for n in range(2)) for channel in range(2)]
    wait = LOST.const({"cause": Cause.BACK_PRESSURE, "slice": {"busy": 1, "waiting_operand": 1}}).as_bits()
    idle = LOST.const({"cause": Cause.NO_REQUEST}).as_bits()
    clocks = max(reads) + 500
    taken = np.linspace(0, clocks - 600, 2 * len(records.slices)).astype(np.int64)
    channels = tuple(
        ChannelLog(np.array([taken[20] + 1, clocks - lost + 400]), np.array([400, lost - 400]), np.array([wait, idle]),
                   taken) for lost in (clocks - read for read in reads))
    log = RunLog(clocks, channels, (0, 0))
    losses = Losses(attribute(log, Steps(records, POSITION, 2), compiled.layout), log, records, 2)
    report = Report(
        preset="tiny", overrides={"fifo_beats": 64}, model="a <model>", channels=2, load="backdoor", prompt_tokens=7,
        tokens=[1, 2, 3], text="</script><b>bold & brave", clocks=9 * clocks, prompt_clocks=7 * clocks,
        decode_clocks=clocks, decode_steps=2, bytes=1000, bus_busy=0.75, model_mbu=0.5, goodput=0.25,
        predicted_clocks=clocks - 100, causes=log.causes, losses=ranked(losses.counts, 2 * clocks), violations=0,
        golden_match=True, golden_tokens=3, logits_sha256="a", golden_logits_sha256="a", host_seconds=2.0,
        clocks_per_host_second=1.0, notices=[])
    return path, report, losses


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    path, report, losses = made
    file = tmp_path_factory.mktemp("html") / "run.html"
    write_decode_page(file, report, losses, path, CONFIG)
    return file


def test_page_has_the_figures_and_asks_for_nothing(page, made):
    text, report = page.read_text(), made[1]
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)[1])
    assert figures["causes"] == report.causes and figures["text"] == report.text
    assert "<b>bold" not in text and "&lt;b&gt;bold &amp; brave" in text and "a &lt;model&gt;" in text
    for words in ("50.00 %", "75.00 %", "25.00 %", "predicted", "simulated", "golden model", report.losses[0]["words"]):
        assert words in text
    # Names of XML namespaces are not addresses; links in the SVG point into the page.
    for address in re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', text):
        assert address.startswith("#"), address
    assert len(text) < 400_000


def test_page_of_a_run_without_decode_steps(made, tmp_path):
    path, report, _ = made
    empty = Report(**vars(report) | {"decode_steps": 0, "decode_clocks": 0, "losses": [],
                                     "causes": dict.fromkeys(report.causes, 0)})
    write_decode_page(tmp_path / "empty.html", empty, None, path, CONFIG)
    assert "golden model" in (tmp_path / "empty.html").read_text()


def test_page_of_a_composed_run(made, tmp_path):
    """Says which figures are composed, and that the strips are of the layers that were simulated."""
    path, report, losses = made
    figures = vars(report) | {
        "context": 9, "seed": 4, "golden": "not run", "layers": 3, "simulated_layers": [2, 3], "composed_layers": 5,
        "layer_clocks": 123.0, "left_out": ["routing: not built"], "experts": {"count": 8, "chosen": 2}}
    write_shape_page(figures, losses, Request(CONFIG, str(path), context=9, html=tmp_path / "shape.html"))
    text = (tmp_path / "shape.html").read_text()
    for words in ("5, each 123 clocks", "generated, seed 4", "routing: not built", "2 of 8 in each layer",
                  "simulated, 3 layers", '<span class="chip composed">'):
        assert words in text


@CHROMIUM
def test_page_in_chromium(page, tmp_path):
    """Its script runs to the end, the widest thing fits a phone, and light and dark differ."""
    dom = dump_dom(page)
    assert 'data-ready="3"' in dom
    assert dom.count("<path class=") >= 6 and "matplotlib" in dom
    from matplotlib.image import imread
    for width, dark in ((1000, False), (500, True)):
        screenshot(page, tmp_path / "page.png", width, 1500, dark=dark)
        image = imread(tmp_path / "page.png")[..., :3]
        assert image.shape[:2] == (1500, width)
        assert (image[2, 2].mean() < 0.3) == dark, "background"
        assert image.reshape(-1, 3).std(0).max() > 0.05, "something is drawn"
