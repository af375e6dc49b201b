"""Peaks of devices: bytes and operations a second, with the source, and those of the accelerator's own presets."""

from dataclasses import dataclass

from hw.config import BEAT_BYTES, BLOCK
from hw.dram.timing import SPEED_MTS

__all__ = ["CLOCK_HZ", "DEVICES", "Device", "preset_device"]

CLOCK_HZ = SPEED_MTS * 1e6 / 16
"""The controller clock: CK/2, a beat of BL16 a channel and clock."""


@dataclass(frozen=True)
class Device:
    """Peaks of a device; ``operations`` counts a multiplication and an addition as two."""

    name: str
    bandwidth: float  # bytes a second
    operations: float | None  # a second; None: not known, taken as no limit
    arithmetic: str  # what the operations are
    source: str

    @property
    def ridge(self):
        """Operations a byte from which arithmetic is the limit; None if it never is."""
        return self.operations and self.operations / self.bandwidth

    def attainable(self, intensity):
        """Operations a second at *intensity* operations a byte."""
        memory = intensity * self.bandwidth
        return memory if self.operations is None else min(self.operations, memory)


DEVICES = (
    Device("H100 SXM", 3350e9, 989.4e12, "BF16, dense",
           "NVIDIA H100 data sheet: 1,979 TFLOPS with sparsity, 3.35 TB/s"),
    Device("DGX Spark GB10", 273e9, 125e12, "BF16, dense",
           "NVIDIA DGX Spark: 1 PFLOPS FP4 with sparsity, 273 GB/s; dense half of it, FP8 half of that, BF16 again"),
    Device("Apple M4 Max", 546e9, 17.2e12, "FP32",
           "40 GPU cores x 128 units x 2 x 1.678 GHz (clock: hmc-tech.com), 546 GB/s (Apple)"),
)


def preset_device(config):
    """The accelerator of *config*: every multiplier of every slice busy.

    The pool is sized for K and V, where ``v_kv`` query heads meet a beat. A weight beat of 64 nibbles meets ``v_w``
    vectors: two rows of the pool for each.
    """
    multipliers = config.channels * config.pool_rows * BLOCK
    return Device(f"Headrace {config.name}", config.channels * BEAT_BYTES * CLOCK_HZ, 2 * multipliers * CLOCK_HZ,
                  f"{config.mantissa_bits} x 8 bit integer",
                  f"hw/config.py: {config.channels} channels, {config.pool_rows} x {BLOCK} multipliers each")
