"""Programs that are asked something are gone afterwards, however the asking ends, and so is all that they started."""

import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from toy import eventually

from rlguide.child import answer_of, program

DAEMON = "import subprocess as s; s.Popen(['sleep', '60'], start_new_session=True, stdout=s.DEVNULL, stderr=s.DEVNULL)"
DOCTOR = [sys.executable, "-P", "-c", "from rlguide.cli import main; main()", "doctor"]
AT = "RLGUIDE_TESTED_AT"


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Finds what this test has started, by a variable that everything inherits."""
    monkeypatch.setenv(AT, str(tmp_path))

    def find() -> list[str]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid != os.getpid() and process.environ().get(AT) == str(tmp_path):
                    found += [" ".join(process.cmdline())] if process.status() != psutil.STATUS_ZOMBIE else []
        return found

    return find


@pytest.mark.parametrize("end", ["", "; import time; time.sleep(60)"])
def test_a_program_that_left_its_session_ends_with_the_one_that_started_it(started: Callable[[], list[str]], end: str):
    answer_of((sys.executable, "-c", DAEMON + end), limit_s=2)

    eventually(lambda: not started())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whoever_ends_the_doctor_leaves_no_child_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[[], list[str]], number: int
):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with subprocess.Popen([*DOCTOR, "--only", "packages"], stderr=subprocess.DEVNULL) as doctor:
        eventually(lambda: any("try_imports.py torch" in line for line in started()))

        doctor.send_signal(number)

    eventually(lambda: not started())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_child_of_the_doctor_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[[], list[str]], number: int
):
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n"{sys.executable}" -c "{DAEMON}"\nsleep 60 & sleep 60')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("fake_nvml")))
    monkeypatch.setenv("FAKE_NVML", '{"init": 12}')
    with subprocess.Popen([*DOCTOR, "--only", "gpus"], stderr=subprocess.DEVNULL) as doctor:
        eventually(lambda: sum(line == "sleep 60" for line in started()) == 3)

        doctor.send_signal(number)

    eventually(lambda: not started())


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A virtual environment that sees the packages of this Python, but has none of their programs."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "this.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder / "bin" / "python"


def test_a_program_is_found_whose_script_is_in_the_folder_of_another_python(beside: Path):
    code = "import subprocess; from rlguide.child import program; subprocess.run([*program('py.test'), '--version'])"
    done = subprocess.run([beside, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert not (beside.parent / "py.test").exists()
    assert done.stdout + done.stderr == f"pytest {pytest.__version__}\n"


def test_a_program_ends_as_its_script_would():
    done = subprocess.run([*program("pytest"), "--no-such-option"], capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "usage: pytest [options]" in done.stderr
