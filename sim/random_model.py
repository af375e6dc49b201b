"""Writes small llamas with random weights as GGUF files: for tests that need a shape or a type of their own."""

from dataclasses import dataclass, field

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants

__all__ = ["RandomLlama", "write_model"]

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class RandomLlama:
    """Shape and types of a random llama; the default is a small asymmetric one."""

    layers: int = 2
    hidden: int = 96
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 32
    ffn: int = 160
    vocab: int = 288
    context: int = 256
    tied: bool = True
    type: str = "Q4_1"  # of every matrix that ``types`` doesn't name
    types: dict = field(default_factory=dict)  # {"ffn_up": "Q8_0", "blk.1.ffn_down": "F16", "token_embd": "F32"}
    rope_base: float = 10000.0
    rope_dims: int | None = None
    rope_factors: tuple | None = None
    eps: float = 1e-5
    seed: int = 0

    def shapes(self):
        """Matrices by name, (rows, columns)."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = {"attn_q": (queries, self.hidden), "attn_k": (keys, self.hidden), "attn_v": (keys, self.hidden),
                 "attn_output": (self.hidden, queries), "ffn_gate": (self.ffn, self.hidden),
                 "ffn_up": (self.ffn, self.hidden), "ffn_down": (self.hidden, self.ffn)}
        outer = {"token_embd": (self.vocab, self.hidden)} | ({} if self.tied else {"output": (self.vocab, self.hidden)})
        return outer | {f"blk.{i}.{name}": shape for i in range(self.layers) for name, shape in layer.items()}


def byte_characters():
    """The printable character that byte-level BPE writes for each of the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def add_tokenizer(writer, vocab):
    """A byte-level vocabulary of special tokens, the bytes, one merge, and fillers; none if *vocab* is too small."""
    tokens = [*SPECIAL, *byte_characters(), "ab"]
    if vocab < len(tokens):
        return
    tokens += [f"<filler{i}>" for i in range(vocab - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * 257 + [5] * (vocab - len(SPECIAL) - 257))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def write_model(path, llama=RandomLlama(), **tensors):
    """Writes *llama* to *path* and returns *path*; *tensors* replaces values ("." in a name given as "__")."""
    rng = np.random.default_rng(llama.seed)
    writer = GGUFWriter(path, "llama")
    writer.add_name("random")
    writer.add_block_count(llama.layers)
    writer.add_context_length(llama.context)
    writer.add_embedding_length(llama.hidden)
    writer.add_feed_forward_length(llama.ffn)
    writer.add_head_count(llama.heads)
    writer.add_head_count_kv(llama.kv_heads)
    writer.add_key_length(llama.head_dim)
    writer.add_value_length(llama.head_dim)
    writer.add_layer_norm_rms_eps(llama.eps)
    writer.add_rope_freq_base(llama.rope_base)
    writer.add_rope_dimension_count(llama.rope_dims or llama.head_dim)
    add_tokenizer(writer, llama.vocab)

    values = {name.replace("__", "."): value for name, value in tensors.items()}

    def add(name, default, kind):
        data = np.asarray(values.get(name, default), np.float32)
        qtype = GGMLQuantizationType[kind]
        with np.errstate(all="ignore"):
            writer.add_tensor(f"{name}.weight", quants.quantize(data, qtype), raw_dtype=qtype)

    for name, (rows, columns) in llama.shapes().items():
        kind = llama.types.get(name) or llama.types.get(name.split(".")[-1]) or llama.type
        scale = 1.0 if name == "token_embd" else columns ** -0.5
        add(name, rng.standard_normal((rows, columns), np.float32) * np.float32(scale), kind)
    for name in [f"blk.{i}.{n}" for i in range(llama.layers) for n in ("attn_norm", "ffn_norm")] + ["output_norm"]:
        add(name, rng.uniform(0.5, 1.5, llama.hidden), "F32")
    if llama.rope_factors is not None:
        add("rope_freqs", llama.rope_factors, "F32")

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
