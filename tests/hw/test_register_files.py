"""C header and IP-XACT in docs/ are what registers.rdl says."""

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hw.host.register_files import HEADER, IPXACT, register_files
from hw.host.register_map import register_map
from sim.build import toolchain

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", [HEADER, IPXACT])
def test_file_is_not_stale(name):
    stale = f"docs/{name} is stale: run python -m hw.host.register_files docs"
    assert (DOCS / name).read_text() == register_files()[name], stale


def test_header_has_the_addresses(tmp_path):
    """The header's struct, compiled, has each register where the map has it."""
    known = register_map()
    places = {name: entry.address for name, entry in {**known.registers, **known.windows}.items()}
    checks = "".join(f"static_assert(offsetof(headrace_t, {name}) == {at}, \"{name}\");\n"
                     for name, at in places.items())
    (tmp_path / "check.cpp").write_text(f'#include <cstddef>\n'
                                        f'#include "{DOCS / HEADER}"\n{checks}')
    subprocess.run([toolchain().compiler, "-fsyntax-only", "check.cpp"], cwd=tmp_path, check=True)


def test_ipxact_has_the_map():
    space = "{http://www.accellera.org/XMLSchema/IPXACT/1685-2014}"
    blocks = ElementTree.parse(DOCS / IPXACT).iter(f"{space}addressBlock")
    registers, *windows = blocks

    def number(element, name):
        return int(element.find(space + name).text.removeprefix("'h"), 16)

    found = {r.find(f"{space}name").text: number(r, "addressOffset") for r in registers.iter(f"{space}register")}
    assert found == {name: register.address for name, register in register_map().registers.items()}
    assert [(w.find(f"{space}name").text, number(w, "baseAddress"), number(w, "range") // 4) for w in windows] == [
        (window.name, window.address, window.words) for window in register_map().windows.values()]
