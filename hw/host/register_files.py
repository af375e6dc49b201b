"""The register map for others: C header and IP-XACT of registers.rdl.

``python -m hw.host.register_files docs`` writes both into that folder; a test fails when they are stale.
"""

import sys
import tempfile
from pathlib import Path

from peakrdl_cheader.exporter import CHeaderExporter
from peakrdl_ipxact import IPXACTExporter
from systemrdl import RDLCompiler

from hw.host.register_map import SOURCE, register_map

__all__ = ["HEADER", "IPXACT", "register_files"]

HEADER, IPXACT = "headrace_registers.h", "headrace_registers.xml"
"""Names of the C header and of the IP-XACT (IEEE 1685-2014) file."""


def register_files():
    """File name -> text of the C header and the IP-XACT description."""
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE))
    top = compiler.elaborate().top
    fields = register_map()["version"].fields
    version = f"{fields['major'].reset}.{fields['minor'].reset}"
    with tempfile.TemporaryDirectory() as folder:
        header, ipxact = Path(folder) / HEADER, Path(folder) / IPXACT
        CHeaderExporter().export(top, str(header))
        IPXACTExporter(vendor="headrace", library="headrace", version=version).export(top, str(ipxact))
        return {path.name: _plain(path.read_text()) for path in (header, ipxact)}


def _plain(text):
    """*text* without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    for name, text in register_files().items():
        (Path(sys.argv[1]) / name).write_text(text)
