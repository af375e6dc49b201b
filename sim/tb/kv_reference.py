"""KV cache of one channel in Python: what is in memory and what a reader must return."""

from dataclasses import dataclass, field

from hw.config import preset

__all__ = ["KvCache", "KvShape", "Newest", "bench_config"]

TABLE_BASE = 1 << 16
TABLE_STRIDE = 64


def bench_config(args):
    """The configuration that the pytest built the bench's component with."""
    return preset(args["preset"]).override(**args.get("override", {}))


@dataclass(frozen=True)
class KvShape:
    """Shape of a KV cache; the field values of ``hw.interfaces.Geometry`` follow from it."""

    layers: int
    kv_heads: int
    head_blocks: int
    page_slots: int
    kv_base: int = 1 << 17

    @property
    def exponent_beats(self):
        return -(-self.page_slots * self.head_blocks // 32)

    @property
    def head_beats(self):
        return 2 * self.exponent_beats + 2 * self.page_slots * self.head_blocks

    @property
    def page_beats(self):
        return self.kv_heads * self.head_beats + 3  # pages need not touch

    def geometry(self):
        return {"kv_heads": self.kv_heads, "group": 1, "passes": 1, "head_blocks": self.head_blocks,
                "kv_base": self.kv_base, "page_beats": self.page_beats, "head_beats": self.head_beats,
                "exponent_beats": self.exponent_beats}


@dataclass(frozen=True)
class Newest:
    """K and V of one token in one layer: by [head][block], (exponent byte, 32 mantissas of -128 to 127)."""

    keys: list
    values: list

    @classmethod
    def random(cls, shape, rng):
        def blocks():
            return [[(rng.getrandbits(8), [rng.randint(-128, 127) for _ in range(32)])
                     for _ in range(shape.head_blocks)] for _ in range(shape.kv_heads)]

        return cls(blocks(), blocks())


@dataclass
class KvCache:
    """Beats of the cache, and which of them a reader may touch: tables, exponents of pages in use, stored tokens."""

    shape: KvShape
    tables: list  # by layer, physical page of each logical page
    beats: dict = field(default_factory=dict)
    allowed: set = field(default_factory=set)

    def __post_init__(self):
        for layer, table in enumerate(self.tables):
            for n, page in enumerate(table):
                beat = self.table_beat(layer) + n // 8
                self.beats[beat] = self.beats.get(beat, 0) | page << 32 * (n % 8)
                self.allowed.add(beat)

    @staticmethod
    def table_beat(layer):
        return TABLE_BASE + layer * TABLE_STRIDE

    def _head(self, layer, slot, head):
        shape = self.shape
        page = self.tables[layer][slot // shape.page_slots]
        return shape.kv_base + page * shape.page_beats + head * shape.head_beats

    def store(self, layer, slot, newest):
        """Put *newest* at *slot*; the first token of an exponent beat clears the rest of it."""
        shape = self.shape
        first = slot % shape.page_slots * shape.head_blocks
        for head in range(shape.kv_heads):
            base = self._head(layer, slot, head)
            for is_value, blocks in enumerate((newest.keys[head], newest.values[head])):
                exponents = base + is_value * shape.exponent_beats + first // 32
                data = (base + 2 * shape.exponent_beats + is_value * shape.page_slots * shape.head_blocks + first)
                merged = bytearray(self.beats[exponents].to_bytes(32, "little") if first % 32 else 32)
                for n, (exponent, mantissas) in enumerate(blocks):
                    merged[first % 32 + n] = exponent
                    self.beats[data + n] = int.from_bytes(bytes(v & 255 for v in mantissas), "little")
                    self.allowed.add(data + n)
                self.beats[exponents] = int.from_bytes(merged, "little")
            self.allowed.update(range(base, base + 2 * shape.exponent_beats))

    def pages(self, tokens):
        """Tokens in each page that holds any of the first *tokens*."""
        slots = self.shape.page_slots
        return [min(slots, tokens - start) for start in range(0, tokens, slots)]

    def keys(self, layer, head, tokens):
        """Exponent beats (with the mask of the bytes that count) and data beats of KV_K."""
        shape = self.shape
        exponents, data = [], []
        for page, held in enumerate(self.pages(tokens)):
            base = self._head(layer, page * shape.page_slots, head)
            mask = (1 << 8 * held * shape.head_blocks) - 1
            for n in range(2 * shape.exponent_beats):
                bits = mask >> 256 * (n % shape.exponent_beats) & (1 << 256) - 1
                exponents.append((self.beats.get(base + n, 0) & bits, bits))
            start = base + 2 * shape.exponent_beats
            data += (self.beats[start + n] for n in range(held * shape.head_blocks))
        return exponents, data

    def values(self, layer, head, tokens):
        """Data beats of KV_V."""
        shape = self.shape
        data = []
        for page, held in enumerate(self.pages(tokens)):
            start = (self._head(layer, page * shape.page_slots, head) + 2 * shape.exponent_beats
                     + shape.page_slots * shape.head_blocks)
            data += (self.beats[start + n] for n in range(held * shape.head_blocks))
        return data
