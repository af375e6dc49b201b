"""The golden model: docs/numerics.md in NumPy, bit for bit, knowing nothing of the hardware.

    fixed       rounding and saturation of integers
    fp32        binary32 with small values flushed to zero
    block       block floating point: operands, K and V
    matrix      matrix times vector on GGUF codes
    functions   rcp, rsqrt, exp2 and the softmax numerator
    norm        RMS norm, split round the matrix
    rope        rotary position embedding
    activation  SiLU(gate) * up
    attention   scores, softmax and P.V of one KV head
    model       a llama made of them: token in, logits out
"""
