import gc
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable

from hw.config import preset
from hw.dram.controller import ChannelController
from hw.dram.policy import Policy
from hw.dram.timing import COLUMN_PHASE, DENSITIES, ROW_PHASE, Timing, small_timing, timing_for
from sim.lpddr.table import device_timing


def test_published_cycles():
    """CK at 8533 MT/s, 16 Gb, BG mode: Ramulator 2.1, LiteDRAM, gem5."""
    rows = dict((name, ck) for name, ck, _ in timing_for(16).table())
    assert rows == {
        "BL/n_min": 2, "RL": 23, "WL": 11, "tRCD": 20, "tRPpb": 20, "tRPab": 23, "tRAS": 45, "tRASmax": 74_877,
        "tRRD": 6, "tFAW": 22, "tAAD": 8, "tCCD_S": 2, "tCCD_L": 4, "tWTR_S": 7, "tWTR_L": 13, "nRBTP": 6, "nWR":
        37, "tPPD": 2, "tWCK2DQO": 2, "tWCKPST": 1, "tRFCab": 299, "tRFCpb": 150, "tpbR2pbR": 96, "tpbR2act": 8,
        "tREFI": 4166, "tMRW": 11, "tMRD": 15,
    }


@pytest.mark.parametrize("speed, trcd, tras, trfcab, trefi", [(6400, 15, 34, 224, 3125), (7500, 17, 40, 263, 3662)])
def test_other_speeds(speed, trcd, tras, trfcab, trefi):
    t = timing_for(16, speed)
    assert (t.trcd, t.tras, t.trfcab, t.trefi) == (trcd, tras, trfcab, trefi)


def test_controller_clocks():
    """Clocks from the phases of both commands."""
    t = timing_for(16)
    assert (ROW_PHASE, COLUMN_PHASE) == (0, 1)
    assert t.row_to_column(t.trcd) == 10
    assert (t.column_to_row(t.rd_to_pre), t.column_to_row(t.wr_to_pre)) == (5, 26)
    assert (t.column_to_column(t.rd_to_wr), t.column_to_column(t.rd_to_wr_same)) == (8, 9)
    assert (t.column_to_column(t.wr_to_rd), t.column_to_column(t.wr_to_rd_same)) == (10, 14)
    assert (t.row_to_row(t.trrd), t.row_to_row(t.trc), t.row_to_row(t.trppb)) == (3, 33, 10)
    assert (t.row_to_row(t.trfcpb), t.row_to_row(t.tpbr2act), t.row_to_row(t.tpbr2pbr)) == (75, 4, 48)


@pytest.mark.parametrize("ck", range(1, 40))
def test_clocks_are_the_least_that_hold(ck):
    for a in range(2):
        for b in range(2):
            clocks = Timing.clocks(ck, a, b)
            assert 2 * clocks + b - a >= ck > 2 * (clocks - 1) + b - a


@pytest.mark.parametrize("density", DENSITIES)
def test_controller_and_device_tables_agree(density):
    """Two tables written apart."""
    t, d = timing_for(density), device_timing(density)
    assert DENSITIES[density].rows == d.rows
    assert (t.trcd, t.trppb, t.trpab, t.tras, t.trc, t.trrd, t.tfaw, t.taad) == (
        d.rcd, d.rp_pb, d.rp_ab, d.ras, d.rc, d.rrd, d.faw, d.aad)
    assert (t.rd_to_pre, t.wr_to_pre, t.rd_to_wr, t.rd_to_wr_same, t.wr_to_rd, t.wr_to_rd_same) == (
        d.rtp, d.wr, d.rtw_s, d.rtw_l, d.wtr_s, d.wtr_l)
    assert (t.trfcab, t.trfcpb, t.tpbr2pbr, t.tpbr2act, t.trefi, t.open_max) == (
        d.rfc_ab, d.rfc_pb, d.r2pbr, d.r2act, d.refi, d.ras_max)
    assert (t.rd_wck, t.wr_wck, t.tmrw, t.tmrd) == (d.wck_rd, d.wck_wr, d.mrw, d.mrd)


@pytest.mark.parametrize("changes, message", [
    ({"rl": 22}, "RL 22"),
    ({"wl": 12}, "WL 12"),
    ({"dfi_write_ahead": 3}, "dfi_write_ahead is 3"),
    ({"dfi_read_ahead": 24}, "dfi_read_ahead is 24 CK; it must be even, 0 to RL 23"),
    ({"trefi": 1000}, "a refresh every 62 clocks"),
    ({"trefi": 20_000}, "140000 CK for its refresh"),
    ({"tppd": 4}, "tPPD is 4"),
    ({"tccd_l": 6}, "tCCD_L 6"),
])
def test_refusals(changes, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # the parts made before the refusal
        with pytest.raises(ValueError, match=message):
            ChannelController(preset("tiny"), timing_for(16).replace(**changes)).elaborate(None)
        gc.collect()


def test_policy_refusals():
    with pytest.raises(ValueError, match="chunks is 3"):
        Policy(chunks=3)
    with pytest.raises(ValueError, match="urgent 30"):
        Policy(urgent=30)
    Policy().check(small_timing())
