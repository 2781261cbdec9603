"""Whether prime-rl can start: imports tried by the Python of its checkout."""

import sys
from pathlib import Path

import pytest

from rlguide.readiness import MODULES, problem_of, try_imports


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the Python of the checkout `tmp_path` finds all that it is asked for, and nothing else."""
    folder, python = tmp_path / "packages", tmp_path / ".venv" / "bin" / "python"
    for module in MODULES:
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_what_imports_is_told_with_its_file(tmp_path: Path, packages: Path):
    found = try_imports(tmp_path)

    assert problem_of(found) is None
    assert found["vllm"].seen == f"from {packages / 'vllm.py'}"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ImportError('undefined symbol: _ZN3c10')", "vllm: ImportError: undefined symbol: _ZN3c10"),
        ("import os; os.abort()", "vllm: Python ended with exit code -6 (SIGABRT) while importing it"),
        (None, "vllm: only a folder without code"),
    ],
)
def test_the_first_that_does_not_import_is_named_with_the_reason(
    tmp_path: Path, packages: Path, source: str | None, said: str
):
    if source is None:
        (packages / "vllm.py").unlink()
        (packages / "vllm").mkdir()
    else:
        (packages / "vllm.py").write_text(source)

    assert said in problem_of(try_imports(tmp_path))


def test_a_secret_in_the_words_of_an_import_is_taken_out(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_ThisIsASecretOfTheTests")
    (packages / "vllm.py").write_text("import os; raise OSError(os.environ['HF_TOKEN'])")

    assert problem_of(try_imports(tmp_path)).startswith("vllm: OSError: [HF_TOKEN]")


def test_a_python_that_is_not_there_or_does_not_start_is_a_finding(tmp_path: Path, packages: Path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text("#!/no/such/python\n")
    assert "cannot be started" in problem_of(try_imports(tmp_path))

    python.unlink()
    assert "there is no virtual environment" in problem_of(try_imports(tmp_path))
