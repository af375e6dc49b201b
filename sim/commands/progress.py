"""What a command is doing: a line of work, or live progress of a simulation."""

import time
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table
from rich.text import Text

__all__ = ["RunProgress", "working"]


@contextmanager
def working(console, what):
    """Say *what* is going on as long as the context lasts, or, on a console that is no terminal, once."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(f"{what} ...", markup=False, highlight=False)
        yield


class RunProgress:
    """A live display on *console*, or on a console that is no terminal a line now and then.

    *expected*: clocks of the whole run, as predicted. Use as a context; call :meth:`clock` and :meth:`text`.
    """

    QUIET_SECONDS = 30
    """Between lines on something that is no terminal."""

    def __init__(self, console, expected):
        self._console = console
        self._expected = expected
        self._start = time.monotonic()
        self._clock = 0
        self._first = None
        self._tokens = 0
        self._text = ""
        self._said = self._start
        self._live = Live(self, console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def __enter__(self):
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_):
        if self._live:
            self._live.stop()
        self._console.print(Text(self._text.strip()), style="bold")

    def clock(self, clock):
        """The simulation has come to *clock*."""
        if self._first is None:
            self._first = clock
        self._clock = clock - self._first
        now = time.monotonic()
        if self._live is None and now - self._said >= self.QUIET_SECONDS:
            self._said = now
            self._console.print(self._status())

    def token(self, text):
        """A token has come, which completes *text*."""
        self._tokens += 1
        self._text += text

    def _status(self):
        seconds = time.monotonic() - self._start
        rate = self._clock / seconds if seconds > 1 else 0
        left = max(0, self._expected - self._clock) / rate if rate else None
        parts = [f"{self._clock / 1e6:.1f} of about {self._expected / 1e6:.1f} million clocks",
                 f"{rate / 1e3:.0f} kclocks/s", f"{self._tokens} tokens"]
        if left is not None:
            parts.append(f"about {int(left) // 60}:{int(left) % 60:02} left")
        return ", ".join(parts)

    def __rich__(self):
        table = Table.grid()
        table.add_row(Text(self._text.strip(), style="bold"))
        table.add_row(Text(self._status(), style="dim"))
        return table
