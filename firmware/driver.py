"""Driver: loads a compiled model and runs steps, over any transport."""

from dataclasses import dataclass

import numpy as np

from firmware.errors import UserError
from firmware.image import write_image
from firmware.program import words_of
from hw.config import BEAT_BYTES
from hw.host.register_map import COUNTERS, register_map
from hw.sequencer.control import ACCESS_WORDS, EXECUTE_WORDS, Fault, Wait

__all__ = ["Counters", "DeviceError", "Driver", "Run", "explain"]

REMEDIES = {
    Fault.OPCODE: "it is no opcode: write the programs again, of a compiler for this version",
    Fault.CONDITION: "it has no such condition: write the programs again, of a compiler for this version",
    Fault.LOOP: "loops must have layers, an end, and no loop inside: compile the program again",
    Fault.OVERRUN: "the program has no END: write all of it",
    Fault.SETTINGS: "ask for one step or more, several only with head, from a position inside the context",
    Fault.FIELD: "it has no such weight format, row scale or KV head: write programs and registers again, of a "
                 "compiler for this version",
    Fault.ADDRESS: "its beats are not inside the channel's memory, or its position not inside the context: check base, "
                   "stride, beats, token and position",
    Fault.TABLE: "a block table entry names a page past the memory: load the block tables again, check kv_base",
    Fault.FENCE: "the slice waits for an operand that no vector record brings: check take_fence of the execute program",
    Fault.WATCHDOG: "no slice has moved for the clocks of register watchdog: check that both programs name the same "
                    "beats and rows, or raise watchdog",
    Fault.LEFTOVER: "beats, results or operands were left that no record took: check that both programs name the same "
                    "beats and rows",
    Fault.LOGITS: "logits would be written past the memory: check logits_base",
}


class DeviceError(Exception):
    """The accelerator is not the one expected, or reports an error.

    ``error``: the fields of register error, if it is that.
    """

    def __init__(self, message, error=None):
        super().__init__(message)
        self.error = error


@dataclass(frozen=True)
class Counters:
    """Clocks of a run, from its start to its last argmax (or its end, without head), and channel clocks by cause."""

    clocks: int
    causes: dict

    def __add__(self, other):
        causes = {name: self.causes[name] + other.causes[name] for name in self.causes}
        return Counters(self.clocks + other.clocks, causes)

    @classmethod
    def zero(cls):
        """Nothing counted."""
        return cls(0, dict.fromkeys(COUNTERS[1:], 0))


@dataclass(frozen=True)
class Run:
    """What a run gave: the argmax of each step with head, and its counters."""

    tokens: list
    counters: Counters


class Driver:
    """One accelerator of configuration *config* behind *transport*. Await :meth:`connect` first, then :meth:`load`."""

    def __init__(self, transport, config):
        self.transport = transport
        self.config = config
        self.compiled = None
        self._map = register_map()

    async def connect(self):
        """Check that the accelerator is what *config* says, and wait until its memory is initialised."""
        for name in ("id", "version"):
            register = self._map[name]
            fields, want = await self.read(name), {f: field.reset for f, field in register.fields.items()}
            if fields != want:
                raise DeviceError(f"register {name} reads {fields}, not {want}: this is not a Headrace of this version")
        config = self.config
        built = await self.read("build")
        want = {name: getattr(config, name) for name in ("channels", "lanes", "v_kv", "mantissa_bits")}
        if built != want:
            raise DeviceError(f"the accelerator was built with {built}, preset {config.name} has {want}")
        while not (await self.read("status"))["ready"]:
            pass

    async def read(self, name):
        """Field values of a register; a 64-bit one is read low word first."""
        register = self._map[name]
        value = 0
        for part in range(register.bits // 32):
            value |= await self.transport.read_register(register.address + 4 * part) << (32 * part)
        return register.unpack(value)

    async def write(self, name, **fields):
        """Write a register: the named fields, 0 in the others."""
        register = self._map[name]
        await self.transport.write_register(register.address, register.pack(**fields))

    async def load(self, compiled, model, seed=0):
        """Bring *model* into memory, and its programs and shape into the accelerator. *seed*: order of the KV pages."""
        layout = compiled.layout

        def fill(images):
            write_image(model, layout, images, seed)

        await self.transport.load(self.config.channels, layout.end, fill)
        await self.configure(compiled)

    async def configure(self, compiled):
        """Write the programs and the model's registers; the memory is filled already."""
        programs = (("access_program", words_of(compiled.program.access, ACCESS_WORDS)),
                    ("execute_program", words_of(compiled.program.execute, EXECUTE_WORDS)))
        for name, words in programs:
            base = self._map.windows[name].address
            for number, word in enumerate(words):
                await self.transport.write_register(base + 4 * number, word)
        for name, fields in compiled.registers.items():
            await self.write(name, **fields)
        await self.write("interrupt_enable", done=1, error=1, token=1)
        self.compiled = compiled

    async def run(self, token, position, steps=1, *, head=True, logits=False, stop=None, on_token=None):
        """Run *steps* steps, the first with *token* at *position*; each next one takes the argmax of the one before.

        Without *head* there is one step and no token. *logits*: write logits to memory (of the last step, in the end).
        *stop*: end after this token. *on_token* is called with each token as it comes. Returns a :class:`Run`.

        An error of the accelerator raises :class:`DeviceError` after an :meth:`abort`, so that the next run may follow.
        """
        await self.start(token, position, steps, head=head, logits=logits, stop=stop)
        tokens, ended = [], False
        while not ended:
            await self.transport.wait_interrupt()
            events = await self.read("interrupt_status")
            await self.write("interrupt_status", **events)
            if events["error"]:
                error = await self.read("error")
                await self.abort()
                raise DeviceError(explain(error), error)
            ended = events["done"]
            while events["token"] and (item := await self.read("tokens"))["valid"]:
                tokens.append(item["token"])
                if on_token is not None:
                    on_token(item["token"])
        return Run(tokens, await self.counters())

    async def start(self, token, position, steps=1, *, head=True, logits=False, stop=None):
        """Start a run, as for :meth:`run`, and don't wait for its end."""
        end = position + steps
        if end > self.compiled.layout.context:
            raise UserError(f"{end} tokens are more than the context of {self.compiled.layout.context}: shorten the "
                            "prompt or generate less")
        slot, channel = divmod(position, self.config.channels)
        await self.write("step_token", token=token)
        await self.write("step_slot", slot=slot)
        await self.write("step_channel", channel=channel)
        await self.write("step_count", steps=steps)
        await self.write("step_flags", head=int(head), logits=int(logits), stop_enable=int(stop is not None))
        await self.write("stop_token", token=stop or 0)
        await self.write("interrupt_status", done=1, error=1, token=1)
        await self.write("control", start=1, clear_counters=1)

    async def counters(self):
        """Counters since the start of the last run."""
        values = {name: (await self.read(name))["count"] for name in COUNTERS}
        return Counters(values.pop("clocks"), values)

    async def logits(self):
        """Logits (vocab,) float32 that the last step wrote to memory."""
        layout = self.compiled.layout
        beats = [await self.transport.read_memory(channel, layout.logits_base, layout.logits_beats)
                 for channel in range(self.config.channels)]
        values = np.stack([part.reshape(-1, BEAT_BYTES) for part in beats], axis=1).reshape(-1).view("<f4")
        return values[:layout.shape.vocab].astype(np.float32)

    async def abort(self):
        """Drop a run with its tokens, and wait until the accelerator is idle; the next run may follow."""
        await self.write("control", abort=1)
        while (await self.read("status"))["busy"]:
            pass
        await self.write("interrupt_status", done=1, error=1, token=1)


def explain(error):
    """The fields of register error as one line: what, where, and what to do."""
    fault = Fault(error["fault"])
    if fault is Fault.NONE:
        return ("the vector unit met an infinity or NaN: the model's weights or its norms are out of range, or memory "
                "was overwritten; load the model again")
    if fault in (Fault.SETTINGS, Fault.LEFTOVER, Fault.LOGITS):
        where = "run"
    elif fault is Fault.TABLE:
        where = f"channel {error['channel']}"
    elif fault in (Fault.FENCE, Fault.WATCHDOG):
        where = f"slice of channel {error['channel']}, waiting for {Wait(error['wait']).name.lower()}"
    else:
        where = f"{'execute' if error['execute'] else 'access'} engine, record {error['record']}"
    return f"{where}: {fault.name.lower()}: {REMEDIES[fault]}"
