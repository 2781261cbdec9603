"""Copies a checkout of prime-rl to another machine, and says how to work there from this one's browser."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from rlguide.checkout import DEFAULT, checkout_place, find_checkout, release_of
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

    What is there and not here stays. With `dry_run` all is told, also what would be copied, and nothing is.
    Raises `ConfigError` for what can be no host, and `RlguideError` when it fails or cannot be done from here.
    """
    source, problem = checkout_place(checkout), _problem(checkout)
    argv = command(source, target, dest)
    if problem and not dry_run:
        raise problem
    say(shlex.join(argv))
    release = release_of(source)
    if source.is_dir() and not release.is_supported:
        say(f"note: {release} may take versions from .git when it is built, which is left out")
    if dry_run:
        say(f"would copy {_amount(source)}; left out: {', '.join(EXCLUDED)}")
    else:
        _run(argv, target)
    place, host = shlex.quote(dest), shlex.quote(target)
    say(f"there, with rlguide installed: rlguide install --engine prime-rl --checkout {place}; make lab")
    say(f"here, for its JupyterLab: ssh -N -L {PORT}:localhost:{PORT} {host}")
    if problem:
        raise problem


def command(source: Path, target: str, dest: str) -> tuple[str, ...]:
    """What copies `source`. Raises `ConfigError` for a target that would be read as an option or a path."""
    if not HOST.fullmatch(target):
        raise ConfigError(f"{target!r} is no user@host", hint="for example: rlguide sync ada@node-1")
    excludes = (f"--exclude={name}" for name in EXCLUDED)
    there = f"{target}:{dest.removeprefix('~/')}/"
    return ("rsync", "--archive", "--compress", "--protect-args", "--partial", *excludes, f"{source}/", there)


def _problem(checkout: str | Path | None) -> RlguideError | None:
    """Why nothing can be copied from here. Raises `ConfigError` for a folder that was named and is no checkout."""
    if find_checkout(checkout) is None:
        hint = "name one with --checkout, or make one, here or there: rlguide install --engine prime-rl"
        return ConfigError(f"there is no checkout of prime-rl in {DEFAULT}", hint=hint)
    absent = (name for name in ("rsync", "ssh") if shutil.which(name) is None)
    told = (RlguideError(f"{name} is not installed here, or not on PATH", hint=f"install {name}") for name in absent)
    return next(told, None)


def _amount(source: Path) -> str:
    """How much there is to copy."""
    sizes = []
    for folder, folders, names in os.walk(source):
        folders[:] = set(folders) - set(EXCLUDED)
        sizes += [Path(folder, name).lstat().st_size for name in names if name not in EXCLUDED]
    return f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB" if sizes else f"what will be in {source}"


def _run(argv: tuple[str, ...], target: str) -> None:
    """In the terminal of this program: ssh may have to ask for a password."""
    code = subprocess.run(argv, check=False).returncode
    if code:
        reason = REASONS.get(code, "see what it says above")
        raise RlguideError(f"rsync ended with {code}: {reason}", hint=f"ssh {shlex.quote(target)} true; then again")
