"""Struct ports as integers and back."""

import random

import pytest
from amaranth.hdl import signed as signed_shape
from amaranth.lib.data import ArrayLayout, StructLayout

from hw.isa import AccessKind, AccessRecord
from sim.streams import pack, signed, unpack

ROW = StructLayout({"a": 3, "b": 1})
LAYOUT = StructLayout({"kind": AccessKind, "delta": signed_shape(5), "rows": ArrayLayout(ROW, 2)})


def test_fields_lie_where_amaranth_puts_them():
    value = {"kind": AccessKind.KV_V, "delta": -3, "rows": [{"a": 5, "b": 1}, {"a": 2, "b": 0}]}
    assert pack(LAYOUT, value) == LAYOUT.const(value).as_bits()
    record = {"kind": AccessKind.WEIGHTS, "beats": 12345, "base": 99, "stride": 7}
    assert pack(AccessRecord, record) == AccessRecord.const(record).as_bits()


def test_unpack_is_the_inverse():
    rng = random.Random(1)
    for _ in range(50):
        bits = rng.getrandbits(LAYOUT.size)
        value = unpack(LAYOUT, bits)
        assert pack(LAYOUT, value) == bits
        assert -16 <= value["delta"] < 16


def test_missing_and_unknown_fields():
    assert unpack(LAYOUT, pack(LAYOUT, {"rows": [{"a": 7}]}))["rows"] == [{"a": 7, "b": 0}, {"a": 0, "b": 0}]
    with pytest.raises(KeyError, match="kimd"):
        pack(LAYOUT, {"kimd": 0})


def test_signed():
    assert [signed(value, 3) for value in (0, 3, 4, 7, 8)] == [0, 3, -4, -1, 0]
