"""How near the golden model's next-token distributions are to the float reference, on texts fixed in the repository."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firmware.tokenizer import Tokenizer
from sim.golden.model import GoldenModel
from sim.llama import Llama

__all__ = ["KL_LIMIT", "POSITIONS", "TOP1_LIMIT", "Comparison", "compare", "fidelity", "texts"]

POSITIONS = 200
"""Fewest consecutive positions of each text."""

KL_LIMIT = 0.002
"""Largest allowed mean divergence, nats."""

TOP1_LIMIT = 0.97
"""Smallest allowed share of positions where both models prefer the same token."""


@dataclass(frozen=True)
class Comparison:
    """Divergence KL(reference || golden) in nats and agreement of the first choice, one entry a position."""

    kl: np.ndarray
    agree: np.ndarray


def texts():
    """The fixed texts by name."""
    files = sorted((Path(__file__).parent / "texts").glob("*.txt"))
    return {f.stem: f.read_text(encoding="utf-8").strip() for f in files}


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def compare(reference, logits):
    """:class:`Comparison` of two runs of logits (positions, vocab)."""
    p, q = log_softmax(reference), log_softmax(logits)
    return Comparison((np.exp(p) * (p - q)).sum(axis=-1), reference.argmax(axis=-1) == logits.argmax(axis=-1))


def fidelity(model, mantissa_bits=12):
    """Figures over all positions of all texts: {top1, kl_mean, kl_max, positions, mantissa_bits, texts, ok}.

    ``texts`` has the figures of each text; ``ok`` says that every text is long enough and keeps within the limits of
    divergence and agreement. A text is cut at the model's context.
    """
    tokenizer = Tokenizer(model.tokenizer)
    golden, reference = GoldenModel(model, mantissa_bits), Llama(model)
    parts = {}
    for name, text in texts().items():
        tokens = tokenizer.encode(text)[:model.context]
        golden.reset()
        reference.reset()
        parts[name] = compare(reference.forward(tokens), golden.forward(tokens))
    whole = Comparison(*(np.concatenate([getattr(p, field) for p in parts.values()]) for field in ("kl", "agree")))

    def figures(comparison):
        return {"top1": float(comparison.agree.mean()), "kl_mean": float(comparison.kl.mean()),
                "kl_max": float(comparison.kl.max()), "positions": len(comparison.kl)}

    each = {name: figures(part) for name, part in parts.items()}
    ok = all(
        f["positions"] >= POSITIONS and f["kl_mean"] <= KL_LIMIT and f["top1"] >= TOP1_LIMIT for f in each.values())
    return figures(whole) | {"mantissa_bits": mantissa_bits, "texts": each, "ok": ok}
