"""What all tests share: runs go to a folder of the test's own, and a way to ask a fresh interpreter."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toy import nothing_left as nothing_left

from rlguide.paths import OUTPUTS_VARIABLE

pytest_plugins = ("fault_table",)
ROOT = Path(__file__).resolve().parent.parent

NEEDS_LOCAL = (
    "accounts", "checks", "cli", "console", "display", "environment", "environment_yml", "evaluation", "fitted",
    "form", "glossary", "gpus", "headless", "hostile_machines", "import_cost", "import_trial", "links", "live",
    "pictures", "plots", "progress", "proxies", "reporting", "secrets", "server", "tokenizer", "trl_engine",
    "verified_runs", "warm_start", "words", "workflows",
)  # fmt: skip
"""Test modules, beside those that train, that need the packages of the extras `local` and `notebooks`."""
ONCE = ("installing", "makefile", "prime_rl_runs", "prime_rl_stand_in", "wheel")
"""Test modules that take long and say the same on every Python."""


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
