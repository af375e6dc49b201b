"""Entry of the ``headrace`` command: an interrupt is answered even while the libraries are being imported."""

import sys

__all__ = ["main"]

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main():
    """Run :func:`sim.cli.main`; after Ctrl-C one line on stderr and exit code 130."""
    try:
        from sim.cli import main as command
        command()
    except KeyboardInterrupt:
        print("headrace: interrupted; nothing half-made is kept, run the command again", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
