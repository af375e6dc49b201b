"""A window as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing show.

A process a channel, with a track for each of: causes of its clocks, data bus, banks, slice, reader, KV writer.
"""

from hw.dram.pairs import PAIRS
from sim.trace.window import CLOCK_NS

__all__ = ["chrome_trace"]

BANKS = 2 * PAIRS

TRACKS = ("cause", "data bus", "slice", "reader waits for", "KV writer", *(f"bank {n}" for n in range(BANKS)))


def chrome_trace(window, timing, title):
    """The trace as a dict for JSON. *timing* is the device's (:class:`sim.lpddr.table.DeviceTiming`)."""
    events = []
    for channel, (commands, states) in enumerate(zip(window.commands, window.states, strict=True)):
        pid = channel + 1
        events.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": f"channel {channel}"}})
        events += [{"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track}}
                   for tid, track in enumerate(TRACKS)]
        events += [{"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}
                   for tid in range(len(TRACKS))]
        spans = [*state_spans(states, window.stop), *bus_spans(commands), *bank_spans(commands, window, timing)]
        for track, name, start, stop in sorted(spans, key=lambda span: (span[2], -span[3])):
            events.append({"ph": "X", "pid": pid, "tid": TRACKS.index(track), "name": name,
                           "ts": round(start * CLOCK_NS / 1000, 6), "dur": round((stop - start) * CLOCK_NS / 1000, 6)})
    return {"displayTimeUnit": "ns", "otherData": {"title": title, "clock_ns": CLOCK_NS, "start_clock": window.start,
                                                   "stop_clock": window.stop}, "traceEvents": events}


def state_spans(states, stop):
    """Spans (track, name, from, until) in clocks, equal neighbours joined."""
    views = {"cause": lambda s: s.cause, "slice": lambda s: s.slice if s.slice != "idle" else None,
             "reader waits for": lambda s: s.starved if s.starved != "no" else None,
             "KV writer": lambda s: "writes" if s.writing else None}
    for track, view in views.items():
        name, since = None, 0
        for clock, value in [*((s.clock, view(s)) for s in states), (stop, None)]:
            if value != name:
                if name is not None:
                    yield track, name, since, clock
                name, since = value, clock


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
