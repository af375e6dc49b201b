"""hw imports nothing of ours, firmware only hw: the direction in which everything else may be understood."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {"hw": {"hw"}, "firmware": {"hw", "firmware"}, "sim/golden": {"hw", "sim.golden"}}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_point_down(folder):
    ours = ("hw", "sim", "firmware", "tests")
    wrong = [f"{path.relative_to(ROOT)} imports {name}"
             for path in (ROOT / folder).rglob("*.py") for name in imported(path)
             if name.split(".")[0] in ours and not any(f"{name}.".startswith(f"{a}.") for a in ALLOWED[folder])]
    assert not wrong
