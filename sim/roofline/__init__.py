"""Roofline: what decoding takes, predicted from sizes and preset alone, never from a run; see docs/roofline.md."""

from firmware.traffic import step_traffic
from sim.roofline.step import StepModel, StepPrediction

__all__ = ["StepModel", "StepPrediction", "predicted_clocks", "roof_clocks"]


def predicted_clocks(layout, first, steps, *, logits=False):
    """Clocks of *steps* steps with head, the first at position *first*: the memory roof and what the structure adds.

    *logits*: they are written to memory.
    """
    model = StepModel(layout)
    return round(sum(model.predict(first + n, logits).clocks for n in range(steps)))


def roof_clocks(layout, first, steps, *, logits=False):
    """The memory roof of the same steps: beats of the fullest channel, one a clock."""
    return sum(max(step_traffic(layout, first + n, logits=logits).beats) for n in range(steps))
