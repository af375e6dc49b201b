"""A model run on the simulated system and set beside the golden model; for tests and benches on token ids."""

from dataclasses import dataclass

import numpy as np

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from firmware.image import write_image
from hw.config import BEAT_BYTES
from sim.build import run_folder
from sim.golden.model import GoldenModel
from sim.losses.decode import Losses, measured_losses
from sim.losses.log import read_log
from sim.system.model import system_program
from sim.system.simulator import Job, Simulator, open_store

__all__ = ["Checked", "run_checked"]


@dataclass(frozen=True)
class Checked:
    """Tokens and logits of a run and of the golden model, and the run's result (:mod:`sim.system.session`)."""

    tokens: list
    logits: np.ndarray  # (tokens, vocabulary) float32
    golden_tokens: list
    golden_logits: np.ndarray
    result: dict
    losses: Losses | None  # of the decode steps; to the clock those of the performance counters
    image_equal: bool  # weights, vectors and tables in the memories are those of a direct load, and read back so

    @property
    def equal(self):
        """Equal tokens and equal bits of all logits."""
        return self.tokens == self.golden_tokens and self.logits.tobytes() == self.golden_logits.tobytes()


def run_checked(path, config, prompt, count, *, context=None, seed=0, load="backdoor", sampling=None, **system):
    """Decode *count* tokens greedily after the token ids *prompt* with the GGUF *path* on the system of *config*.

    *seed*: order of the KV pages. *load*: how the model comes to memory, ``backdoor`` or ``axi4``.
    *sampling*: fields of :class:`firmware.engine.Sampling` that always choose the likeliest token (top_k 1); logits
    then go through memory. *system*: arguments of :func:`sim.system.model.system_program`.
    """
    model = read_model(path)
    compiled = compile_model(model, config, context)
    layout = compiled.layout
    program = system_program(config, memory_port=load == "axi4", **system)
    job = Job(config, str(path), layout.context, list(prompt), count, [], model.vocab, sampling, load=load,
              seed=seed)
    with run_folder("check") as folder:
        store = open_store(f"{folder}/store", config, create=True)
        image = np.zeros((config.channels, layout.end * BEAT_BYTES), np.uint8)
        write_image(model, layout, list(image), seed)
        if load == "backdoor":
            store[:, :image.shape[1]] = image
        with Simulator(program, job, folder) as simulator:
            result = simulator.finish()
            logits = simulator.logits(len(result["tokens"]), model.vocab)
        logs = read_log(simulator.losses, config.channels)
        fixed = layout.kv_base * BEAT_BYTES
        back = bytes.fromhex(result["read_back"])
        image_equal = np.array_equal(store[:, :fixed], image[:, :fixed]) and image[-1].tobytes().startswith(back)
    golden = list(GoldenModel(model, config.mantissa_bits).generate(prompt, count))
    golden_tokens, golden_logits = zip(*golden, strict=True)
    losses = measured_losses(logs[len(prompt):], compiled, len(prompt), result["decode_steps"], result["causes"])
    return Checked(result["tokens"], logits, list(golden_tokens), np.stack(golden_logits), result, losses, image_equal)
