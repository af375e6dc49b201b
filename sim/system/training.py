"""A short typical run of a system, by whose profile the simulator is compiled again."""

from firmware.compiler import compile_model
from firmware.gguf_model import read_model
from firmware.image import write_image
from hw.config import BLOCK
from sim.build import run_folder
from sim.random_model import RandomLlama, write_model
from sim.system.simulator import Job, Simulator, open_store

__all__ = ["train"]

PROMPT, TOKENS = [1, 2], 2


def typical(config):
    """Two layers of SmolLM2-135M's shape, or what of it fits *config*, and a small vocabulary."""
    head_dim = min(64, config.max_head_dim, config.max_hidden)
    kv_heads = min(3, config.max_kv_heads, config.max_hidden // head_dim)
    group = min(3, config.max_group, config.max_hidden // (head_dim * kv_heads))
    return RandomLlama(
        layers=2, hidden=min(18 * BLOCK, config.max_hidden), heads=kv_heads * group,
        kv_heads=kv_heads, head_dim=head_dim, ffn=min(48 * BLOCK, config.max_ffn), vocab=1024, context=64,
        types={"token_embd": "Q8_0"})


def train(config, program):
    """Run *program*, a simulator of *config*, for some 100,000 clocks."""
    with run_folder("train") as folder:
        path = write_model(folder / "model.gguf", typical(config))
        model = read_model(path)
        layout = compile_model(model, config).layout
        write_image(model, layout, list(open_store(folder / "store", config, create=True)))
        job = Job(config, str(path), layout.context, PROMPT, TOKENS, [], model.vocab)
        with Simulator(program, job, folder) as simulator:
            simulator.finish()
