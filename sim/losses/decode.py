"""The losses of measured decode steps, from the simulator's log to counts by operator, held against the counters."""

from collections import Counter
from dataclasses import dataclass

from sim.losses.attribute import Steps, attribute
from sim.losses.log import RunLog, joined
from sim.losses.operators import StepRecords, step_records

__all__ = ["Losses", "measured_losses"]


@dataclass(frozen=True)
class Losses:
    """What *count* steps lost, and the log that it was counted in."""

    counts: Counter  # sim.losses.attribute.Key to channel clocks
    log: RunLog
    records: StepRecords
    count: int


def measured_losses(logs, compiled, position, count, causes):
    """The :class:`Losses` of *count* steps with head from *position* on, which ran as the runs *logs*; None without.

    *compiled*: what they ran (:class:`firmware.compiler.Compiled`); *causes*: the performance counters' channel clocks.
    ``ValueError`` if the monitor in the simulator and the counters in the accelerator don't agree to the clock.
    """
    if not count:
        return None
    log = joined(logs)
    if log.causes != causes:
        raise ValueError(f"the monitor saw {log.causes}, the performance counters {causes}")
    records = step_records(compiled.program, head=True)
    return Losses(attribute(log, Steps(records, position, count), compiled.layout), log, records, count)
