"""KV cache of one channel in Python: what is in memory and what a reader must return."""

from hw.config import preset

__all__ = ["bench_config"]


def bench_config(args):
    """The configuration that the pytest built the bench's component with."""
    return preset(args["preset"]).override(**args.get("override", {}))
