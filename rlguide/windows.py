"""A tmux session in which the logs of a run can be read side by side. The run neither needs nor notices it."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rlguide.environ import inherited
from rlguide.errors import EngineMissing

LINES = 200
"""Of each log, to begin with."""
LIMIT_S = 10


def open_windows(name: str, logs: Mapping[str, Path]) -> str:
    """Follow `logs` (component → file) in a tmux session, one pane each; returns how to see, leave and end it.

    A session that is there is left as it is. Raises `EngineMissing` when there is no tmux, or it refuses.
    """
    if shutil.which("tmux") is None:
        follow = shlex.join(["tail", "-F", *map(str, logs.values())])
        raise EngineMissing("there is no tmux here", hint=f"install it, or follow the logs with: {follow}")
    session = f"rlguide-{name}".translate({ord("."): "_", ord(":"): "_"})  # tmux takes both for its own separators
    if _tmux("has-session", "-t", f"={session}").returncode != 0:
        first, *rest = (_follow(component, log) for component, log in logs.items())
        _require(_tmux("new-session", "-d", "-s", session, "-n", "logs", first))
        for command in rest:
            _require(_tmux("split-window", "-t", f"={session}:logs", command))
            _require(_tmux("select-layout", "-t", f"={session}:logs", "even-vertical"))
    named = shlex.quote(session)
    return f"see them: tmux attach -t {named} (Ctrl-b d leaves)\nend that: tmux kill-session -t {named}"


def _follow(component: str, log: Path) -> str:
    return f"echo {shlex.quote(f'{component}: {log}')}; exec tail -n {LINES} -F {shlex.quote(str(log))}"


def _tmux(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ("tmux", *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=inherited(),
        check=False,
    )


def _require(done: "subprocess.CompletedProcess[str]") -> None:
    if done.returncode != 0:
        told = done.stderr.strip() or f"exit code {done.returncode}"
        raise EngineMissing(f"tmux refused to show the logs: {told}", hint="`rlguide watch` follows the run without it")
