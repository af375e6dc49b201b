"""Host software: GGUF, tokenizer, memory layout, compiler and driver. Knows no simulator."""
