"""The quantiser against the golden blocks: awkward values, gaps, query places, largest exponents, latency."""

import pytest

from hw.config import preset
from hw.vector.quantiser import Quantiser
from sim.bench import run_bench


@pytest.mark.parametrize("lanes, bits, v_kv, group, head_blocks, gaps", [
    (1, 12, 3, 3, 2, 0.0), (2, 8, 3, 8, 1, 0.2), (4, 16, 8, 5, 4, 0.0), (4, 9, 2, 7, 2, 0.4),
])
def test_blocks(lanes, bits, v_kv, group, head_blocks, gaps):
    config = preset("demo").override(lanes=lanes, mantissa_bits=bits, v_kv=v_kv)
    quantiser = Quantiser(config)
    run_bench(quantiser, "sim.tb.quantiser", seed=5 + lanes, args={
        "lanes": lanes, "bits": bits, "v_kv": v_kv, "kv_heads": 2, "group": group, "head_blocks": head_blocks,
        "gaps": gaps, "operands": 30, "latency": quantiser.latency})

