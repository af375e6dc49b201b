"""Sequencer: walks the access and the execute program, token after token."""
