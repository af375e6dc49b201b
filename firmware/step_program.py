"""The records of one token: what is read from memory, in which order, and what becomes of it.

Layers are a loop, but with experts: each layer then reads others, whose addresses follow no stride, so that the access
program has the records of every layer.
"""

from firmware.experts import expert_order, one_ahead
from firmware.program import access, execute_end, execute_loop, execute_next, slice_record, vector_record
from hw.isa import AccessKind, Condition, Index, Region, RowScale, SliceKind, VectorKind

__all__ = ["access_program", "execute_program"]


def attention_order(kv_heads):
    """(phase, KV head) in stream order: K of the next head before V of this one, while the maximum merges."""
    return one_ahead(kv_heads, "K", "V")


def access_program(layout):
    """Yields the access records of a token."""
    shape = layout.shape
    yield _vector(layout.rope, Index.POSITION)
    yield _vector(layout.attn_norm, Index.NONE)
    yield _vector(layout.embedding, Index.TOKEN, wait_token=1)
    if shape.part == "attention":
        yield _weights(layout, "q", 0)
    if shape.experts:
        for layer in range(shape.layers):
            yield from _layer_access(layout, layer)
    else:
        yield access(AccessKind.LOOP, beats=shape.layers)
        yield from _layer_access(layout, None)
        yield access(AccessKind.NEXT)
    head = layout.shares["head"]
    yield access(AccessKind.WEIGHTS, condition=Condition.WITH_HEAD, format=head.format, beats=head.beats,
                 base=head.base)
    yield access(AccessKind.END)


def _layer_access(layout, layer):
    """Access records of *layer*, or, with None, of whichever layer the loop is in."""
    shape, alone = layout.shape, layout.shape.part == "attention"
    if shape.part == "matrix":
        yield _weights(layout, "o", 0)
        return
    yield access(AccessKind.TABLE, beats=layout.table_stride, **_at(layout.table_base, layout.table_stride, layer))
    for role in ("k", "v") if alone else ("q", "k", "v"):
        yield _weights(layout, role, layer)
    if not alone:
        yield _layer_vector(layout.ffn_norm, layer, 0)
        yield _layer_vector(layout.attn_norm, layer, 1)
    for phase, head in attention_order(shape.kv_heads):
        yield access(AccessKind.KV_K if phase == "K" else AccessKind.KV_V, head=head)
    if alone:
        return
    yield _weights(layout, "o", layer)
    if shape.experts:
        yield _weights(layout, "router", layer)
        for role, number in expert_order(shape.chosen):
            yield _weights(layout, role, layer, layout.drawn[layer][number])
    else:
        yield _weights(layout, "gate_up", layer)
        yield _weights(layout, "down", layer)


def _at(base, stride, layer):
    """Address fields of what lies at *base* in layer 0: of *layer*, or looped."""
    return {"base": base, "index": Index.LAYER, "stride": stride} if layer is None else {"base": base + layer * stride}


def _vector(vectors, index, **fields):
    return access(AccessKind.VECTOR, beats=vectors.stride, base=vectors.base, index=index, stride=vectors.stride,
                  **fields)


def _layer_vector(vectors, layer, first):
    """Vector number *first* of layer 0, and those that follow in the next layers."""
    base = vectors.base + first * vectors.stride
    return access(AccessKind.VECTOR, beats=vectors.stride, **_at(base, vectors.stride, layer))


def _weights(layout, role, layer, expert=0):
    share = layout.shares[role]
    return access(AccessKind.WEIGHTS, format=share.format, beats=share.beats,
                  **_at(share.base + layout.offset(0, expert), layout.layer_stride, layer))


def execute_program(layout, exponents):
    """Yields the execute records of a token; *exponents*: E_w of each role.

    Vector records come before the slice records that feed them, so that the engine never waits for a full queue whose
    reader waits for a record behind.
    """
    shape = layout.shape

    def load(kind, vectors, **fields):
        yield vector_record(kind, count=vectors.elements, **fields)
        yield slice_record(SliceKind.BYPASS, rows=vectors.stride)

    def matrix(role, kind, region, fence, condition=Condition.ALWAYS, **fields):
        share = layout.shares[role]
        fields |= {"region": region, "weight_exponent": exponents[role]}
        yield vector_record(kind, condition, count=share.results, **fields)
        yield slice_record(SliceKind.MATRIX, condition, format=share.format, region=region, take_fence=fence,
                           rows=share.rows, blocks=share.blocks, weight_exponent=exponents[role])

    def queries(fence):
        return matrix("q", VectorKind.QUERY, Region.HIDDEN, fence, scale=RowScale.NORM_QUERY)

    def newest():
        yield from matrix("k", VectorKind.KEY, Region.HIDDEN, 0, scale=RowScale.NORM)
        yield from matrix("v", VectorKind.VALUE, Region.HIDDEN, 0, scale=RowScale.NORM)

    def attention(fence):
        yield vector_record(VectorKind.ATTENTION, count=shape.heads * shape.head_dim)
        for number, (phase, head) in enumerate(attention_order(shape.kv_heads)):
            yield slice_record(SliceKind.KEYS if phase == "K" else SliceKind.VALUES, region=Region.QUERY, head=head,
                               take_fence=fence * int(number == 0))

    def feed_forward():
        yield from matrix("gate_up", VectorKind.GLU, Region.HIDDEN, 1, scale=RowScale.NORM)
        yield from matrix("down", VectorKind.RESIDUAL, Region.FFN, 1, slot=0)

    def expert_feed_forward():
        """Every second expert's operand of down lies in region ATTENTION, so that the next can come meanwhile."""
        yield from matrix("router", VectorKind.ROUTER, Region.HIDDEN, 1)
        for role, number in expert_order(shape.chosen):
            second = number % 2
            if role == "gate_up":
                yield from matrix(role, VectorKind.GLU, Region.HIDDEN, 0, scale=RowScale.NORM, slot=second)
            else:
                kind = VectorKind.ADD if number < shape.chosen - 1 else VectorKind.RESIDUAL
                yield from matrix(role, kind, Region.ATTENTION if second else Region.FFN, 1, slot=0)

    def layer():
        yield from queries(1)
        yield from newest()
        yield from load(VectorKind.LOAD_NORM, layout.ffn_norm, slot=1)
        yield from load(VectorKind.LOAD_NORM, layout.attn_norm, slot=0)
        yield from attention(1)
        yield from matrix("o", VectorKind.RESIDUAL, Region.ATTENTION, 1, slot=1)
        yield from expert_feed_forward() if shape.experts else feed_forward()

    def attention_layer():
        yield from newest()
        yield from attention(0)
        yield _wait(Region.ATTENTION)

    def matrix_layer():
        """The results are dropped: as a residual they would replace the operand that is still in use."""
        return matrix("o", VectorKind.ROUTER, Region.HIDDEN, 0)

    yield from load(VectorKind.LOAD_ROPE, layout.rope)
    yield from load(VectorKind.LOAD_NORM, layout.attn_norm, slot=0)
    yield from load(VectorKind.EMBED, layout.embedding, slot=0)
    if shape.part == "attention":
        yield from queries(1)
        yield _wait(Region.QUERY)
    elif shape.part == "matrix":
        yield _wait(Region.HIDDEN)
    yield execute_loop(shape.layers)
    yield from {"all": layer, "attention": attention_layer, "matrix": matrix_layer}[shape.part]()
    yield execute_next()
    fence = int(shape.part == "all")
    yield from matrix("head", VectorKind.HEAD, Region.HIDDEN, fence, Condition.WITH_HEAD, scale=RowScale.NORM)
    if fence:
        yield _wait(Region.HIDDEN, Condition.WITHOUT_HEAD)
    yield execute_end()


def _wait(region, condition=Condition.ALWAYS):
    """Slices go on when the operand in *region* is complete, which nothing uses."""
    return slice_record(SliceKind.BYPASS, condition, region=region, take_fence=1)
