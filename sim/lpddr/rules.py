"""Names of the rules that the device model checks."""

from enum import IntEnum

__all__ = ["Rule"]


class Rule(IntEnum):
    """A rule; the value is its bit in the model's masks, ``jedec`` its name in reports."""

    def __new__(cls, value, jedec):
        member = int.__new__(cls, value)
        member._value_ = value
        member.jedec = jedec
        return member

    ILLEGAL = 0, "command truth table"
    INIT = 1, "traffic before the mode registers are set"
    MODE = 2, "mode registers disagree with RL, WL, BG mode or WCK:CK in use"
    BANK_OPEN = 3, "ACT to an open bank"
    BANK_CLOSED = 4, "RD or WR to a closed bank"
    ACT_PAIR = 5, "ACT-1 and ACT-2 as a pair"
    TAAD = 6, "tAAD"
    ROW_RANGE = 7, "row address beyond the density"
    TRCD = 8, "tRCD"
    TRPPB = 9, "tRPpb"
    TRPAB = 10, "tRPab"
    TRAS = 11, "tRAS(min)"
    TRAS_MAX = 12, "tRAS(max)"
    TRC = 13, "tRC"
    TRRD = 14, "tRRD"
    TFAW = 15, "tFAW"
    TCCD_S = 16, "tCCD_S"
    TCCD_L = 17, "tCCD_L"
    TWTR_S = 18, "tWTR_S"
    TWTR_L = 19, "tWTR_L"
    TRTW_S = 20, "RD to WR, other bank group"
    TRTW_L = 21, "RD to WR, same bank group"
    TRTP = 22, "RD to PRE (BL/n_min + nRBTP)"
    TWR = 23, "WR to PRE (WL + BL/n_min + 1 + nWR)"
    TPPD = 24, "tPPD"
    TRFCAB = 25, "tRFCab"
    TRFCPB = 26, "tRFCpb"
    TPBR2PBR = 27, "tpbR2pbR"
    TPBR2ACT = 28, "tpbR2act"
    REF_OPEN = 29, "REF with an open bank"
    REF_ORDER = 30, "REFpb repeats a pair before all eight are done"
    REF_WINDOW = 31, "9 tREFI between two refreshes of a bank"
    REF_DEBT = 32, "more than 8 tREFI of refreshes postponed"
    WCK_SYNC = 33, "RD or WR without WCK in sync"
    WCK_RESYNC = 34, "CAS(WS) while WCK is in sync"
    CAS_ALONE = 35, "CAS(WS) is followed by its RD or WR in the next CK"
    TMRW = 36, "tMRW"
    TMRD = 37, "tMRD"
    MRW_PAIR = 38, "MRW-1 and MRW-2 as a pair"
    RL = 39, "RL"
    WL = 40, "WL"
