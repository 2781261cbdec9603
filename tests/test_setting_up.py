"""The commands `install` and `sync`: results on standard output, progress on standard error, only people are asked."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import AUGUST, checkout
from installer_stand_in import BEHAVIOUR, write_program

from rlguide.checkout import REVISION, VARIABLE

PROGRAM = [sys.executable, "-c", "from rlguide.cli import main; main()"]
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of the guide's release without its environment; nobody outside is asked."""
    write_program(tmp_path / "bin" / "uv", "uv")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    fails = {"pip": "error: Connection refused", "sync": "No space left on device"}
    monkeypatch.setenv(BEHAVIOUR, json.dumps({"calls": str(tmp_path / "calls"), "fails": fails}))
    checkout(tmp_path / "prime-rl")
    return tmp_path


@pytest.fixture
def cli(folder: Path) -> Cli:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [*PROGRAM, *arguments]
        return subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL, check=False
        )

    return run


def test_a_dry_run_shows_each_command_on_standard_output(cli: Cli, folder: Path):
    done = cli("install", "--engine", "prime-rl", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"--depth 1 https://github.com/PrimeIntellect-ai/prime-rl.git {REVISION}" in done.stdout
    assert f"{folder}/home/prime-rl" in done.stdout
    assert "sync --frozen --inexact --extra flash-attn" in done.stdout


def test_json_has_every_part(cli: Cli):
    done = cli("install", "--engine", "prime-rl", "--checkout", "prime-rl", "--dry-run", "--json")

    parts = json.loads(done.stdout)
    assert [(part["title"], part["state"]) for part in parts] == [
        ("source", "there"),
        ("packages", "to do"),
        ("environment", "to do"),
        ("verification", "to do"),
        ("policy", "to do"),
    ]


def test_a_dry_run_of_what_cannot_be_done_here_names_it_and_ends_with_2(cli: Cli, folder: Path):
    (folder / "bin" / "uv").unlink()

    done = cli("install", "--engine", "prime-rl", "--dry-run")
    parts = json.loads(cli("install", "--engine", "prime-rl", "--dry-run", "--json").stdout)

    assert (done.returncode, done.stderr) == (2, "")
    assert "cannot be done  uv: not found on PATH; fix: pip install uv" in done.stdout
    assert "packages, downloads more than 4 GB" in done.stdout
    assert [part["title"] for part in parts if part["state"] == "cannot be done"] == ["packages"]


def test_another_release_is_no_dry_run_that_went_well(cli: Cli, folder: Path):
    checkout(folder / "august", AUGUST)

    done = cli("install", "--engine", "prime-rl", "--checkout", "august", "--dry-run")

    assert done.returncode == 2
    assert "your checkout wants" in done.stdout


def test_nobody_is_asked_where_nobody_can_answer_and_a_failure_is_told_in_four_parts(cli: Cli, folder: Path):
    done = cli("install", "--engine", "prime-rl", "--checkout", "prime-rl")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "Go on?" not in done.stderr
    assert "error: env UV_PROJECT_ENVIRONMENT=.venv uv --directory" in done.stderr
    assert "the disk is full" in done.stderr
    assert f"look: {folder}" in done.stderr
    assert "hint: free some space" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("answer", "code", "called"), [("n", 1, False), ("y", 2, True)])
def test_people_are_asked_before_what_takes_long(folder: Path, answer: str, code: int, called: bool):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    argv = [*PROGRAM, "install", "--engine", "prime-rl", "--checkout", "prime-rl"]

    done = subprocess.run(argv, cwd=folder, stdin=terminal, capture_output=True, text=True, timeout=90, check=False)

    for end in (keyboard, terminal):
        os.close(end)
    assert "This downloads more than 4 GB, which takes several minutes. Go on?" in done.stdout + done.stderr
    assert done.returncode == code
    assert (folder / "calls").exists() == called


def test_another_release_is_refused_with_what_differs(cli: Cli, folder: Path):
    checkout(folder / "august", AUGUST)

    done = cli("install", "--engine", "prime-rl", "--checkout", "august")

    assert done.returncode == 2
    assert "your checkout wants" in done.stderr
    assert "[monitors.wandb]" in done.stderr
    assert "hint: make a checkout of its own: rlguide install --engine prime-rl --checkout" in done.stderr


def test_sync_shows_its_command_and_the_way_to_jupyterlab(cli: Cli, folder: Path):
    for name in ("rsync", "ssh"):
        (folder / "bin" / name).symlink_to("/bin/true")
    done = cli("sync", "ada@node", "--checkout", "prime-rl", "--dest", "there", "--dry-run")

    assert done.returncode == 0
    assert done.stdout.startswith("rsync ")
    assert "ada@node:there/" in done.stdout
    assert "would copy 4 files, 0.0 MB; left out: .git, .venv" in done.stdout
    assert "ssh -N -L" in done.stdout


def test_sync_without_a_checkout_shows_what_it_would_run_and_does_not_end_well(cli: Cli, folder: Path):
    done = cli("sync", "ada@node", "--dry-run")

    assert done.returncode == 2
    assert done.stdout.startswith("rsync ")
    assert f"{folder}/home/prime-rl/ ada@node:prime-rl/" in done.stdout
    assert "error: there is no checkout of prime-rl in ~/prime-rl" in done.stderr


def test_sync_refuses_what_is_no_host(cli: Cli):
    done = cli("sync", "--checkout", "prime-rl", "--", "-oProxyCommand=x")

    assert done.returncode == 2
    assert "is no user@host" in done.stderr
