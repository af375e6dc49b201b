"""DRAM controller of a channel: :mod:`hw.dram.controller`; the table that it obeys: :mod:`hw.dram.timing`."""
