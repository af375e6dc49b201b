"""Names of signals from the source.

Amaranth reads them from byte code: it finds none in ``a, b = Signal(), Signal()``, and what it finds depends on the
version of Python. Here they come from the text of the program.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

__all__ = ["name_signals"]


def name_signals(signals):
    """Gives *signals* that were made without a name those of the variables that they were assigned to."""
    places = defaultdict(list)
    for signal in signals:
        if signal.src_loc is not None:
            places[signal.src_loc].append(signal)
    for (file, line), group in places.items():
        names = _assigned(file).get(line)
        if names:
            # Signals are numbered as they are made; one that is not used leaves its neighbours without a name.
            made = sorted(group, key=lambda signal: signal.duid)
            for run in _runs(made):
                if len(run) % len(names) == 0:
                    for n, signal in enumerate(run):
                        signal.name = names[n % len(names)]


def _runs(signals):
    """*signals* in lists of those that were made one straight after the other."""
    runs = []
    for signal in signals:
        if runs and signal.duid == runs[-1][-1].duid + 1:
            runs[-1].append(signal)
        else:
            runs.append([signal])
    return runs


@cache
def _assigned(file):
    """Line -> variables that calls of Signal on it are assigned to, in order; lines that give names are left out."""
    path, found, named = Path(file), {}, set()
    if not path.exists():
        return {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and any(keyword.arg == "name" for keyword in node.keywords):
            named.add(node.lineno)
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        else:
            pairs = [(target, value)]
        for variable, call in pairs:
            name = getattr(variable, "id", None) or getattr(variable, "attr", None)
            if name and isinstance(call, ast.Call) and _is_signal(call.func):
                found.setdefault(call.lineno, []).append(name)
    return {line: names for line, names in found.items() if line not in named}


def _is_signal(function):
    """Whether *function* is Signal or Signal.like."""
    if isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id == "Signal"
