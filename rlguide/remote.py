"""Copies a checkout of prime-rl to another machine, and says how to work there from this one's browser."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from rlguide.checkout import DEFAULT, find_checkout, release_of
from rlguide.errors import ConfigError, RlguideError

EXCLUDED = (".git", ".venv", "outputs", "logs", "__pycache__", ".pytest_cache", ".ruff_cache")
"""What the run guide leaves behind: made anew there, or of no use there."""
HOST = re.compile(r"(?:[\w.-]+@)?(?:\w[\w.-]*|\[[\da-fA-F:]+\])")
PORT = 8888
REASONS = {
    12: "the two rsync did not understand each other: is it installed there?",
    23: "not everything could be copied: see what it says above",
    127: "rsync is not installed there",
    255: "ssh did not get there: try it alone",
}


def sync(
    target: str,
    *,
    dest: str = "prime-rl",
    checkout: str | Path | None = None,
    dry_run: bool = False,
    say: Callable[[str], object] = print,
) -> None:
    """Copy a checkout (as `find_checkout` finds it) to `dest` in the home of `target`, `user@host`, by rsync over ssh.

    What is there and not here stays. Raises `ConfigError` for what can be no host, and `RlguideError` when it fails.
    """
    source = find_checkout(checkout)
    if source is None:
        raise ConfigError(
            f"there is no checkout of prime-rl in {DEFAULT}",
            hint="name one with --checkout, or `rlguide install --engine prime-rl` makes one",
        )
    argv = command(source, target, dest)
    say(shlex.join(argv))
    release = release_of(source)
    if not release.is_supported:
        say(f"note: {release} may take versions from .git when it is built, which is left out")
    if not dry_run:
        _run(argv, target)
    place, host = shlex.quote(dest), shlex.quote(target)
    say(f"there, with rlguide installed: rlguide install --engine prime-rl --checkout {place}; make lab")
    say(f"here, for its JupyterLab: ssh -N -L {PORT}:localhost:{PORT} {host}")


def command(source: Path, target: str, dest: str) -> tuple[str, ...]:
    """What copies `source`. Raises `ConfigError` for a target that would be read as an option or a path."""
    if not HOST.fullmatch(target):
        raise ConfigError(f"{target!r} is no user@host", hint="for example: rlguide sync ada@node-1")
    excludes = (f"--exclude={name}" for name in EXCLUDED)
    there = f"{target}:{dest.removeprefix('~/')}/"
    return ("rsync", "--archive", "--compress", "--protect-args", "--partial", *excludes, f"{source}/", there)


def _run(argv: tuple[str, ...], target: str) -> None:
    """In the terminal of this program: ssh may have to ask for a password."""
    for name in ("rsync", "ssh"):
        if shutil.which(name) is None:
            raise RlguideError(f"{name} is not installed here, or not on PATH", hint=f"install {name}, then again")
    code = subprocess.run(argv, check=False).returncode
    if code:
        reason = REASONS.get(code, "see what it says above")
        raise RlguideError(f"rsync ended with {code}: {reason}", hint=f"ssh {shlex.quote(target)} true; then again")
