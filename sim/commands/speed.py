"""Speed of the simulation: a short answer in cocotb, then the same register accesses in a bare loop of that model."""

import json
import os
import subprocess

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from firmware.image import write_image
from firmware.tokenizer import Tokenizer
from sim.build import run_folder
from sim.commands.progress import working
from sim.model_fetch import smollm2
from sim.system.model import system_program
from sim.system.simulator import Job, SimulationError, Simulator, open_store, store_environment

__all__ = ["run"]

PROMPT, TOKENS = "Hi", 3


def run(config, console):
    """Figures: simulated clocks, and clocks a second of either way."""
    path = smollm2(console.print)
    model = read_model(path)
    layout = compile_model(model, config).layout
    prompt = Tokenizer(model.tokenizer).encode(PROMPT)
    with working(console, "generating and compiling the design (minutes, once)"):
        program = system_program(config, trained=True)
    job = Job(config, str(path), layout.context, prompt, TOKENS, [], model.vocab, record_replay=True)
    with run_folder("speed") as folder:
        store = open_store(folder / "store", config, create=True)
        write_image(model, layout, list(store))
        with working(console, "in cocotb"), Simulator(program, job, folder) as simulator:
            result = simulator.finish()
        with working(console, "in the bare loop"):
            bare = run_bare(program, config, folder)
    rate = result["clocks"] / result["host_seconds"]
    return {"preset": config.name, "clocks": result["clocks"], "host_seconds": result["host_seconds"],
            "clocks_per_host_second": rate,
            "host_seconds_per_token": result["decode_clocks"] / result["decode_steps"] / rate,
            "bare_clocks": bare["clocks"], "bare_host_seconds": bare["seconds"],
            "bare_clocks_per_host_second": bare["clocks"] / bare["seconds"]}


def run_bare(program, config, folder):
    """Clocks and seconds of the bare loop over the run recorded in *folder*."""
    environment = {**os.environ, **store_environment(folder / "store", config)}
    done = subprocess.run([program, "--bare", folder / "replay"], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SimulationError(f"the bare loop failed: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])
