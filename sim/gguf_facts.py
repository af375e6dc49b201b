"""What a GGUF's header says about a model's sizes, in the words of config.json; the tensors' data is not read."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from firmware.errors import UserError
from firmware.gguf_model import FieldReader, open_reader
from sim.weight_types import WeightType, WeightTypes, weight_type

__all__ = ["GgufFacts", "gguf_facts"]

KINDS = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss",
         "gemma3": "gemma3_text", "deepseek2": "deepseek_v3"}
"""GGUF architecture to model_type."""

SIZES = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count", "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length", "max_position_embeddings": "context_length",
    "num_experts_per_tok": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
    "sliding_window": "attention.sliding_window", "n_shared_experts": "expert_shared_count",
    "first_k_dense_replace": "leading_dense_block_count", "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank", "qk_rope_head_dim": "rope.dimension_count",
}
"""Name in config.json to the architecture's GGUF field."""

PATTERNS = {"gpt-oss": 2, "gemma3": 6}
"""Every n-th layer of these sees all tokens; the files do not say so."""

TENSORS = {
    "attn_q": "q", "attn_q_a": "q", "attn_q_b": "q", "attn_k": "k", "attn_kv_a_mqa": "k", "attn_v": "v",
    "attn_k_b": "v", "attn_v_b": "v", "attn_kv_b": "v", "attn_output": "o",
    "ffn_gate": "gate_up", "ffn_up": "gate_up", "ffn_down": "down",
    "ffn_gate_shexp": "gate_up", "ffn_up_shexp": "gate_up", "ffn_down_shexp": "down", "ffn_gate_exps": "experts",
    "ffn_up_exps": "experts", "ffn_down_exps": "experts", "ffn_gate_inp": "router",
}
"""Matrix of a layer to its role."""


@dataclass(frozen=True)
class GgufFacts:
    """``config``: facts in the words of config.json; ``weights``: the types that the file's roles have."""

    name: str
    config: dict
    weights: WeightTypes


def gguf_facts(path):
    """The :class:`GgufFacts` of the file *path*; :class:`UserError` in one line if it can't be used."""
    reader = open_reader(path)
    fields = FieldReader(path, reader.fields)
    architecture = fields.get("general.architecture", str)
    if architecture not in KINDS:
        raise UserError(f"{path}: architecture {architecture} is not known; known: {', '.join(KINDS)}")
    tensors = {t.name: t for t in reader.tensors}
    if "token_embd.weight" not in tensors:
        raise UserError(f"{path}: no tensor token_embd.weight; give the first file of the model")
    config = {"model_type": KINDS[architecture], "vocab_size": int(tensors["token_embd.weight"].shape[-1]),
              "tie_word_embeddings": "output.weight" not in tensors}
    for key, field in SIZES.items():
        value = fields.get(f"{architecture}.{field}", int, -1)
        if value >= 0:
            config[key] = value
    experts = fields.get(f"{architecture}.expert_count", int, 0)
    if experts:
        config["n_routed_experts" if architecture == "deepseek2" else "num_local_experts"] = experts
        if architecture == "llama":
            config["model_type"] = "mixtral"
    if architecture in PATTERNS:
        config["sliding_window_pattern"] = PATTERNS[architecture]
    if architecture == "deepseek2":
        # Files that keep K and V absorbed give the widths of the heads apart.
        key, value = (fields.get(f"{architecture}.attention.{what}_length_mla", int, -1) for what in ("key", "value"))
        key = key if key > 0 else fields.get(f"{architecture}.attention.key_length", int)
        config["qk_nope_head_dim"] = key - config.get("qk_rope_head_dim", 0)
        config["v_head_dim"] = value if value > 0 else fields.get(f"{architecture}.attention.value_length", int)
    return GgufFacts(fields.get("general.name", str, Path(path).stem), config, role_types(tensors))


def role_types(tensors):
    """The :class:`WeightTypes` of a file: where tensors of a role differ, their mean, named by all of them."""
    by_role = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        role = TENSORS.get(parts[2]) if len(parts) == 4 and parts[3] == "weight" else None
        if name == "output.weight" or (name == "token_embd.weight" and "output.weight" not in tensors):
            role = "head"
        if role:
            by_role.setdefault(role, []).append(tensor)
    roles = {role: mean_type(found) for role, found in by_role.items()}
    default = roles.get("gate_up") or roles.get("experts") or roles["head"]
    return WeightTypes(default, {role: kind for role, kind in roles.items() if kind != default})


def mean_type(tensors):
    """The type of *tensors*, or the mean of their types."""
    sizes = {}
    for tensor in tensors:
        name = tensor.tensor_type.name
        sizes[name] = sizes.get(name, 0) + int(tensor.n_elements)
    if len(sizes) == 1:
        return weight_type(next(iter(sizes)))
    total = sum(weight_type(name).bytes * count for name, count in sizes.items())
    return WeightType("+".join(sorted(sizes)), Fraction(total, sum(sizes.values())))
