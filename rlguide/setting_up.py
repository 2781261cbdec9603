"""The commands that set prime-rl up: `install` and `sync`. As in `cli`: parse, make one call, print."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rlguide import console, installing, remote

Checkout = Annotated[Path | None, typer.Option(metavar="DIR", help="prime-rl's folder, instead of ~/prime-rl.")]


def install(
    engine: Annotated[str, typer.Option(help="prime-rl; auto or trl: look at what trl needs.")] = "auto",
    checkout: Checkout = None,
    wheel: Annotated[str | None, typer.Option(help="Address or file of the environment's wheel.")] = None,
    policy: Annotated[str | None, typer.Option(help="Policy to download, instead of the run guide's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Install an engine, or see that it is installed.

    A dry run ends with 2 when something cannot be done here.
    """
    asked = sys.stdin is not None and sys.stdin.isatty() and not yes
    found = installing.install(
        engine,
        checkout=checkout,
        wheel=wheel,
        policy=policy,
        dry_run=dry_run,
        ask=console.confirmed if asked else None,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    rows = [part.model_dump(mode="json") for part in found.parts]
    print(json.dumps(rows, indent=2) if as_json else found.text)
    if any(part.state == "cannot be done" for part in found.parts):
        raise typer.Exit(console.CANNOT)


def sync(
    target: Annotated[str, typer.Argument(metavar="USER@HOST", help="Where to, as ssh takes it.")],
    dest: Annotated[str, typer.Option(help="Folder in the home there.")] = "prime-rl",
    checkout: Checkout = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and copy nothing.")] = False,
) -> None:
    """Copy prime-rl's checkout to another machine."""
    remote.sync(target, dest=dest, checkout=checkout, dry_run=dry_run)
