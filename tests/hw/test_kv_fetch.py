import pytest

from hw.config import preset
from sim.bench import run_bench
from sim.tb.fetch import Fetch

SMALL_PAGES = {"channels": 4, "page_slots": 4, "max_head_dim": 128}
LARGE_PAGES = {"channels": 4, "page_slots": 16, "max_head_dim": 128}
SMOOTH = {"memory_stall": 0, "source_stall": 0, "sink_stall": 0}
ROUGH = {"memory_stall": 0.2, "source_stall": 0.2, "sink_stall": 0.4}

CASES = [
    # channels, channel, first token, page override, head_blocks, kv_heads, stalls
    (1, 0, 10, SMALL_PAGES, 2, 3, SMOOTH),
    (2, 1, 21, SMALL_PAGES, 1, 2, ROUGH),
    (3, 2, 2, SMALL_PAGES, 4, 1, ROUGH),
    (3, 0, 35, LARGE_PAGES, 1, 3, SMOOTH),
    (4, 3, 0, LARGE_PAGES, 2, 2, ROUGH),
    (4, 1, 161, LARGE_PAGES, 4, 2, ROUGH),
]


@pytest.mark.parametrize("channels, channel, first, override, head_blocks, kv_heads, stalls", CASES)
def test_pages(channels, channel, first, override, head_blocks, kv_heads, stalls):
    args = {"preset": "tiny", "override": override, "channels": channels, "channel": channel, "first": first,
            "steps": 4, "layers": 2, "kv_heads": kv_heads, "head_blocks": head_blocks, **stalls}
    run_bench(Fetch(preset("tiny").override(**override)), "sim.tb.kv", seed=first + 7, args=args, test="steps")


def test_page_rate():
    run_bench(Fetch(preset("tiny").override(**SMALL_PAGES)), "sim.tb.kv", seed=1, test="page_rate",
              args={"preset": "tiny", "override": SMALL_PAGES})
