"""Waiting is told on a terminal only, where it is worth a word, and leaves no trace."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rlguide.gpus import NO_LIBRARY

PROGRAM = [sys.executable, "-c", "from rlguide.cli import main; main()", "doctor", "--only"]
TOLD = "looking at this machine …"


@pytest.fixture(autouse=True)
def _an_nvidia_smi_that_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nsleep 1.5; echo 'No devices were found'; exit 6\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("fake_nvml")))
    monkeypatch.setenv("FAKE_NVML", json.dumps({"init": NO_LIBRARY}))


def on_a_terminal(*arguments: str) -> tuple[str, str]:
    """What the doctor prints, and what it shows meanwhile on a terminal that gets its standard error alone."""
    terminal, end = pty.openpty()
    done = subprocess.run([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=end, text=True, timeout=60, check=True)
    os.write(end, b"$")  # so that there is something to read
    os.close(end)
    shown = os.read(terminal, 4096).decode()
    os.close(terminal)
    return done.stdout, shown.removesuffix("$")


def test_a_look_that_takes_its_time_is_told_on_a_terminal_and_erased():
    printed, shown = on_a_terminal("gpus")

    assert shown == f"{TOLD}\r{' ' * len(TOLD)}\r"
    assert printed.startswith("Nothing is missing of what was asked: GPUs.")


@pytest.mark.parametrize("arguments", [["python"], ["gpus", "--json"]], ids=["a moment", "for programs"])
def test_a_moment_and_a_program_are_told_nothing(arguments: list[str]):
    assert on_a_terminal(*arguments)[1] == ""


def test_a_log_is_told_nothing():
    done = subprocess.run([*PROGRAM, "gpus"], capture_output=True, text=True, timeout=60, check=True)

    assert done.stderr == ""
