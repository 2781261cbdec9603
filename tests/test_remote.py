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
    """A checkout, on a machine with rsync and ssh."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    for name in ("rsync", "ssh"):
        stand_in(tmp_path, name)
    return checkout(tmp_path / "a checkout", GUIDE)


def stand_in(folder: Path, name: str, *, code: int = 0) -> Path:
    """A program that writes down its arguments and ends; returns the file that gets them."""
    program, calls = folder / "bin" / name, folder / f"{name}.calls"
    program.parent.mkdir(exist_ok=True)
    program.write_text(RSYNC.format(calls=shlex.quote(str(calls)), code=code))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return calls


def test_the_checkout_goes_with_the_guides_excludes_by_the_command_that_was_shown(tmp_path: Path, source: Path):
    calls, said = tmp_path / "rsync.calls", []

    sync("ada@node-1", checkout=source, dest="with blanks/prime-rl", say=said.append)

    shown = shlex.split(said[0])
    assert shown[0] == "rsync"
    assert shown[1:] == calls.read_text().splitlines()
    assert shown[-2:] == [f"{source}/", "ada@node-1:with blanks/prime-rl/"]
    assert [word.removeprefix("--exclude=") for word in shown if word.startswith("--exclude=")] == list(EXCLUDED)
    assert set(EXCLUDED) == {".git", ".venv", "outputs", "logs", "__pycache__", ".pytest_cache", ".ruff_cache"}
    assert "--delete" not in shown


def test_the_way_to_its_jupyterlab_is_told_and_a_dry_run_starts_nothing(tmp_path: Path, source: Path):
    calls, said = tmp_path / "rsync.calls", []

    sync("ada@node-1", checkout=source, dry_run=True, say=said.append)

    assert "ssh -N -L 8888:localhost:8888 ada@node-1" in said[-1]
    assert "rlguide install --engine prime-rl --checkout prime-rl" in said[-2]
    assert not calls.exists()


def test_a_dry_run_says_how_much_would_be_copied_and_what_is_left_out(source: Path):
    said: list[str] = []
    there = [path for path in source.rglob("*") if path.is_file()]
    for name in (".git/objects/one", ".venv/bin/python", "src/prime_rl/__pycache__/a.pyc", "outputs/x"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(bytes(3_000_000))
    (source / "src" / "large").write_bytes(bytes(1_500_000))

    sync("node", checkout=source, dry_run=True, say=said.append)

    assert f"would copy {len(there) + 1} files, 1.5 MB; left out: .git, .venv, outputs, logs" in said[1]


def test_a_dry_run_without_a_checkout_shows_the_command_and_says_that_there_is_nothing_yet(
    tmp_path: Path, source: Path
):
    said: list[str] = []

    with pytest.raises(ConfigError, match="there is no checkout of prime-rl in ~/prime-rl") as refused:
        sync("ada@node", dry_run=True, say=said.append)

    assert said[0].startswith("rsync ")
    assert said[0].endswith(f"{tmp_path}/prime-rl/ ada@node:prime-rl/")
    assert f"would copy what will be in {tmp_path}/prime-rl" in said[1]
    assert "ssh -N -L" in said[-1]
    assert "here or there: rlguide install --engine prime-rl" in refused.value.hint


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
def test_a_failure_is_told_with_its_reason(tmp_path: Path, source: Path, code: int, reason: str):
    stand_in(tmp_path, "rsync", code=code)

    with pytest.raises(RlguideError, match=reason):
        sync("node", checkout=source, say=lambda line: None)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("absent", ["rsync", "ssh"])
def test_a_program_that_is_missing_here_is_told_also_in_a_dry_run(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, absent: str, dry_run: bool
):
    said: list[str] = []
    (tmp_path / "bin" / absent).unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    with pytest.raises(RlguideError, match=f"{absent} is not installed here"):
        sync("node", checkout=source, dry_run=dry_run, say=said.append)

    assert bool(said) == dry_run


def test_without_a_checkout_there_is_nothing_to_copy(source: Path):
    with pytest.raises(ConfigError, match="there is no checkout"):
        sync("node")
    with pytest.raises(ConfigError, match="is no checkout of prime-rl"):
        sync("node", checkout=source.parent)
