"""Presets: every size of the design, in one frozen dataclass, with the checks that make it buildable."""

from dataclasses import dataclass, fields, replace

from hw.dram.timing import DENSITIES

__all__ = ["BEAT_BYTES", "BLOCK", "ConfigError", "Config", "PRESETS", "preset"]

BEAT_BYTES = 32
"""Bytes of one BL16 burst of an x16 channel; one beat a clock is the memory roof."""

BLOCK = 32
"""Elements that share an exponent (OCP MX) and elements in a GGUF Q4_0, Q4_1 or Q8_0 block."""


MAX_WIDTH = 2047 * BLOCK
"""Elements of the widest row: its blocks are counted in 11 bits, in records and in the accumulator's width."""

MAX_PAGE_SLOTS = 32
"""Most tokens of a channel in a page: more exponent beats at a page's start than the scale FIFO may get in a row."""


class ConfigError(ValueError):
    """A parameter set that can't be built; the message has the numbers."""


@dataclass(frozen=True)
class Config:
    """Sizes of one accelerator. Units are in the name or the comment; see :data:`PRESETS`."""

    name: str
    channels: int
    density_gbit: int = 16
    v_w: int = 1  # vectors that meet a weight beat (batch)
    v_kv: int = 3  # query heads that meet a KV beat in one clock
    lanes: int = 1  # elements a clock in the vector unit; divides channels
    mantissa_bits: int = 12  # operand mantissa, sign included
    fifo_beats: int = 256  # prefetch FIFO a channel
    page_slots: int = 16  # tokens of one channel in a KV page; a page holds page_slots * channels tokens
    max_hidden: int = 1024
    max_ffn: int = 2048
    max_kv_heads: int = 8
    max_head_dim: int = 128
    max_group: int = 8  # query heads a KV head
    max_context: int = 8192
    write_queue: int = 64  # beats of the controller's write queue a channel

    def __post_init__(self):
        def need(ok, text):
            if not ok:
                raise ConfigError(f"preset {self.name}: {text}")

        def power_of_two(n):
            return n > 0 and n & (n - 1) == 0

        need(1 <= self.channels <= 32, f"channels is {self.channels}; it must be 1 to 32")
        need(self.density_gbit in DENSITIES, f"density_gbit is {self.density_gbit}; known: {sorted(DENSITIES)}")
        need(power_of_two(self.density_gbit), f"density_gbit {self.density_gbit} has no power-of-two rows (not built)")
        need(self.v_w == 1, f"v_w is {self.v_w}; batch above 1 is not built yet")
        need(1 <= self.v_kv <= 16, f"v_kv is {self.v_kv}; it must be 1 to 16")
        need(self.lanes in (1, 2, 4), f"lanes is {self.lanes}; it must be 1, 2 or 4")
        need(self.channels % self.lanes == 0, f"lanes {self.lanes} does not divide channels {self.channels}")
        need(8 <= self.mantissa_bits <= 16, f"mantissa_bits is {self.mantissa_bits}; it must be 8 to 16")
        need(power_of_two(self.fifo_beats) and 64 <= self.fifo_beats <= 4096,
             f"fifo_beats is {self.fifo_beats}; it must be a power of two, 64 to 4096")
        need(power_of_two(self.page_slots) and 2 <= self.page_slots <= MAX_PAGE_SLOTS,
             f"page_slots is {self.page_slots}; it must be a power of two, 2 to {MAX_PAGE_SLOTS}")
        need(min(self.max_hidden, self.max_ffn) > 0 and self.max_hidden % BLOCK == 0 and self.max_ffn % BLOCK == 0,
             f"max_hidden {self.max_hidden} and max_ffn {self.max_ffn} must be multiples of {BLOCK}, above 0")
        need(max(self.max_hidden, self.max_ffn) <= MAX_WIDTH,
             f"max_hidden {self.max_hidden} and max_ffn {self.max_ffn} must be {MAX_WIDTH} or less")
        need(self.max_head_dim in (32, 64, 128, 256), f"max_head_dim is {self.max_head_dim}; 32, 64, 128 or 256")
        need(1 <= self.max_kv_heads <= 63, f"max_kv_heads is {self.max_kv_heads}; it must be 1 to 63")
        need(1 <= self.max_group <= 31, f"max_group is {self.max_group}; it must be 1 to 31")
        need(self.max_passes <= 15, f"max_group {self.max_group} is more than 15 times v_kv {self.v_kv}")
        need(1 <= self.max_context <= 2**20, f"max_context is {self.max_context}; it must be 1 to {2**20}")
        need(power_of_two(self.write_queue) and 16 <= self.write_queue <= 1024,
             f"write_queue is {self.write_queue}; it must be a power of two, 16 to 1024")

    @property
    def channel_beats(self):
        """Beats (32 bytes) of memory in one channel."""
        return self.density_gbit * 2**30 // 8 // BEAT_BYTES

    @property
    def channel_bytes(self):
        return self.channel_beats * BEAT_BYTES

    @property
    def memory_bytes(self):
        return self.channel_bytes * self.channels

    @property
    def beat_address_bits(self):
        return (self.channel_beats - 1).bit_length()

    @property
    def pool_rows(self):
        """Rows of 32 multipliers in a MAC slice: two weight blocks of a nibble beat, or ``v_kv`` query heads."""
        return max(2, self.v_kv)

    @property
    def page_tokens(self):
        return self.page_slots * self.channels

    @property
    def max_slots(self):
        """Tokens of one sequence that one channel can hold, the newest included."""
        return -(-self.max_context // self.channels) + 1

    @property
    def max_pages(self):
        return -(-self.max_context // self.page_tokens)

    @property
    def max_passes(self):
        """Clocks that a KV beat is held for the largest group of query heads."""
        return -(-self.max_group // self.v_kv)

    @property
    def head_blocks(self):
        return self.max_head_dim // BLOCK

    @property
    def attention_blocks(self):
        """Operand blocks of region ATTENTION: attention's output, or what one of two experts gives its down matrix."""
        widest = max(self.max_hidden, self.max_ffn) // BLOCK
        return min(self.max_kv_heads * self.max_group * self.head_blocks, widest)

    @property
    def query_blocks(self):
        """Query blocks of one pool row: every pass of every KV head."""
        return self.max_kv_heads * self.max_passes * self.head_blocks

    def changes(self):
        """Fields in which this differs from the preset of its name."""
        return {f.name: getattr(self, f.name) for f in fields(self)
                if getattr(self, f.name) != getattr(PRESETS[self.name], f.name)}

    def override(self, **changes):
        """A copy with some fields changed, checked again; an unknown name raises :class:`ConfigError`."""
        known = {f.name for f in fields(self)} - {"name"}
        for name in changes:
            if name not in known:
                raise ConfigError(f"preset {self.name} has no field {name}; fields: {', '.join(sorted(known))}")
        return replace(self, **changes)


PRESETS = {
    c.name: c
    for c in (
        Config("tiny", channels=2, max_hidden=256, max_ffn=512, max_context=512, page_slots=4, fifo_beats=64,
               max_head_dim=64, write_queue=32),
        Config("demo", channels=4),
        Config("bertha500", channels=32, density_gbit=32, v_kv=8, lanes=4, fifo_beats=512, page_slots=32,
               max_hidden=16384, max_ffn=57344, max_head_dim=128, max_group=16, max_context=131072),
    )
}


def preset(name):
    """The preset called *name*; :class:`ConfigError` names the known ones."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
