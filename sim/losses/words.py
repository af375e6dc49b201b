"""A loss in words."""

from sim.losses.operators import WAIT

__all__ = ["words"]

FENCES = {"O": "attention", "down": "SiLU"}
"""What an operator's operand comes from, if not from residual and norm."""

PLACES = {"first": ", first layer", "middle": ", middle layers", "last": ", last layer", "none": ""}

BOUNDARY = ("RoPE row", "norm weights", "embedding")
"""What is read first in a step."""

LATE = {"activate_precharge": "rows: the row for {} is closed",
        "refresh": "refresh: the bank pair for {} is in refresh",
        "turnaround": "turnaround: the bus turns before {}"}
"""Causes other than back pressure and no request."""

ASKED = {"program": "no request: the reader has no record for {} yet",
         "table": "no request: {} waits for the block table",
         "writer": "no request: {} waits until the K and V before are written",
         "no": "no request: {} has just been asked for"}


def words(key):
    """*key* (:class:`sim.losses.attribute.Key`) as a sentence without a full stop."""
    name = {"writes": "K and V on their way to memory"}.get(key.operator.name, key.operator.text)
    if key.cause == "back_pressure":
        text = held(key.operator, key.reason)
    elif key.cause == "no_request":
        text = asked(key.operator, name, key.reason)
    else:
        text = LATE[key.cause].format(name)
    return text + PLACES[key.operator.place]


def asked(operator, name, reason):
    """Why nothing was asked for."""
    if operator.name == "argmax":
        return "token boundary: everything is read, and the argmax is not known yet"
    if operator.place == "none" and operator.name in BOUNDARY and reason == "program":
        return f"token boundary: {name} waits for the token"
    return ASKED[reason].format(name)


def held(operator, reason):
    """Why the slice took no beat while the FIFO was full."""
    name, head = operator.name, operator.head
    attention = name in ("attention K", "attention V")
    match reason:
        case "operand" if attention:
            return "fence: attention waits for the queries" + (" and the newest K" if head == 0 else "")
        case "operand" if name.startswith(WAIT):
            return f"fence: the slices {name}"
        case "operand":
            return f"fence: {name} waits for {FENCES.get(name, 'residual and norm')}"
        case "maximum":
            return f"fence: attention waits for softmax of head {head}"
        case "results" if name == "attention K":
            return f"merge: attention waits for room for the maximum of head {head}"
        case "results" if name == "attention V":
            return f"merge: attention of head {head} waits for the sums of two heads before"
        case "results" if name in ("norm weights", "RoPE row", "embedding"):
            return f"load: {name} {'go' if name == 'norm weights' else 'goes'} to the vector unit channel by channel"
        case "results":
            return f"results: rows of {name} end faster than they are taken"
        case "data":
            return f"FIFO: {operator.text} waits for a beat behind beats of the other kind"
        case "program":
            return f"program: the slice has no record before {operator.text}"
    if attention:
        return f"passes: a beat of {operator.text} is held for its query heads"
    return f"pace: the memory is ahead of the slice at {operator.text}"
