"""A stand-in for the accelerator: the register map in front of the program model, without clocks."""

import numpy as np

from firmware.program import Program
from firmware.transport import Transport
from hw.config import BEAT_BYTES
from hw.host.register_map import FieldKind, register_map
from hw.isa import AccessRecord, ExecuteRecord
from hw.sequencer.control import ACCESS_WORDS, EXECUTE_WORDS, Fault
from sim.program_model import ProgramModel

__all__ = ["ModelDevice"]


class ModelDevice(Transport):
    """An accelerator of *config*: a started run is over at once; its counters stay 0.

    *images*, the channels' memories, appear with the first load; ``starts`` are the settings of all runs so far.
    """

    load_method = "backdoor"

    def __init__(self, config):
        self.config = config
        self.images = []
        self.starts = []
        self._map = register_map()
        self._values = {name: 0 for name in self._map.registers}
        self._programs = {name: np.zeros(window.words, np.uint32) for name, window in self._map.windows.items()}
        self._tokens = []
        self._model = None
        self._values["status"] = self._map["status"].pack(ready=1)
        self._values["build"] = self._map["build"].pack(
            channels=config.channels, lanes=config.lanes, v_kv=config.v_kv, mantissa_bits=config.mantissa_bits)
        for name, register in self._map.registers.items():
            constants = {f: d.reset for f, d in register.fields.items() if d.kind is FieldKind.CONSTANT}
            self._values[name] |= register.pack(**constants)

    async def read_register(self, address):
        for name, register in self._map.registers.items():
            part = address - register.address
            if 0 <= part < register.bits // 8:
                if name == "tokens":
                    token = self._tokens.pop(0) if self._tokens else None
                    return 0 if token is None else register.pack(token=token, valid=1)
                return self._values[name] >> (8 * part) & 0xFFFFFFFF
        raise ValueError(f"no register at {address:#x}")

    async def write_register(self, address, value):
        for name, window in self._map.windows.items():
            if 0 <= address - window.address < 4 * window.words:
                self._programs[name][(address - window.address) // 4] = value
                self._model = None
                return
        name = next(n for n, register in self._map.registers.items() if register.address == address)
        if name == "interrupt_status":
            self._values[name] &= ~value
        elif name == "control":
            if self._map[name].unpack(value)["start"]:
                self._run()
        else:
            self._values[name] = value

    async def read_memory(self, channel, beat, beats):
        return self.images[channel][beat * BEAT_BYTES:(beat + beats) * BEAT_BYTES].copy()

    async def write_memory(self, channel, beat, data):
        self.images[channel][beat * BEAT_BYTES:beat * BEAT_BYTES + data.size] = data

    async def load(self, channels, beats, fill):
        self.images = [np.zeros(beats * BEAT_BYTES, np.uint8) for _ in range(channels)]
        fill(self.images)

    async def wait_interrupt(self):
        if not self._values["interrupt_status"] & self._values["interrupt_enable"]:
            raise RuntimeError("waiting for an interrupt that never comes")

    def _fields(self, name):
        return self._map[name].unpack(self._values[name])

    def _event(self, name):
        self._values["interrupt_status"] |= self._map["interrupt_status"].pack(**{name: 1})

    def _run(self):
        flags = self._fields("step_flags")
        steps, token = self._fields("step_count")["steps"], self._fields("step_token")["token"]
        position = self._fields("step_slot")["slot"] * self.config.channels + self._fields("step_channel")["channel"]
        stop = self._fields("stop_token")["token"]
        self.starts.append({"token": token, "position": position, "steps": steps, **flags})
        if not steps or (steps > 1 and not flags["head"]):
            self._values["error"] = self._map["error"].pack(fault=Fault.SETTINGS.value)
            self._event("error")
            return
        if self._model is None:
            self._model = ProgramModel(self.config, self.images, self._program(),
                                       {name: self._fields(name) for name in self._map.registers})
        for step in range(steps):
            logits = self._model.step(token, position + step, bool(flags["head"]))
            if logits is None:
                break
            token = int(np.argmax(logits))
            if flags["logits"]:
                self._store(logits)
            self._tokens.append(token)
            self._event("token")
            if flags["stop_enable"] and token == stop:
                break
        self._event("done")

    def _program(self):
        def records(name, layout, words):
            groups = self._programs[name].reshape(-1, words)
            values = (sum(int(word) << (32 * n) for n, word in enumerate(group)) for group in groups)
            return tuple(layout.from_bits(value & ((1 << layout.size) - 1)) for value in values)

        return Program(records("access_program", AccessRecord, ACCESS_WORDS),
                       records("execute_program", ExecuteRecord, EXECUTE_WORDS))

    def _store(self, logits):
        base, channels = self._fields("logits_base")["beat"], self.config.channels
        for number, start in enumerate(range(0, len(logits), BEAT_BYTES // 4)):
            data = logits[start:start + BEAT_BYTES // 4].view(np.uint8)
            at = (base + number // channels) * BEAT_BYTES
            self.images[number % channels][at:at + data.size] = data
