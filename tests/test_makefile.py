"""`make install` installs what is asked for, once, and says what comes next; `make lab` opens for every user."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIP = """#!/bin/sh
echo "$@" >> installed.log
"""
"""Stands for the Python of the virtual environment: writes down what it was asked to install."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The Makefile with what it looks at, and a virtual environment whose Python installs nothing."""
    for name in ("Makefile", "pyproject.toml", "constraints"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path


def output_of_make(project: Path, *arguments: str, programs: Path | None = None) -> str:
    """Run make; returns what it printed. `programs` come before those of the machine."""
    # A make around these tests hands its own settings down.
    handed = {"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "PYTHON", "VENV", "CONSTRAINTS", "EXTRAS", "ARGS"}
    alone = {name: value for name, value in os.environ.items() if name not in handed}
    alone["PATH"] = f"{programs or project}:{alone['PATH']}"
    argv = ["make", *arguments]
    return subprocess.run(argv, cwd=project, env=alone, capture_output=True, text=True, timeout=60, check=True).stdout


def make(project: Path, *arguments: str) -> list[str]:
    """Run make; returns the installations so far, as constraints and extras."""
    output_of_make(project, *arguments)
    calls = (project / "installed.log").read_text().splitlines()
    return [f"{call.split('--constraint ')[1].split()[0]} {call.split('[')[1].rstrip(']')}" for call in calls]


CPU = "constraints/cpu.txt local,notebooks,wandb,dev"
GPU = "constraints/gpu.txt gpu,dev"
ASKED = ("CONSTRAINTS=constraints/gpu.txt", "EXTRAS=gpu,dev")


def test_the_same_again_installs_nothing(project: Path):
    make(project, "install")

    assert make(project, "install") == [CPU]


def test_other_settings_install_again_once(project: Path):
    make(project, "install")

    assert make(project, "install", *ASKED) == [CPU, GPU]
    assert make(project, "install", *ASKED) == [CPU, GPU]


def test_what_was_asked_for_stays_until_something_else_is(project: Path):
    make(project, "install", *ASKED)

    assert make(project, "install") == [GPU]
    assert make(project, "install", "EXTRAS=dev") == [GPU, "constraints/gpu.txt dev"]


def test_a_change_of_the_requirements_installs_the_same_settings_anew(project: Path):
    make(project, "install", *ASKED)
    (project / "pyproject.toml").write_text("# changed")
    stamp = project / ".venv" / "installed"
    later = stamp.stat().st_mtime + 5
    os.utime(project / "pyproject.toml", (later, later))

    assert make(project, "install") == [GPU, GPU]


def test_an_installation_that_fails_is_done_again(project: Path):
    python = project / ".venv" / "bin" / "python"
    python.write_text(PIP + "exit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        make(project, "install")
    python.write_text(PIP)

    assert make(project, "install") == [CPU, CPU]


def test_an_installation_ends_with_what_comes_next_also_when_it_was_there(project: Path):
    first, again = (output_of_make(project, "install").splitlines()[-1] for _ in range(2))

    assert first == again
    assert "make lab" in first
    assert "source .venv/bin/activate" in first


def test_an_installation_puts_the_clone_on_the_path(project: Path):
    packages = project / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)

    make(project, "install")

    assert (packages / "rlguide_clone.pth").read_text() == f"{project}\n"


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_jupyterlab_opens_for_root_too_and_is_told_so_only_then(project: Path, user: int, allowed: bool):
    programs = project / "programs"
    programs.mkdir()
    for path, script in ((programs / "id", f"echo {user}"), (project / ".venv/bin/jupyter", 'echo "$@"')):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    (command,) = [line for line in output_of_make(project, "lab", programs=programs).splitlines() if line[:4] == "lab "]

    assert ("--allow-root" in command.split()) == allowed
