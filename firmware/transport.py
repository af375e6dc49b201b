"""How the driver reaches an accelerator: registers, memory, interrupt. Simulation and hardware implement it."""

from abc import ABC, abstractmethod

import numpy as np

from hw.config import BEAT_BYTES

__all__ = ["Transport"]


class Transport(ABC):
    """One accelerator. Addresses of registers are bytes; memory is addressed by channel and beat (32 bytes)."""

    load_method = "axi4"
    """How :meth:`load` fills the memory, for reports: ``axi4``, or ``backdoor`` where it writes the storage itself."""

    @abstractmethod
    async def read_register(self, address):
        """The 32-bit word at *address*."""

    @abstractmethod
    async def write_register(self, address, value):
        """Write a 32-bit word."""

    @abstractmethod
    async def read_memory(self, channel, beat, beats):
        """Bytes of *beats* beats from *beat* on, as a uint8 array."""

    @abstractmethod
    async def write_memory(self, channel, beat, data):
        """Write a uint8 array of whole beats from *beat* on."""

    @abstractmethod
    async def wait_interrupt(self):
        """Return when the interrupt line is high; at once if it is."""

    async def load(self, channels, beats, fill):
        """Fill the first *beats* beats of every channel.

        *fill* is called with a list of one writable uint8 array a channel. A transport that can reach the storage
        overrides this and passes views of it.
        """
        images = [np.zeros(beats * BEAT_BYTES, np.uint8) for _ in range(channels)]
        fill(images)
        for channel, image in enumerate(images):
            await self.write_memory(channel, 0, image)
