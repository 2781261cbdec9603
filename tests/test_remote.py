"""A checkout is copied with the guide's excludes by the very command that is shown; what can be no host is refused."""

import shlex
import stat
from pathlib import Path

import pytest
from checkouts import AUGUST, GUIDE, checkout

from rlguide.checkout import VARIABLE
from rlguide.errors import ConfigError, RlguideError
from rlguide.remote import EXCLUDED, sync

RSYNC = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word" >> {calls}; done
exit {code}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return checkout(tmp_path / "a checkout", GUIDE)


def stand_in(folder: Path, name: str, *, code: int = 0) -> Path:
    """A program that writes down its arguments and ends; returns the file that gets them."""
    program, calls = folder / "bin" / name, folder / f"{name}.calls"
    program.parent.mkdir(exist_ok=True)
    program.write_text(RSYNC.format(calls=shlex.quote(str(calls)), code=code))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return calls


def test_the_checkout_goes_with_the_guides_excludes_by_the_command_that_was_shown(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
):
    calls, said = stand_in(tmp_path, "rsync"), []
    stand_in(tmp_path, "ssh")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")

    sync("ada@node-1", checkout=source, dest="with blanks/prime-rl", say=said.append)

    shown = shlex.split(said[0])
    assert shown[0] == "rsync"
    assert shown[1:] == calls.read_text().splitlines()
    assert shown[-2:] == [f"{source}/", "ada@node-1:with blanks/prime-rl/"]
    assert [word.removeprefix("--exclude=") for word in shown if word.startswith("--exclude=")] == list(EXCLUDED)
    assert set(EXCLUDED) == {".git", ".venv", "outputs", "logs", "__pycache__", ".pytest_cache", ".ruff_cache"}
    assert "--delete" not in shown


def test_the_way_to_its_jupyterlab_is_told_and_a_dry_run_starts_nothing(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
):
    calls, said = stand_in(tmp_path, "rsync"), []
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    sync("ada@node-1", checkout=source, dry_run=True, say=said.append)

    assert "ssh -N -L 8888:localhost:8888 ada@node-1" in said[-1]
    assert "rlguide install --engine prime-rl --checkout prime-rl" in said[-2]
    assert not calls.exists()


def test_a_release_that_is_built_from_its_history_is_told(source: Path):
    said = []
    sync("node", checkout=checkout(source.parent / "august", AUGUST), dry_run=True, say=said.append)

    assert "may take versions from .git" in said[1]


@pytest.mark.parametrize(
    "target", ["", "-oProxyCommand=evil", "a b", "ada@", "@node", "ada@node:dir", "/tmp/x", "a;b", "ada@-x", "a@b@c"]
)
def test_what_can_be_no_host_is_refused(source: Path, target: str):
    with pytest.raises(ConfigError, match=r"is no user@host"):
        sync(target, checkout=source, dry_run=True)


@pytest.mark.parametrize("target", ["node", "ada@node-1.example.com", "ada@10.0.0.1", "ada.b-c@[::1]"])
def test_hosts_as_ssh_takes_them_are_accepted(source: Path, target: str):
    sync(target, checkout=source, dry_run=True, say=lambda line: None)


@pytest.mark.parametrize(
    ("code", "reason"), [(255, "ssh did not get there"), (127, "not installed there"), (23, "not everything"), (5, "5")]
)
def test_a_failure_is_told_with_its_reason(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
):
    stand_in(tmp_path, "rsync", code=code)
    stand_in(tmp_path, "ssh")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")

    with pytest.raises(RlguideError, match=reason):
        sync("node", checkout=source, say=lambda line: None)


@pytest.mark.parametrize("there", ["rsync", "ssh"])
def test_a_program_that_is_missing_here_is_told(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, there: str
):
    stand_in(tmp_path, there)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(RlguideError, match="is not installed here"):
        sync("node", checkout=source, say=lambda line: None)


def test_without_a_checkout_there_is_nothing_to_copy(source: Path):
    with pytest.raises(ConfigError, match="there is no checkout"):
        sync("node")
    with pytest.raises(ConfigError, match="is no checkout of prime-rl"):
        sync("node", checkout=source.parent)
