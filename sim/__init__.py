"""Simulation: device model, benches, golden and roofline models, and the ``headrace`` command."""
