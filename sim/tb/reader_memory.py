"""Model of a channel controller's native ports, with random latency, gaps and a lazy write queue."""

from collections import deque

from cocotb import start_soon
from cocotb.triggers import RisingEdge

from hw.interfaces import ChunkCommand
from sim.streams import unpack

__all__ = ["ChannelMemory"]




class ChannelMemory:
    """Answers ``memory`` and ``write`` of *dut* from :attr:`beats`, a dict of beat address to 256-bit integer.

    A read returns what had been drained when its chunk was accepted, so a read that passes a write still queued is
    seen as stale. *stall*: probability that a port is not ready or a due beat is not issued; *latency*: clocks from
    issue to data, drawn from this range; *lazy*: writes drain only on ``flush``, when 3/4 of the queue is full, or
    once :attr:`drain_all` is set.

    Raises ``AssertionError`` on a broken stream rule, a chunk across 128 beats, a read outside :attr:`readable` (if
    given), credits beyond *credits*, and with :attr:`bounded` on beats asked for without a credit. :attr:`chunks` has
    (clock, beat, beats) of each command, :attr:`returned` the clock of each beat, :attr:`credits` those in hand.
    """

    def __init__(self, dut, rng, *, credits, beats=None, readable=None, stall=0.0, latency=(3, 12), lazy=True,
                 write_queue=16):
        self._dut, self._rng, self._stall, self._latency = dut, rng, stall, latency
        self._limit, self._write_queue = credits, write_queue
        self.beats = {} if beats is None else beats
        self.readable = readable
        self.chunks, self.returned, self.written = [], [], []
        self.drain_all = not lazy
        self.credits = credits
        self._held = {}
        self.bounded = False
        for name in ("memory__command__ready", "memory__valid", "memory__data", "write__beats__ready"):
            getattr(dut, name).value = 0
        dut.write__idle.value = 1
        start_soon(self._run())

    def _accept_chunk(self, clock, waiting):
        command = unpack(ChunkCommand, int(self._dut.memory__command__payload.value))
        beat, count = command["beat"], command["last"] + 1
        assert beat % 128 + count <= 128, f"chunk of {count} beats at {beat} crosses 128"
        self.chunks.append((clock, beat, count))
        for n in range(beat, beat + count):
            assert self.readable is None or self.readable(n), f"beat {n:#x} must not be read"
            if n not in self.beats:
                self.beats[n] = self._rng.getrandbits(256)
            waiting.append(self.beats[n])

    def _check_held(self, name, ready):
        """Valid and payload stay while a stream stalls."""
        valid = bool(getattr(self._dut, f"{name}__valid").value)
        bits = int(getattr(self._dut, f"{name}__payload").value)
        if name in self._held:
            assert valid and bits == self._held.pop(name), f"{name} changed while stalled"
        if valid and not ready:
            self._held[name] = bits

    async def _run(self):
        dut, rng = self._dut, self._rng
        waiting, flying, pending = deque(), deque(), deque()
        clock, due = 0, 0
        command_ready = write_ready = False
        while True:
            await RisingEdge(dut.clk)
            clock += 1
            if dut.rst.value:
                continue
            self._check_held("memory__command", command_ready)
            self._check_held("write__beats", write_ready)
            self.credits += int(dut.memory__credit.value)
            assert self.credits <= self._limit, f"{self.credits} credits of {self._limit}"
            if command_ready and dut.memory__command__valid.value:
                self._accept_chunk(clock, waiting)
                assert not self.bounded or len(waiting) <= self.credits, f"{len(waiting)} beats asked for"
            if waiting and self.credits and rng.random() >= self._stall:
                self.credits -= 1
                due = max(due + 1, clock + rng.randint(*self._latency))
                flying.append((due, waiting.popleft()))
            deliver = bool(flying) and flying[0][0] <= clock
            dut.memory__valid.value = deliver
            if deliver:
                dut.memory__data.value = flying.popleft()[1]
                self.returned.append(clock)

            if write_ready and dut.write__beats__valid.value:
                payload = int(dut.write__beats__payload.value)
                pending.append((payload & (1 << 27) - 1, payload >> 27))
            drain = self.drain_all or dut.memory__flush.value or len(pending) >= self._write_queue * 3 // 4
            if pending and drain and rng.random() >= self._stall:
                beat, data = pending.popleft()
                self.beats[beat] = data
                self.written.append(beat)
            dut.write__idle.value = not pending
            command_ready = len(waiting) < 1000 and rng.random() >= self._stall
            write_ready = len(pending) < self._write_queue and rng.random() >= self._stall
            dut.memory__command__ready.value = command_ready
            dut.write__beats__ready.value = write_ready
