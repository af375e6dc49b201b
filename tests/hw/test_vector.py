"""The vector unit, behind its gathers, against the golden functions: whole steps of made-up models."""

import pytest
from amaranth.hdl import Cat, Module, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from hw.config import preset
from hw.interfaces import BEAT, accumulator_bits
from hw.vector.gather import Gather
from hw.vector.unit import VectorUnit
from sim.bench import run_bench


class GatheredVectorUnit(Component):
    """A vector unit with streams of single results and beats, one a channel; ``taken`` when it takes results, beats,
    merged."""

    def __init__(self, config):
        self._config = config
        self._unit = VectorUnit(config)
        results, beats = signed(accumulator_bits(config)), BEAT
        members = dict(self._unit.signature.members)
        members["results"] = In(stream.Signature(results)).array(config.channels)
        members["beats"] = In(stream.Signature(beats)).array(config.channels)
        super().__init__({**members, "taken": Out(3)})

    def elaborate(self, platform):
        m = Module()
        config, unit = self._config, self._unit
        m.submodules.unit = unit
        m.submodules.results = results = Gather(signed(accumulator_bits(config)), config.channels, config.lanes)
        m.submodules.beats = beats = Gather(BEAT, config.channels)
        for n in range(config.channels):
            connect(m, flipped(self.results[n]), results.i[n])
            connect(m, flipped(self.beats[n]), beats.i[n])
        connect(m, results.o, unit.results)
        m.d.comb += [
            unit.beats.valid.eq(beats.o.valid), unit.beats.payload.eq(beats.o.payload[0]),
            beats.o.ready.eq(unit.beats.ready),
            self.taken.eq(Cat(s.valid & s.ready for s in (unit.results, unit.beats, unit.merged))),
        ]
        for name, member in unit.signature.members.items():
            if name in ("results", "beats"):
                continue
            if member.is_port:
                outer, inner = getattr(self, name), getattr(unit, name)
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
            elif name in ("records", "merged"):
                connect(m, flipped(getattr(self, name)), getattr(unit, name))
            else:
                connect(m, getattr(unit, name), flipped(getattr(self, name)))
        return m


SHAPES = {
    "smol": (dict(channels=4, lanes=1, v_kv=3),
             dict(hidden=96, ffn=160, kv_heads=2, group=3, head_blocks=2, vocabulary=203, router=5)),
    "three_channels": (dict(channels=3, lanes=1, v_kv=2, mantissa_bits=9),
                       dict(hidden=32, ffn=32, kv_heads=3, group=1, head_blocks=1, vocabulary=100, router=3)),
    "two_lanes": (dict(channels=6, lanes=2, v_kv=3),
                  dict(hidden=160, ffn=96, kv_heads=1, group=8, head_blocks=2, vocabulary=77, router=7)),
    "four_lanes": (dict(channels=8, lanes=4, v_kv=2, mantissa_bits=16),
                   dict(hidden=96, ffn=64, kv_heads=2, group=3, head_blocks=4, vocabulary=301, router=8)),
    "four_lanes_small": (dict(channels=4, lanes=4, v_kv=3),
                         dict(hidden=32, ffn=32, kv_heads=1, group=1, head_blocks=1, vocabulary=39, router=1)),
}

LATENCY = {"EMBED": 11, "QUERY": 17, "KEY": 17, "VALUE": 17, "ATTENTION": 10, "RESIDUAL": 14, "GLU": 25, "HEAD": 8}
"""Clocks, as :class:`VectorUnit` states them."""


@pytest.mark.parametrize("stall", [0, 0.3])
@pytest.mark.parametrize("name", SHAPES)
def test_steps(name, stall):
    changes, model = SHAPES[name]
    config = preset("demo").override(**changes)
    shape = {**model, "channels": config.channels, "lanes": config.lanes, "v_kv": config.v_kv,
             "mantissa_bits": config.mantissa_bits, "accumulator_bits": accumulator_bits(config)}
    run_bench(GatheredVectorUnit(config), "sim.tb.vector", seed=11 + bool(stall), test="equals_golden", args={
        "config": changes, "shape": shape, "stall": stall, "logits": int(stall > 0), "latency": LATENCY})


def test_error_flag():
    changes, _ = SHAPES["three_channels"]
    config = preset("demo").override(**changes)
    run_bench(GatheredVectorUnit(config), "sim.tb.vector", test="flags_overflow",
              args={"shape": {"channels": config.channels}})
