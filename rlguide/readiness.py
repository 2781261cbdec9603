"""Whether prime-rl can start in its own virtual environment: imports tried there, in a child process."""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlguide.asking import Finding
from rlguide.checkout import revision_of, venv_python
from rlguide.errors import EngineMissing
from rlguide.files import read_file, write_atomically
from rlguide.import_trial import ImportTrial
from rlguide.paths import outputs_root
from rlguide.records import Status

ENVIRONMENT = "reverse_text"
PARTS = ("flash_attn", "verifiers", "vllm", "prime_rl.entrypoints.rl")
"""What a run imports first; flash-attn too, whatever attention the trainer is told to use.

ring_flash_attn comes with the last: alone it fails, because prime-rl first puts back what it misses in transformers.
"""
MODULES = (*PARTS, ENVIRONMENT)
LAST_WELL = ".prime-rl-imports.json"
"""In the outputs folder: what was installed when all imports went well for the last time."""
LIMIT_S = 300.0
"""Seconds for all imports. Warm it takes a few; the first ones after an installation are compiled meanwhile."""


def try_imports(checkout: Path) -> dict[str, Finding]:
    """How importing each of `MODULES` in the checkout's virtual environment goes; a crash there is none here."""
    python = venv_python(checkout)
    trial = ImportTrial(MODULES, python=python, limit_s=LIMIT_S)
    try:
        if python.exists():
            return {module: trial.find(module) for module in MODULES}
        problem = f"there is no virtual environment in {checkout / '.venv'}"
    except OSError as error:
        problem = f"{python} cannot be started: {error}"
    return dict.fromkeys(MODULES, Finding(Status.FAIL, problem))


def problem_of(imports: Mapping[str, Finding]) -> str | None:
    """The first module that cannot be imported, and why; `None` when all can."""
    failed = (f"{module}: {found.seen}" for module, found in imports.items() if found.status is not Status.PASS)
    return next(failed, None)


def require_ready(checkout: Path) -> None:
    """Import what a run needs, right before it starts. Raises `EngineMissing` with the way to repair it.

    That takes ten seconds and more. Where all was well, it is not done again until something there is installed or
    removed.
    """
    found = _installed(checkout)
    if _last_well() == found:
        return
    if problem := problem_of(try_imports(checkout)):
        repair = f"repair it with: rlguide install --engine prime-rl --checkout {shlex.quote(str(checkout))}"
        raise EngineMissing(f"prime-rl cannot start here: {problem}", look=checkout / ".venv", hint=repair)
    with suppress(OSError):  # a folder that cannot be written: then they are imported every time
        outputs_root().mkdir(parents=True, exist_ok=True)
        write_atomically(outputs_root() / LAST_WELL, json.dumps(found))


def _installed(checkout: Path) -> dict[str, Any]:
    """Changes whenever a package is installed into the checkout's virtual environment, or removed from it."""
    folders = sorted((checkout / ".venv").glob("lib/python*/site-packages"))
    return {
        "checkout": str(checkout),
        "revision": revision_of(checkout),
        "changed": [folder.stat().st_mtime_ns for folder in folders],
    }


def _last_well() -> Any:
    try:
        return json.loads(read_file(outputs_root() / LAST_WELL))
    except (OSError, ValueError):
        return None
