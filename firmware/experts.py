"""Mixture of experts: which of them a layer's tokens go through, and in which order their matrices are read.

Experts are drawn by seed when a program is compiled: nothing on the device chooses them yet.
"""

import numpy as np

__all__ = ["draw_experts", "expert_order", "one_ahead"]


def one_ahead(count, begins, ends):
    """(*begins* or *ends*, number) of *count* items in stream order: an item begins before the one ahead of it ends."""
    yield begins, 0
    for number in range(1, count):
        yield begins, number
        yield ends, number - 1
    yield ends, count - 1


def draw_experts(shape, seed):
    """Of each layer of *shape*, ``chosen`` different experts, each layer's draw by itself; () without experts."""
    if not shape.experts:
        return ()
    rng = np.random.default_rng(seed)
    return tuple(tuple(rng.choice(shape.experts, shape.chosen, replace=False).tolist()) for _ in range(shape.layers))


def expert_order(chosen):
    """(role, number) in stream order: gate and up of the next expert before down of this one, which waits for SiLU."""
    return one_ahead(chosen, "gate_up", "down")
