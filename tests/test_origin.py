"""What something was made with: versions without imports, the commit of a checkout, hardware, date."""

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import rlguide
from rlguide.origin import commit_of, processor
from rlguide.records import Provenance


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@t.example")
    argv = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that looks like this project, with one commit."""
    (tmp_path / "rlguide").mkdir()
    for name in ("pyproject.toml", "rlguide/paths.py"):
        (tmp_path / name).touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_versions_are_those_of_the_installed_packages():
    found = rlguide.provenance()

    assert found.packages["rlguide"] == rlguide.__version__
    assert found.python == sys.version.split()[0]
    assert "not-installed" not in found.packages
    assert datetime.fromisoformat(found.made_at).tzinfo is not None


def test_finding_out_imports_nothing_of_what_it_names(fresh_python: Callable[[str], str]):
    code = "import rlguide, sys; rlguide.provenance(); print({'torch', 'trl', 'papermill'} & set(sys.modules))"

    assert fresh_python(code) == "set()\n"


def test_a_record_survives_json():
    found = rlguide.provenance()

    assert Provenance.model_validate_json(found.model_dump_json()) == found


def test_a_checkout_names_its_commit_and_whether_the_package_was_changed(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")

    assert commit_of(checkout) == (commit, False)

    (checkout / "page.ipynb").touch()
    assert commit_of(checkout) == (commit, False)

    (checkout / "rlguide" / "new.py").touch()
    assert commit_of(checkout) == (commit, True)


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path, checkout: Path):
    (checkout / "pyproject.toml").unlink()

    assert commit_of(checkout) == (None, None)
    assert commit_of(tmp_path / "absent") == (None, None)


def test_without_git_the_commit_is_unknown(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(checkout))

    assert commit_of(checkout) == (None, None)


def test_the_processor_has_a_name(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Example 9000\n")

    assert processor(tmp_path / "cpuinfo") == "Example 9000"
    assert processor(tmp_path / "absent")
