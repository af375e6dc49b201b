"""docs/registers.md is what the register map says."""

from pathlib import Path

from firmware.register_page import register_page


def test_page_is_not_stale():
    page = Path(__file__).resolve().parents[2] / "docs" / "registers.md"
    assert page.read_text() == register_page(), "stale: run python -m firmware.register_page > docs/registers.md"
