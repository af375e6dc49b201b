"""Storage types of weights and KV: GGUF's types, and the accelerator's 8-bit KV blocks."""

from dataclasses import dataclass
from fractions import Fraction

from gguf import GGML_QUANT_SIZES

from firmware.errors import UserError
from hw.config import BLOCK
from hw.isa import Format

__all__ = ["FLOATS", "KV8", "ROLES", "WeightType", "WeightTypes", "parse_weights", "weight_type"]

ROLES = ("q", "k", "v", "o", "gate_up", "down", "experts", "head", "router")
"""Roles whose type may be chosen; ``experts`` are all matrices of routed experts."""


@dataclass(frozen=True)
class WeightType:
    """A storage type; ``bytes`` of an element is exact, scales included."""

    name: str
    bytes: Fraction

    @property
    def hardware(self):
        """The stream format of this type (hw.isa), or None."""
        return Format.__members__.get(self.name)


KV8 = WeightType("KV8", Fraction(BLOCK + 1, BLOCK))
"""K and V of the accelerator: 32 signed bytes and an exponent."""

TYPES = {t.name: WeightType(t.name, Fraction(size, elements)) for t, (elements, size) in GGML_QUANT_SIZES.items()}
TYPES["KV8"] = KV8

FLOATS = ("BF16", "F16", "F32")
"""Types whose models keep norms and biases in the same type."""


def weight_type(name):
    """The type called *name*, in any case; :class:`UserError` names the known ones."""
    found = TYPES.get(name.upper())
    if found is None:
        raise UserError(f"unknown storage type {name!r}; known: {', '.join(sorted(TYPES))}")
    return found


@dataclass(frozen=True)
class WeightTypes:
    """Type of each role: ``default``, but for those in ``roles``."""

    default: WeightType
    roles: dict

    def of(self, role):
        """The type of matrices of *role*. A router not named is F32, as in GGUF files, or a float like the rest."""
        if role == "router" and role not in self.roles and self.default.name not in FLOATS:
            return TYPES["F32"]
        return self.roles.get(role, self.default)

    @property
    def vectors(self):
        """The type of norms and biases: F32 as in GGUF files, or float like the rest."""
        return self.default if self.default.name in FLOATS else TYPES["F32"]

    def __str__(self):
        return ",".join([self.default.name, *(f"{role}={kind.name}" for role, kind in self.roles.items())])


def parse_weights(text):
    """The :class:`WeightTypes` of ``TYPE[,ROLE=TYPE...]``, for example ``Q4_1,head=Q8_0``."""
    default, *rest = text.split(",")
    roles = {}
    for part in rest:
        role, equals, name = part.partition("=")
        if not equals or role not in ROLES:
            raise UserError(f"weights {text!r}: write TYPE,ROLE=TYPE..., for example Q4_0,head=Q8_0; "
                            f"roles: {', '.join(ROLES)}")
        roles[role] = weight_type(name)
    return WeightTypes(weight_type(default), roles)
