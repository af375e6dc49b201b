"""A Chromium without a window, for looking at pages as a browser has them."""

import shutil
import subprocess
import tempfile

__all__ = ["dump_dom", "find_chromium", "screenshot"]

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "google-chrome-stable")

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
         "--host-resolver-rules=MAP * ~NOTFOUND")
"""No network: a page that asked for anything would not get it."""


def find_chromium():
    """Path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def dump_dom(path, seconds=120):
    """HTML of the page in the file *path* after its scripts have run."""
    return chromium(path, ["--dump-dom"], seconds).stdout


def screenshot(path, image, width, height, dark=False, seconds=120):
    """Write the page in the file *path* to the PNG *image*."""
    theme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    chromium(path, [f"--window-size={width},{height}", f"--screenshot={image}", *theme], seconds)


def chromium(path, options, seconds):
    """The finished process; subprocess.TimeoutExpired or CalledProcessError if it does not end well."""
    with tempfile.TemporaryDirectory(prefix="headrace-chromium-") as profile:
        return subprocess.run([find_chromium(), *FLAGS, f"--user-data-dir={profile}", *options, f"file://{path}"],
                              capture_output=True, text=True, timeout=seconds, check=True)
