"""Between a channel controller and its slice: reader, KV fetch unit, prefetch FIFO, KV writer."""
