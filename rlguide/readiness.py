"""Whether prime-rl can start in its own virtual environment: imports tried there, in a child process."""

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rlguide.checkout import revision_of, venv_python
from rlguide.child import answer_of
from rlguide.errors import EngineMissing
from rlguide.files import write_atomically
from rlguide.paths import PACKAGE, outputs_root

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


class Import(NamedTuple):
    """How importing one module went."""

    is_there: bool
    seen: str
    """Version and file, or what went wrong."""


def try_imports(checkout: Path, modules: Sequence[str] = MODULES) -> dict[str, Import]:
    """Import each module in the checkout's virtual environment; a crash there is an answer, not a crash here."""
    python = venv_python(checkout)
    try:
        argv = [python, "-P", PACKAGE / "programs" / "try_imports.py", *modules]
        answer = answer_of(argv, limit_s=LIMIT_S) if python.exists() else None
    except OSError as error:
        return dict.fromkeys(modules, Import(False, f"{python} cannot be started: {error}"))
    if answer is None:
        return dict.fromkeys(modules, Import(False, f"there is no virtual environment in {checkout / '.venv'}"))
    lines = (line for line in answer.out.splitlines() if line.startswith('{"module"'))  # Python's start may print, too
    told = {row["module"]: row for row in map(json.loads, lines)}
    end = f"still importing after {LIMIT_S:.0f} s" if answer.code is None else f"Python ended ({answer.code})"
    return {module: _judged(told.get(module), end, answer.said) for module in modules}


def _judged(row: dict[str, str] | None, end: str, said: str) -> Import:
    if row is None:
        return Import(False, f"not tried: {end} before: {said}")
    if "seconds" in row:  # only a module that was imported has them
        return Import(True, f"{row['version']} from {row['file']}".strip())
    return Import(False, row.get("error") or f"{end} while importing it: {said}")


def problem_of(imports: dict[str, Import]) -> str | None:
    """The first module that cannot be imported, and why; `None` when all can."""
    return next((f"{module}: {found.seen}" for module, found in imports.items() if not found.is_there), None)


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
        return json.loads((outputs_root() / LAST_WELL).read_bytes())
    except (OSError, ValueError):
        return None
