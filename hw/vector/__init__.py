"""The central vector unit: row results and merged heads in, quantised operands, tokens and logits out.

    gather      results and bypass beats of all channels, in order
    dispatch    records in; groups of integers, embeddings and loads out
    fp32        binary32 adder, multiplier and conversion from integers
    functions   reciprocal, inverse square root, 2^t
    residual    residual memory, norm weights, sum of squares (norm)
    rope        rotary position embedding
    silu        SiLU(gate) * up
    argmax      largest logit; logits packs them into beats
    quantiser   blocks of 32 onto the operand bus
    unit        all of it, connected
"""
