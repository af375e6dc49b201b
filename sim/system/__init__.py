"""The full system in simulation: one Verilated model for a configuration, and runs of it."""
