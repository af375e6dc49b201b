"""``headrace verilog``: a folder of Verilog, written whole or not at all."""

import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path

from firmware.errors import UserError
from firmware.register_page import register_page
from hw.host.register_files import register_files
from hw.host.register_map import register_map
from hw.top import Headrace
from hw.verilog import module_files
from hw.verilog.manifest import content_hash, manifest, sums
from sim.commands.progress import working

__all__ = ["checked_folder", "package", "run"]

ROOT = Path(__file__).resolve().parents[2]

MANIFEST, SUMS, FILELIST, WAIVERS = "manifest.json", "SHA256SUMS", "headrace.f", "headrace.vlt"


def run(config, folder, console):
    """Writes *folder* and says what is in it."""
    folder = checked_folder(folder)
    with working(console, "generating the design"):
        files = package(config)
    write_folder(folder, files)
    modules = [name for name in files if name.endswith(".sv")]
    lines = sum(files[name].count("\n") for name in modules)
    console.print(f"{len(modules)} modules, {lines} lines of Verilog of {config.name} in {folder}", highlight=False)
    console.print(f"content {json.loads(files[MANIFEST])['content']}", highlight=False, soft_wrap=True)


def package(config):
    """File name -> text of everything that is written for *config*; the same on any machine."""
    modules = module_files(Headrace(config), "headrace")
    fields = register_map()["version"].fields
    files = {f"rtl/{module.file}": module.text for module in modules}
    files[FILELIST] = "".join(f"{name}\n" for name in files)
    files[WAIVERS] = (ROOT / "hw" / "verilog" / "waivers.vlt").read_text()
    files |= register_files()
    files["registers.md"] = register_page()
    files["LICENSE"] = (ROOT / "LICENSE").read_text()
    versions = {"headrace": version("headrace"), "amaranth": version("amaranth"),
                "registers": f"{fields['major'].reset}.{fields['minor'].reset}"}
    about = manifest(config, modules, versions)
    about["content"] = content_hash(files)
    return {MANIFEST: json.dumps(about, indent=1) + "\n", SUMS: sums(files), **files}


def checked_folder(folder):
    """*folder* in full; :class:`UserError` if it holds anything but an earlier output."""
    folder = Path(folder).resolve()
    if folder == Path.cwd().resolve() or folder in Path.cwd().resolve().parents:
        raise UserError(f"-o {folder} holds the current folder: name one below it, for example -o {folder / 'verilog'}")
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir():
        raise UserError(f"-o {folder}: {nearest} is a file; name a folder")
    if not os.access(nearest if nearest != folder else folder.parent, os.W_OK):
        raise UserError(f"-o {folder}: no permission to write there; name another folder")
    if folder.exists():
        foreign = _foreign(folder)
        if foreign:
            raise UserError(f"-o {folder} has {foreign}, which no earlier headrace verilog wrote there: name an empty "
                            "or new folder")
    return folder


def _foreign(folder):
    """A path in *folder* that is not of an earlier output; None if there is none."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    known = set()
    try:
        if "headrace" in json.loads((folder / MANIFEST).read_text()):
            listed = (folder / SUMS).read_text().splitlines()
            known = {MANIFEST, SUMS, *(line.split("  ", 1)[1] for line in listed)}
    except (OSError, ValueError, IndexError, TypeError):
        pass  # not an output
    return next((name for name in found if name not in known), None)


def write_folder(folder, files):
    """Puts *files* at *folder* in place of what is there; an interruption leaves the old or the new, whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{what}") for what in ("partial", "old"))
    try:
        for name, text in files.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_text(text, newline="\n")
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        for leftover in (partial, old):
            shutil.rmtree(leftover, ignore_errors=True)
