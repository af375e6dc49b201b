"""Roofline: clocks of decode steps predicted from layout and preset alone. It reads nothing from a run."""

from firmware.traffic import step_traffic

__all__ = ["predicted_clocks"]


def predicted_clocks(layout, first, steps, *, logits=False):
    """Clocks of *steps* steps with head, the first at position *first*: beats of the fullest channel, one a clock.

    This is the memory roof; refresh, turnarounds and fences hide under it or show as the difference to a run.
    """
    return sum(max(step_traffic(layout, first + n, logits=logits).beats) for n in range(steps))
