"""Stand-ins for what an installation of prime-rl starts: `uv`, and in the environment that it makes `hf` and `rl`.

Real programs on PATH and a real virtual environment; git is the real one, and the package index is in `wheels`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

BEHAVIOUR = "INSTALLER_STAND_IN"
"""Variable that holds a `Behaviour` as JSON."""
DEFAULTS: dict[str, Any] = {
    "version": "uv 0.13.9 (x86_64-unknown-linux-gnu)",
    "fails": {},  # "sync" or "pip" → what it prints before it ends with 2
    "without": [],  # modules that a sync does not bring
    "broken": {},  # module → its source
    "central": False,  # without its variable, .venv becomes a link to a new one elsewhere: since 0.12, with `preview`
    "stays": False,  # a sync prints a line and then never ends
    "help_code": 0,  # of `rl --help`
    "policy": "whole",  # or "part", "refused"
    "calls": "",  # file that gets one line of JSON a call
}


def told() -> dict[str, Any]:
    return DEFAULTS | json.loads(os.environ.get(BEHAVIOUR, "{}"))


def note_call(program: str) -> None:
    with Path(told()["calls"]).open("a") as calls:
        calls.write(json.dumps([program, *sys.argv[1:]]) + "\n")


def write_program(path: Path, module: str) -> None:
    """A program that runs `module.main` of this package, also where its path has a blank in it."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r}); "
    code += f"from installer_stand_in.{module} import main; sys.exit(main())"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -c "{code}" "$@"\n')
    path.chmod(0o755)
