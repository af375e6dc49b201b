"""SiLU(gate) * up (docs/numerics.md section 8)."""

from math import e, log2

import numpy as np

from sim.golden.fp32 import add, mul
from sim.golden.functions import exp2, rcp

__all__ = ["MINUS_LOG2_E", "silu_mul"]

MINUS_LOG2_E = np.float32(-log2(e))


def silu_mul(gate, up):
    """RN(RN(gate * rcp(RN(1 + exp2(-gate log2 e)))) * up)."""
    d = add(np.float32(1), exp2(mul(gate, MINUS_LOG2_E)))
    return mul(mul(gate, rcp(d)), up)
