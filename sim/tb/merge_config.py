"""Sizes of the merge under test, by number of channels."""

from hw.config import Config

__all__ = ["config"]


def config(channels):
    """Two lanes if they divide the channels; two passes at most."""
    return Config("merge", channels=channels, lanes=2 - channels % 2, v_kv=3, max_kv_heads=6, max_head_dim=128,
                  max_group=5, max_hidden=256, max_ffn=256, max_context=256)
