"""A window as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing show.

A process a channel, with a track for each of: causes of its clocks, data bus, slice and its record, reader, KV writer,
banks; and a counter of the beats in its FIFO. A process more is the vector unit, with the fences that it completes.
"""

from hw.dram.pairs import PAIRS
from sim.trace.window import CLOCK_NS

__all__ = ["chrome_trace"]

BANKS = 2 * PAIRS

TRACKS = ("cause", "data bus", "slice record", "slice", "reader waits for", "KV writer",
          *(f"bank {n}" for n in range(BANKS)))

CENTRAL_TRACKS = ("vector unit", "pipelines", "fences")

CENTRAL = 0
"""Process of the vector unit; channels follow."""


def chrome_trace(window, timing, title, records=()):
    """The trace as a dict for JSON. *timing* is the device's (:class:`sim.lpddr.table.DeviceTiming`); *records*: names
    of the slice records of the whole run, in order."""
    events = [*process(CENTRAL, "vector unit", CENTRAL_TRACKS)]
    events += span_events(CENTRAL, CENTRAL_TRACKS, vector_spans(window))
    events += [{"ph": "i", "s": "p", "pid": CENTRAL, "tid": CENTRAL_TRACKS.index("fences"),
                "name": f"{state.fence} complete", "ts": microseconds(state.clock)}
               for state in window.vector if state.fence]
    for channel, (commands, states) in enumerate(zip(window.commands, window.states, strict=True)):
        pid = channel + 1
        events += process(pid, f"channel {channel}", TRACKS)
        events += span_events(pid, TRACKS, [
            *state_spans(states, window.stop), *record_spans(window.taken[channel], states, window, records),
            *bus_spans(commands), *bank_spans(commands, window, timing)])
        events += [{"ph": "C", "pid": pid, "name": "FIFO beats", "ts": microseconds(level.clock),
                    "args": {"data": level.data, "scales": level.scales}} for level in window.levels[channel]]
    return {"displayTimeUnit": "ns", "otherData": {"title": title, "clock_ns": CLOCK_NS, "start_clock": window.start,
                                                   "stop_clock": window.stop}, "traceEvents": events}


def microseconds(clock):
    """Time of *clock* in the trace."""
    return round(clock * CLOCK_NS / 1000, 6)


def process(pid, name, tracks):
    """Yields the events that name a process and its tracks."""
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, track in enumerate(tracks):
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def span_events(pid, tracks, spans):
    """Yields an event for each span (track, name, from, until)."""
    for track, name, start, stop in sorted(spans, key=lambda span: (span[2], -span[3])):
        yield {"ph": "X", "pid": pid, "tid": tracks.index(track), "name": name, "ts": microseconds(start),
               "dur": microseconds(stop - start)}


def joined(track, points, stop):
    """Yields spans of *track* from (clock, name) points; equal neighbours are joined, None is no span."""
    name, since = None, 0
    for clock, value in [*points, (stop, None)]:
        if value != name:
            if name is not None and clock > since:
                yield track, name, since, clock
            name, since = value, clock


def vector_spans(window):
    """What the vector unit is fed with, and when its pipelines are at work."""
    yield from joined("vector unit", ((s.clock, s.feeding or None) for s in window.vector), window.stop)
    yield from joined("pipelines", ((s.clock, "busy" if s.busy else None) for s in window.vector), window.stop)


def record_spans(taken, states, window, records):
    """The record that a slice has in hand, from the clock after it is taken until the next or until it is idle."""
    idle = [(s.clock, None) for s in states if s.slice == "idle"]
    points = [(t.clock + 1 if number else window.start, (t.count, record_name(t.count, records)))
              for number, t in enumerate(taken) if t.count]
    # Sorting is stable: a record that was over before the window gives way to "idle" at its start.
    for track, (_, name), start, stop in joined("slice record", sorted([*points, *idle], key=lambda p: p[0]),
                                                window.stop):
        yield track, name, start, stop


def record_name(count, records):
    """Name of the *count*-th slice record of a run."""
    return records[count - 1] if count <= len(records) else f"record {count}"


def state_spans(states, stop):
    """Spans (track, name, from, until) in clocks, equal neighbours joined."""
    views = {"cause": lambda s: s.cause, "slice": lambda s: s.slice if s.slice != "idle" else None,
             "reader waits for": lambda s: s.starved if s.starved != "no" else None,
             "KV writer": lambda s: "writes" if s.writing else None}
    for track, view in views.items():
        yield from joined(track, ((s.clock, view(s)) for s in states), stop)


def bus_spans(commands):
    """Unbroken runs of column commands: one beat a clock, two CK."""
    run = []
    for command in [c for c in commands if c.name in ("RD16", "WR16")] + [None]:
        if run and (command is None or command.name != run[-1].name or command.ck > run[-1].ck + 2):
            kind = "read" if run[0].name == "RD16" else "write"
            yield "data bus", f"{kind} {len(run)} beats", run[0].ck / 2, run[-1].ck / 2 + 1
            run = []
        if command is not None:
            run.append(command)


def bank_spans(commands, window, timing):
    """Open rows, and refreshes, of each bank."""
    opened = {}
    for command in commands:
        if command.name == "ACT2":
            opened[command.bank] = command
        elif command.name in ("RD16", "WR16"):
            opened.setdefault(command.bank, command)
        elif command.name == "PRE":
            for bank in range(BANKS) if command.all_banks else (command.bank,):
                if bank in opened:
                    yield row_span(bank, opened.pop(bank), command.ck / 2)
        elif command.name == "REF":
            for bank in range(BANKS) if command.all_banks else (command.bank, command.bank + PAIRS):
                yield f"bank {bank}", "refresh", command.ck / 2, (command.ck + timing.rfc_pb) / 2
    for bank, command in opened.items():
        yield row_span(bank, command, window.stop)


def row_span(bank, command, stop):
    name = f"row {command.row}" if command.row >= 0 else "row opened before"
    return f"bank {bank}", name, command.ck / 2, stop
