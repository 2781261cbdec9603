"""What all tests share: runs go to a folder of the test's own, and a way to ask a fresh interpreter."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from light_core import NEEDS_LOCAL, ONCE
from toy import nothing_left as nothing_left

from rlguide.paths import OUTPUTS_VARIABLE

pytest_plugins = ("fault_table",)
ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--core", action="store_true", help="only tests of the light core, for a Python without torch")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    modules = (f"test_{name}.py" for name in (*NEEDS_LOCAL, *ONCE))
    left_out = collection_path.name in {"training", "notebooks", "faults", *modules}
    return True if config.getoption("--core") and left_out else None


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The outputs folder of this test; child processes inherit it."""
    folder = tmp_path / "outputs"
    monkeypatch.setenv(OUTPUTS_VARIABLE, str(folder))
    return folder


@pytest.fixture
def fresh_python() -> Callable[[str], str]:
    """Runs code in a new interpreter and returns what it printed."""

    def run(code: str) -> str:
        argv = [sys.executable, "-c", code]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=os.environ)
        return done.stdout

    return run
