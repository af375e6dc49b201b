"""Figures and their presentation."""

import json

import pytest
from rich.console import Console

from firmware.errors import UserError
from sim.report import Report, Traffic, decode_table, figures_table, losses_table, utilisation, write_json

CAUSES = {"data": 150, "refresh": 10, "activate_precharge": 20, "turnaround": 0, "no_request": 15, "back_pressure": 5}

REPORT = Report(
    preset="tiny", overrides={}, model="small", channels=2, load="backdoor", prompt_tokens=3, tokens=[5, 6],
    text=" [b]yes", clocks=900, prompt_clocks=800, decode_clocks=100, decode_steps=1, bytes=4800, bus_busy=0.75,
    model_mbu=0.7, goodput=0.6, predicted_clocks=80, causes=CAUSES, losses=[], violations=0, golden_match=True,
    golden_tokens=2, logits_sha256="ab" * 32, golden_logits_sha256="ab" * 32, host_seconds=2.0,
    clocks_per_host_second=450.0, notices=[])


def shown(table):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_utilisation_is_of_all_channel_clocks():
    shares = utilisation(Traffic(moved=4800, model=3200, codes=1600), CAUSES, clocks=100, channels=2)
    assert (shares.bus_busy, shares.model_mbu, shares.goodput) == (0.75, 0.5, 0.25)


def test_every_channel_clock_has_a_cause():
    with pytest.raises(ValueError, match="200, not 101 clocks x 2 channels = 202"):
        utilisation(Traffic(0, 0, 0), CAUSES, clocks=101, channels=2)


def test_decode_table():
    text = shown(decode_table(REPORT))
    for words in ("[b]yes", "75.00 %", "80 (+25.00 %)", "back pressure", "100.00 %", "2 of 2 tokens",
                  "logits abababababababab equal"):
        assert words in text


def test_losses_table_shows_the_largest_and_the_sum():
    losses = [{"share": 0.01 * (12 - n), "words": f"loss [{n}]"} for n in range(12)]
    text = shown(losses_table({"losses": losses, "composed_layers": 3}))
    assert "composed" in text and "loss [0]" in text and "loss [9]" in text and "loss [10]" not in text
    assert "2 smaller losses" in text and "3.000 %" in text and "78.000 %" in text


def test_figures_table_shows_causes_as_shares():
    text = shown(figures_table("stream", {"clocks": 200, "bus_busy": 0.75, "causes": CAUSES, "broken": []}))
    assert "75.00 %" in text and "200" in text and "[]" in text


def test_json_appears_whole(tmp_path):
    write_json(tmp_path / "a" / "run.json", REPORT)
    assert json.loads((tmp_path / "a" / "run.json").read_text())["causes"] == CAUSES
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["run.json"]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write .*file.*--json"):
        write_json(tmp_path / "file" / "run.json", REPORT)
    with pytest.raises(UserError, match="Is a directory"):
        write_json(tmp_path / "a", REPORT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file"]
