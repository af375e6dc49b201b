"""Sequencer: walks the access and the execute program, token after token."""

from hw.sequencer.sequencer import Sequencer

__all__ = ["Sequencer"]
