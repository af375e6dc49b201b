"""The prefetch FIFO keeps every beat and its order, and credits keep it from overflowing."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import Component, In

from hw.config import Config
from hw.fetch.fifo import BeatFifo, PrefetchFifo, scale_depth
from sim.formal.peek import Opened
from sim.formal.property import always, every

__all__ = ["CreditProof", "FifoProof"]


class FifoProof(Component):
    """:class:`hw.fetch.fifo.BeatFifo`: the beat taken in at any chosen time comes out once, unchanged, after exactly
    those before it. The sender leaves no more than *depth* beats in it."""

    def __init__(self, depth, bits):
        self._depth, self._bits = depth, bits
        super().__init__({"valid": In(1), "data": In(bits), "ready": In(1), "choose": In(1)})

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        m.submodules.fifo = part = Opened(BeatFifo(depth, self._bits))
        ports = part.ports
        level, head, tail, pop = part["level"], part["head"], part["tail"], ports.pop
        m.d.comb += [ports.valid.eq(self.valid), ports.data.eq(self.data), ports.o.ready.eq(self.ready)]
        always(m, "assumed_room", ~self.valid | (level < depth) | pop, assume=True)

        # One beat: it waits behind *ahead* others, in the place that the tail had.
        waits, chosen = Signal(), Signal()
        ahead, place, beat = Signal(range(depth + 1)), Signal(range(depth)), Signal(self._bits)
        m.d.comb += chosen.eq(self.choose & self.valid & ~waits)
        with m.If(chosen):
            m.d.sync += [waits.eq(1), ahead.eq(level - pop), place.eq(tail), beat.eq(self.data)]
        with m.Elif(waits & pop):
            m.d.sync += [waits.eq(ahead != 0), ahead.eq(ahead - 1)]
        always(m, "beat_comes_out", ~(waits & pop & (ahead == 0)) | (ports.o.payload == beat))
        always(m, "beat_is_not_lost", ~waits | ports.o.valid)
        memory = part.rows("memory")
        used, distance = Signal(range(2 * depth)), Signal(range(2 * depth))
        m.d.comb += [used.eq(Mux(tail >= head, tail - head, tail + depth - head)),
                     distance.eq(Mux(place >= head, place - head, place + depth - head))]
        always(m, "invariant_fifo", every(
            [(head < depth) & (tail < depth) & (place < depth)], [level <= depth],
            [used == level, (used == 0) & (level == depth)],
            [~waits, (memory[place] == beat) & (ahead < level) & (distance == ahead)],
            [level == 0, ports.o.payload == memory[head]],
        ))
        return m


class CreditProof(Component):
    """:class:`hw.fetch.fifo.PrefetchFifo` behind a sender with ``fifo_beats`` credits whose beats take any time: the
    data FIFO never overflows, and credits, beats on the way and entries always sum to ``fifo_beats``.

    That the scale FIFO is deep enough is a property of access programs (:func:`hw.fetch.fifo.scale_depth`): assumed.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({"issue": In(1), "arrive": In(1), "scale": In(1), "take_data": In(1), "take_scale": In(1)})

    def elaborate(self, platform):
        m = Module()
        beats = self._config.fifo_beats
        m.submodules.fifo = part = Opened(PrefetchFifo(self._config))
        ports, data, scales = part.ports, part.parts["data"], part.parts["scales"]
        credits, on_way = Signal(range(beats + 1), init=beats), Signal(range(beats + 1))
        issued, arrived = Signal(), Signal()
        m.d.comb += [
            issued.eq(self.issue & (credits != 0)), arrived.eq(self.arrive & (on_way != 0)),
            ports.i.valid.eq(arrived), ports.i.scale.eq(self.scale),
            ports.data.ready.eq(self.take_data), ports.scales.ready.eq(self.take_scale),
        ]
        # As hw.dram.columns counts: the credit of this clock is seen in the next.
        m.d.sync += [credits.eq(credits + ports.i.credit - issued), on_way.eq(on_way + issued - arrived)]
        room = scale_depth(self._config)
        always(m, "assumed_scales", ~(arrived & self.scale) | (scales["level"] < room), assume=True)
        always(m, "credits", every(
            [credits + on_way + data["level"] + scales["level"] + ports.i.credit == beats], [data["level"] <= beats],
            [~(arrived & ~self.scale), data["level"] < beats], [scales["level"] <= room],
        ))
        return m
