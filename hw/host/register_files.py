"""The register map for others: C header and IP-XACT of registers.rdl.

``python -m hw.host.register_files docs`` writes both into that folder; a test fails when they are stale.
"""

import sys
import tempfile
from pathlib import Path

from peakrdl_cheader.exporter import CHeaderExporter
from peakrdl_ipxact import IPXACTExporter
from systemrdl import RDLCompiler
from systemrdl.messages import MessagePrinter, Severity

from hw.host.register_map import SOURCE, register_map

__all__ = ["HEADER", "IPXACT", "register_files"]

HEADER, IPXACT = "headrace_registers.h", "headrace_registers.xml"
"""Names of the C header and of the IP-XACT (IEEE 1685-2014) file."""


WINDOW = """
      <ipxact:addressBlock>
        <ipxact:name>{name}</ipxact:name>
        <ipxact:baseAddress>'h{address:x}</ipxact:baseAddress>
        <ipxact:range>'h{size:x}</ipxact:range>
        <ipxact:width>32</ipxact:width>
        <ipxact:usage>memory</ipxact:usage>
        <ipxact:access>write-only</ipxact:access>
      </ipxact:addressBlock>"""


class _ErrorsOnly(MessagePrinter):
    """Drops warnings: the exporter's are about the windows, which are added here."""

    def print_message(self, severity, text, src_ref):
        if severity >= Severity.ERROR:
            super().print_message(severity, text, src_ref)


def register_files():
    """File name -> text of the C header and the IP-XACT description."""
    compiler = RDLCompiler(message_printer=_ErrorsOnly())
    compiler.compile_file(str(SOURCE))
    top = compiler.elaborate().top
    fields = register_map()["version"].fields
    version = f"{fields['major'].reset}.{fields['minor'].reset}"
    with tempfile.TemporaryDirectory() as folder:
        header, ipxact = Path(folder) / HEADER, Path(folder) / IPXACT
        CHeaderExporter().export(top, str(header))
        IPXACTExporter(vendor="headrace", library="headrace", version=version).export(top, str(ipxact))
        return {HEADER: _plain(header.read_text()), IPXACT: _plain(_with_windows(ipxact.read_text()))}


def _with_windows(text):
    """IP-XACT *text* with the windows, which PeakRDL leaves out, as blocks behind the registers' own."""
    windows = sorted(register_map().windows.values(), key=lambda window: window.address)
    whole = max(window.address + 4 * window.words for window in windows)
    ends = f"<ipxact:range>'h{whole:x}<", f"<ipxact:range>'h{windows[0].address:x}<"
    blocks = "".join(WINDOW.format(name=w.name, address=w.address, size=4 * w.words) for w in windows)
    block_end = "      </ipxact:addressBlock>"
    if text.count(ends[0]) != 1 or text.count(block_end) != 1:
        raise ValueError("the IP-XACT file has another form than expected")
    return text.replace(*ends).replace(block_end, block_end + blocks)


def _plain(text):
    """*text* without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    for name, text in register_files().items():
        (Path(sys.argv[1]) / name).write_text(text)
