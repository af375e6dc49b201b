"""The per-channel slice: dequantiser, multiplier pool, row accumulator and attention of one channel's beats."""
