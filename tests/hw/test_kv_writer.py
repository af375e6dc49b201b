import pytest

from hw.config import preset
from sim.bench import run_bench
from sim.tb.fetch import Fetch

PAGES_OF_4 = {"channels": 4, "page_slots": 4, "max_head_dim": 128}
PAGES_OF_16 = {"channels": 4, "page_slots": 16, "max_head_dim": 128}

CASES = [
    # channels, channel, first token, steps, page override, head_blocks, kv_heads, layers, stall of memory, lazy writes
    (1, 0, 0, 18, PAGES_OF_16, 4, 2, 1, 0.1, True),  # fresh exponent beats at slots 0, 8 and 16
    (1, 0, 0, 9, PAGES_OF_4, 1, 8, 2, 0.5, True),  # most heads, slow writes
    (2, 0, 5, 8, PAGES_OF_4, 2, 3, 3, 0.2, False),
    (3, 1, 0, 9, PAGES_OF_16, 2, 1, 2, 0.2, True),
]


@pytest.mark.parametrize("channels, channel, first, steps, override, head_blocks, kv_heads, layers, stall, lazy", CASES)
def test_steps(channels, channel, first, steps, override, head_blocks, kv_heads, layers, stall, lazy):
    args = {"preset": "tiny", "override": override, "channels": channels, "channel": channel, "first": first,
            "steps": steps, "layers": layers, "kv_heads": kv_heads, "head_blocks": head_blocks, "memory_stall": stall,
            "source_stall": 0.1, "sink_stall": 0.1, "lazy": lazy}
    run_bench(Fetch(preset("tiny").override(**override)), "sim.tb.kv", seed=23, args=args, test="steps")
