"""Checks of programs on PATH: uv, git, tmux, rsync and ssh, each only where it is needed."""

import re
import shutil
import tomllib
from pathlib import Path

from rlguide.asking import Finding
from rlguide.child import answer_of
from rlguide.files import read_text
from rlguide.records import Status

ANSWER_S = 4.0
OLDEST_UV = "0.9.25"
"""The oldest that reads the lock file of prime-rl at the guide's release; 0.9.24 refuses it."""
VERSION = re.compile(r"\d+(?:\.\d+)+\w*")
"""As git, tmux, rsync, ssh and uv write theirs."""


class Tool:
    """One program: how it tells its version, and what to do without it."""

    def __init__(self, name: str, *arguments: str, fix: str):
        self.name, self.arguments, self.fix = name, arguments or ("--version",), fix

    def look(self, *, lacking: Status = Status.FAIL) -> Finding:
        """Whether it can be started and is what it is called; without it the status is `lacking`."""
        finding = self._found()
        return finding._replace(status=lacking) if finding.status is Status.FAIL else finding

    def _found(self) -> Finding:
        path = shutil.which(self.name)
        if path is None:
            return Finding(Status.FAIL, "not found on PATH", self.fix)
        try:
            answer = answer_of((path, *self.arguments), limit_s=ANSWER_S)
        except OSError as error:
            return Finding(Status.FAIL, f"{path} cannot be started: {error.strerror}", self.fix)
        if answer.code is None:
            return Finding(Status.WARN, f"{path} did not answer within {ANSWER_S:g} s", f"see why it hangs: {path}")
        version = VERSION.search(answer.out + answer.err)
        if answer.code or version is None or self.name not in (answer.out + answer.err).lower():
            said = answer.said or "nothing"
            return Finding(Status.WARN, f"{path} said: {said} (exit code {answer.code})", f"is that {self.name}?")
        return Finding(Status.PASS, f"{version[0]} at {path}")


GIT = Tool("git", fix="install git")
TMUX = Tool("tmux", "-V", fix="install tmux, to look at logs in a window; nothing else needs it")
RSYNC = Tool("rsync", fix="install rsync, to copy to another machine")
SSH = Tool("ssh", "-V", fix="install an OpenSSH client, to reach another machine")
UV = Tool("uv", fix="pip install uv")


def look_at_uv(checkout: Path | None, *, least: str = OLDEST_UV, lacking: Status = Status.FAIL) -> Finding:
    """Whether uv is what a checkout asks for, and `least` at least: compared as numbers.

    An answer that cannot be understood is a doubt.
    """
    from packaging.specifiers import SpecifierSet

    finding = UV.look(lacking=lacking)
    if finding.status is not Status.PASS:
        return finding
    try:
        wanted = asked_by(checkout, "tool", "uv", "required-version")
        exactly = f"=={wanted}" if wanted[:1].isdecimal() else wanted
        asked = SpecifierSet(",".join(filter(None, (f">={least}", exactly))))
        fits = asked.contains(finding.seen.split()[0], prereleases=True)
    except (OSError, ValueError) as error:
        fix = "compare with required-version in the checkout's pyproject.toml"
        return Finding(Status.WARN, f"{finding.seen}; not compared: {error}", fix)
    if fits:
        return finding
    return Finding(lacking, f"{finding.seen}, and {asked} is needed", "uv self update, or pip install --upgrade uv")


def asked_by(checkout: Path | None, *keys: str) -> str:
    """What the project in a checkout asks for, for example `>=0.11.1`; empty when it asks nothing.

    Raises `OSError` or `ValueError` when that cannot be read.
    """
    if checkout is None:
        return ""
    table: object = tomllib.loads(read_text(checkout / "pyproject.toml"))
    for key in keys:
        table = table.get(key, "") if isinstance(table, dict) else ""
    return table if isinstance(table, str) else ""
