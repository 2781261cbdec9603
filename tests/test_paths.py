"""All programs of a project find the same outputs folder, whatever folder they start in."""

from pathlib import Path

import pytest

from rlguide.paths import OUTPUTS_VARIABLE, RunFiles, is_project_root, outputs_root


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(OUTPUTS_VARIABLE)
    root = tmp_path / "project"
    (root / "rlguide").mkdir(parents=True)
    (root / "notebooks").mkdir()
    (root / "pyproject.toml").touch()
    (root / "rlguide" / "paths.py").touch()
    return root


def test_the_variable_decides(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(OUTPUTS_VARIABLE, str(tmp_path / "elsewhere"))

    assert outputs_root(project) == tmp_path / "elsewhere"


def test_a_relative_variable_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(OUTPUTS_VARIABLE, "here")

    assert outputs_root() == tmp_path / "here"


@pytest.mark.parametrize("start", [".", "notebooks"])
def test_the_project_is_found_upward(project: Path, start: str):
    assert outputs_root(project / start) == project / "outputs"


def test_the_working_directory_decides_when_no_start_is_given(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(project / "notebooks")

    assert outputs_root() == project / "outputs"


def test_outside_a_project_outputs_are_where_one_starts(tmp_path: Path, project: Path):
    assert outputs_root(tmp_path) == tmp_path / "outputs"


def test_another_project_with_a_pyproject_is_not_ours(tmp_path: Path):
    (tmp_path / "pyproject.toml").touch()

    assert not is_project_root(tmp_path)


def test_looking_for_the_folder_does_not_make_it(project: Path):
    assert not outputs_root(project).exists()


def test_the_files_of_a_run_are_absolute_and_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    files = RunFiles(Path("outputs/one"))

    assert all(path.is_relative_to(tmp_path / "outputs" / "one") for path in vars(files).values())
