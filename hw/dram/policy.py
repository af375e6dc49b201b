"""Scheduling choices of a channel controller: what JEDEC leaves free."""

from dataclasses import dataclass

from hw.dram.timing import Timing

__all__ = ["Policy"]

_STARTUP_SLACK = 12
"""Clocks that row commands may wait for each other and for CAS."""


@dataclass(frozen=True)
class Policy:
    """Depths and thresholds. Refresh debts count REFpb, eight a tREFI."""

    chunks: int = 8  # depth of the chunk queue, a power of two
    claim_beats: int = 96  # a chunk's pair is opened when fewer beats than this are before it
    pull_in: int = 8  # refreshes issued ahead of their time while nothing is asked for
    urgent: int = 16  # debt from which a pair needed soon is refreshed too, if no opened chunk uses it
    hard: int = 24  # debt from which any pair is refreshed, interrupting its chunk
    quiet_clocks: int = 32  # clocks without a request after which pending writes drain and refreshes are pulled in
    write_timeout: int = 256  # clocks without a new write after which pending writes drain

    def __post_init__(self):
        if self.chunks & (self.chunks - 1) or not 2 <= self.chunks <= 8:
            raise ValueError(f"chunks is {self.chunks}; it must be 2, 4 or 8")
        if not 0 < self.urgent <= self.hard:
            raise ValueError(f"urgent {self.urgent} and hard {self.hard} must be positive and in this order")

    @staticmethod
    def drain_level(depth):
        """Beats in a write queue of *depth* from which it drains."""
        return depth - depth // 4

    def open_clocks(self, timing: Timing):
        """Clocks from the PRE of a pair's first bank to the first RD of its new row."""
        t = timing
        return (t.row_to_row(t.trppb) + t.row_to_row(t.trrd) + 1 + t.row_to_column(t.trcd))

    def refresh_beats(self, timing: Timing):
        """Beats before a pair's next use from which refreshing it costs nothing."""
        return self.open_clocks(timing) + timing.row_to_row(timing.trfcpb) + 2 + _STARTUP_SLACK

    def busy_clocks(self, timing: Timing):
        """Clocks from the choice of a pair to its REF, at most: its beats, rows and the last REF are not long past."""
        return self.open_clocks(timing) + timing.column_to_row(timing.wr_to_pre) + max(
            timing.row_to_row(timing.tpbr2pbr), 4)

    def check(self, timing: Timing):
        """ValueError with numbers if these choices could break *timing*'s refresh window or starve refresh."""
        rounds = self.pull_in / 8 + (self.hard + 8) / 8 + 2
        if rounds * timing.trefi > timing.open_max:
            raise ValueError(f"a pair may wait {rounds:g} tREFI = {rounds * timing.trefi:g} CK for its refresh; "
                             f"the limit is {timing.open_max} CK")
        interval, busy = timing.trefi // 16, self.busy_clocks(timing)
        if interval < busy:
            raise ValueError(f"a refresh every {interval} clocks is asked for; one may take {busy} clocks")
