"""Models by name, from the facts of their config.json with the source, or from a config.json or GGUF of the user."""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from firmware.errors import UserError
from sim.gguf_facts import gguf_facts
from sim.model_shape import Experts, LatentAttention, Model
from sim.weight_types import parse_weights

__all__ = ["find_model", "model_from_config", "model_names"]

DEFAULT_WEIGHTS = "Q4_0"

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names that config.json files have for the number of routed experts."""

LIMITS = {"layers": 1024, "hidden": 1 << 20, "heads": 1 << 14, "kv_heads": 1 << 14, "head_dim": 1 << 14,
          "ffn": 1 << 22, "vocab": 1 << 24, "context": 1 << 30}
"""Largest sizes that are taken for sizes rather than for a damaged file."""


@cache
def entries():
    """The catalogue: name to source, config and, where they differ from the default, weights."""
    return json.loads((files("sim") / "data" / "models.json").read_text())


def model_names():
    """Names in the catalogue."""
    return list(entries())


def find_model(name):
    """The :class:`sim.model_shape.Model` called *name* in any case, or of the config.json or GGUF file at that path."""
    for known, entry in entries().items():
        if str(name).lower() == known.lower():
            return model_from_config(known, entry["config"], entry["source"], entry.get("weights", DEFAULT_WEIGHTS))
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".gguf":
        facts = gguf_facts(path)
        return model_from_config(facts.name, facts.config, str(path), facts.weights)
    if path.suffix == ".json":
        return model_from_config(path.parent.name or path.stem, read_config(path), str(path))
    raise UserError(f"unknown model {str(name)!r}; known: {', '.join(model_names())}; "
                    f"or give a .gguf or config.json file")


def read_config(path):
    """The object in the config.json at *path*."""
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give the path of a config.json or a GGUF file") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({str(error)[:60]}); download it again") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: not the config.json of a model; give the file of a Hugging Face model")
    return config


class Facts:
    """Typed access to a config.json, with errors that name the file and the field."""

    def __init__(self, source, config):
        self.source = source
        self._config = config

    def number(self, key, default=None):
        """A positive integer, or 0 for a *default* of 0."""
        value = self._config.get(key)
        if value is None:
            if default is None:
                raise UserError(f"{self.source}: no {key}; give the config.json of a language model")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (value == 0 and default != 0):
            raise UserError(f"{self.source}: {key} is {str(value)[:40]!r}, not a positive number; give another file")
        return value

    def flag(self, key):
        return self._config.get(key) is True

    def windowed_layers(self, layers):
        """Layers with a sliding window: as listed, or all but every n-th, or all."""
        types = self._config.get("layer_types")
        if isinstance(types, list):
            return types.count("sliding_attention")
        pattern = self.number("sliding_window_pattern", 0)
        return layers - layers // pattern if pattern else layers


def model_from_config(name, config, source, weights=DEFAULT_WEIGHTS):
    """The :class:`sim.model_shape.Model` of a config.json; :class:`UserError` if the kind of model is not known.

    *weights*: text of :func:`sim.weight_types.parse_weights`, or :class:`sim.weight_types.WeightTypes`.
    """
    config = config.get("text_config", config)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in KINDS:
        raise UserError(f"{source}: model_type {str(kind)[:40]!r} is not known; known: {', '.join(KINDS)}")
    facts = Facts(source, config)
    hidden, heads = facts.number("hidden_size"), facts.number("num_attention_heads")
    sizes = {
        "hidden": hidden, "layers": facts.number("num_hidden_layers"), "heads": heads,
        "kv_heads": facts.number("num_key_value_heads", heads),
        "head_dim": facts.number("head_dim", hidden // heads), "ffn": facts.number("intermediate_size"),
        "vocab": facts.number("vocab_size"), "context": facts.number("max_position_embeddings"),
    }
    for what, largest in LIMITS.items():
        if not 0 < sizes[what] <= largest:
            raise UserError(f"{source}: {what} is {sizes[what]}, beyond {largest}; give another file")
    if heads % sizes["kv_heads"]:
        raise UserError(f"{source}: {heads} heads don't divide among {sizes['kv_heads']} KV heads; give another file")
    window = facts.number("sliding_window", 0) if facts.flag("use_sliding_window") or kind in WINDOWED else 0
    return Model(
        name=name, source=source, kind=kind, **sizes, tied=facts.flag("tie_word_embeddings"),
        weights=parse_weights(weights) if isinstance(weights, str) else weights, window=window,
        windowed=facts.windowed_layers(sizes["layers"]) if window else 0, **KINDS[kind](facts, sizes))


def llama(facts, sizes):
    return {}


def qwen2(facts, sizes):
    return {"layer_bias": (sizes["heads"] + 2 * sizes["kv_heads"]) * sizes["head_dim"]}


def qwen3(facts, sizes):
    return {"head_norms": True}


def mixtral(facts, sizes):
    return {"experts": experts(facts, sizes["ffn"])}


def qwen3_moe(facts, sizes):
    return {"head_norms": True, "experts": experts(facts, facts.number("moe_intermediate_size"))}


def gpt_oss(facts, sizes):
    hidden, head_dim = sizes["hidden"], sizes["head_dim"]
    bias = (sizes["heads"] + 2 * sizes["kv_heads"]) * head_dim + hidden
    count = facts.number("num_local_experts")
    return {"layer_bias": bias + sizes["heads"],  # a sink for each head
            "experts": experts(facts, sizes["ffn"], bias=2 * sizes["ffn"] + hidden, router_bias=count)}


def gemma3(facts, sizes):
    return {"norms": 4, "head_norms": True}


def deepseek_v3(facts, sizes):
    count = facts.number("n_routed_experts")
    return {
        "latent": LatentAttention(*(facts.number(key) for key in (
            "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))),
        "experts": experts(facts, facts.number("moe_intermediate_size"), shared=facts.number("n_shared_experts", 0),
                           dense_layers=facts.number("first_k_dense_replace", 0), router_bias=count),
    }


def experts(facts, ffn, **more):
    """The :class:`Experts` of *facts*."""
    count = next((facts.number(key) for key in EXPERT_COUNTS if facts.number(key, 0)), 0)
    chosen = facts.number("num_experts_per_tok")
    if not chosen <= count:
        raise UserError(f"{facts.source}: {chosen} of {count} experts are chosen; give another file")
    return Experts(count, chosen, ffn, **more)


KINDS = {"llama": llama, "mistral": llama, "qwen2": qwen2, "qwen3": qwen3, "qwen3_moe": qwen3_moe, "mixtral": mixtral,
         "gpt_oss": gpt_oss, "gemma3_text": gemma3, "deepseek_v3": deepseek_v3}
"""model_type of config.json to what is special about the model."""

WINDOWED = ("mistral", "gpt_oss", "gemma3_text")
"""Kinds whose ``sliding_window`` counts without ``use_sliding_window``."""
