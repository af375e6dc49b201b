"""Runs the proofs of the memory controller: ``python -m sim.formal``, or ``make prove``."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from firmware.errors import UserError
from sim.formal.proofs import proofs
from sim.report import check_output, write_json

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(epilog="Example: python -m sim.formal --only tRCD --json build/proofs.json")
def prove(
    only: Annotated[str, typer.Option(help="Run the proofs whose name contains this.")] = "",
    names: Annotated[bool, typer.Option("--list", help="List the names and run nothing.")] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Write the results to this file: name -> good, text, "
                                                             "seconds.")] = None,
):
    """Prove timing rules, refresh, FIFOs and credits of the memory controller by induction (docs/proofs.md).

    Exit code 0: all is proved, and every controller with a weakened constant is refused; 1: not so.
    """
    console = Console(highlight=False, width=120)
    chosen = [proof for proof in proofs() if only.lower() in proof.name.lower()]
    if not chosen:
        raise UserError(f"--only {only}: no proof has that in its name; --list shows them")
    if names:
        for proof in chosen:
            console.print(proof.name)
        return
    if json:
        check_output(json)
    began, results = time.monotonic(), {}
    for n, proof in enumerate(chosen, 1):
        console.print(f"{n:3}/{len(chosen)}  {proof.name:32}", end="")
        result = results[proof.name] = proof.run()
        console.print(f"{result.seconds:6.1f} s  {result.text}", markup=False)
    bad = [name for name, result in results.items() if not result.good]
    refused = sum(proof.must_fail for proof in chosen)
    console.print(f"{len(chosen) - refused} proofs by induction, {refused} weakened constants, "
                  f"{time.monotonic() - began:.0f} s: {'wrong: ' + ', '.join(bad) if bad else 'all as it should be'}",
                  markup=False)
    if json:
        write_json(json, {name: {"good": r.good, "text": r.text, "seconds": r.seconds} for name, r in results.items()})
    raise typer.Exit(1 if bad else 0)


def main():
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
