"""The golden model in a process beside the simulation.

Run as a program it reads a task (JSON) from standard input and writes ``tokens`` and ``logits`` to an ``.npz`` file.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from firmware.gguf_model import read_model
from sim.golden.model import GoldenModel

__all__ = ["GoldenRun"]


class GoldenRun:
    """Golden answer to the token ids *prompt*: greedy, up to *count* tokens or one of *stop*; or along given *tokens*.

    Starts at once; :meth:`outcome` waits. Leaving the context ends it. *folder* takes its output.
    """

    def __init__(self, folder, model, mantissa_bits, prompt, *, count=0, stop=(), tokens=None):
        self._output = Path(folder) / "golden.npz"
        task = {"model": str(model), "mantissa_bits": mantissa_bits, "prompt": prompt, "count": count,
                "stop": list(stop), "tokens": tokens, "output": str(self._output)}
        # A session of its own: Ctrl-C reaches this process, which then ends the other.
        # -P: a folder named sim where the user stands is not ours.
        self._process = subprocess.Popen([sys.executable, "-P", "-m", "sim.commands.golden_run"], stdin=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, start_new_session=True)
        self._process.stdin.write(json.dumps(task))
        self._process.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stderr.close()

    def outcome(self):
        """(tokens, logits): a list, and float32 (tokens, vocabulary)."""
        errors = self._process.stderr.read()
        if self._process.wait():
            raise RuntimeError(f"the golden model failed\n{errors}")
        with np.load(self._output) as arrays:
            return arrays["tokens"].tolist(), arrays["logits"]


def answer(model, mantissa_bits, prompt, count, stop, tokens):
    """(tokens, logits) as :meth:`GoldenRun.outcome` gives them."""
    golden = GoldenModel(read_model(model), mantissa_bits)
    if tokens is None:
        steps = list(golden.generate(prompt, count, stop))
        return [token for token, _ in steps], np.stack([logits for _, logits in steps])
    if len(prompt) > 1:
        golden.forward(prompt[:-1], head=False)
    return tokens, np.stack([golden.step(token) for token in [prompt[-1], *tokens[:-1]]])


def main():
    task = json.load(sys.stdin)
    output = task.pop("output")
    tokens, logits = answer(**task)
    np.savez(output, tokens=np.array(tokens), logits=logits)


if __name__ == "__main__":
    main()
