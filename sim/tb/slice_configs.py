"""Sizes of the slices under test."""

from hw.config import Config

__all__ = ["CONFIGS"]

CONFIGS = {
    config.name: config
    for config in (
        Config("grouped", channels=4, lanes=2, v_kv=3, page_slots=16, max_hidden=256, max_ffn=512, max_kv_heads=4,
               max_head_dim=128, max_group=8, max_context=256),
        Config("single", channels=3, lanes=1, v_kv=1, mantissa_bits=16, page_slots=4, max_hidden=256, max_ffn=256,
               max_kv_heads=4, max_head_dim=32, max_group=2, max_context=192),
    )
}
"""``grouped``: three passes, four blocks a head, exponents of a page in up to two beats. ``single``: fewer query
heads a clock than pool rows, one block a head, the widest mantissas, pages that fill an eighth of an exponent beat.
"""
