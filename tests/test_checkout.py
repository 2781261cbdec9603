"""A checkout of prime-rl is found, its release told from its files, and another than the guide's refused in words."""

import shutil
from pathlib import Path

import pytest
from checkouts import AUGUST, GUIDE, MIDDLE, checkout, git, repository

from rlguide.checkout import (
    OTHERWISE,
    REVISION,
    VARIABLE,
    difference_page,
    find_checkout,
    release_of,
    require_supported,
    revision_of,
    venv_bin,
    venv_python,
)
from rlguide.errors import ConfigError, EngineMissing

REVISION_AUGUST = "559b44772e471d1538537b8805cc77f3824a5e64"


@pytest.fixture(autouse=True)
def nothing_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


# ----------------------------------------------------------------------------------------------------------- where


def test_a_named_checkout_counts_before_the_variable_and_this_before_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    named, variable, home = (checkout(tmp_path / name) for name in ("named", "with blanks in it", "home/prime-rl"))

    assert find_checkout() == home
    monkeypatch.setenv(VARIABLE, str(variable))
    assert find_checkout() == variable
    assert find_checkout(str(named)) == named


def test_a_blank_variable_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "")

    assert find_checkout() is None


def test_without_any_there_is_none(tmp_path: Path):
    assert find_checkout() is None
    (tmp_path / "home" / "prime-rl").mkdir(parents=True)
    assert find_checkout() is None


@pytest.mark.parametrize(
    ("pyproject", "problem"),
    [
        (None, "it holds no pyproject.toml"),
        ('[project]\nname = "verl"\n', "it is the project 'verl'"),
        ("", "it is the project None"),
        ("project = 3\n", "its pyproject.toml cannot be read"),
        ("[project\n", "its pyproject.toml cannot be read"),
        ('[project]\nname = "prime-rl"\n', "its folder src/prime_rl is missing"),
    ],
)
def test_a_named_folder_that_is_no_checkout_is_refused_with_the_reason(
    tmp_path: Path, pyproject: str | None, problem: str
):
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)

    with pytest.raises(ConfigError, match=problem) as refused:
        find_checkout(str(tmp_path))

    assert "rlguide install" in refused.value.hint


def test_a_named_folder_that_is_not_there_or_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))

    with pytest.raises(ConfigError, match="it is not there"):
        find_checkout()
    with pytest.raises(ConfigError, match="cannot be read"):
        find_checkout(str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="cannot be a path"):
        find_checkout("a\0b")


# ------------------------------------------------------------------------------------------------------ the release


@pytest.mark.parametrize(
    ("files", "name", "supported"),
    [
        (GUIDE, "the guide's release", True),
        (AUGUST, "the release of August 2026", False),
        (MIDDLE, "another release", False),
        ({"examples/reverse_text/rl.toml": ""}, "another release", False),  # before May: no package of the keys
        ({}, "another release", False),
    ],
)
def test_the_release_is_told_from_the_files_where_no_revision_is_known(
    tmp_path: Path, files: dict[str, str], name: str, supported: bool
):
    release = release_of(checkout(tmp_path, files))

    assert (release.name, release.is_supported, release.revision) == (name, supported, None)
    assert (release.dialect is not None) == supported


def test_a_revision_that_is_known_counts_more_than_the_files(tmp_path: Path):
    revision = repository(tmp_path / "guide")

    near = release_of(tmp_path / "guide")
    own = release_of(tmp_path / "guide", pinned=revision)

    assert (near.name, near.is_supported, near.revision) == ("near the guide's release", False, revision)
    assert own.is_supported


def test_a_checkout_that_went_back_to_the_guides_release_may_still_have_folders_of_a_later_one(tmp_path: Path):
    checkout(tmp_path, MIDDLE)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(f"{REVISION}\n")

    assert release_of(tmp_path).is_supported


def test_the_revision_is_read_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    revision = repository(tmp_path / "whole")
    git(tmp_path / "whole", "worktree", "add", "--quiet", "--detach", "../tree")
    git(tmp_path / "whole", "worktree", "add", "--quiet", "-b", "other", "../branch")
    shutil.copytree(tmp_path / "whole", tmp_path / "packed")
    git(tmp_path / "packed", "pack-refs", "--all")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert [revision_of(tmp_path / name) for name in ("whole", "tree", "branch", "packed")] == [revision] * 4


def test_a_repository_further_up_is_another_ones(tmp_path: Path):
    repository(tmp_path)

    assert revision_of(checkout(tmp_path / "below")) is None


@pytest.mark.parametrize("head", [None, "", "ref: refs/heads/none", "\xff\xfe", "ref: ../pyproject.toml"])
def test_a_damaged_git_folder_tells_no_revision(tmp_path: Path, head: str | None):
    checkout(tmp_path)
    (tmp_path / ".git").mkdir()
    if head is not None:
        (tmp_path / ".git" / "HEAD").write_bytes(head.encode("latin-1"))

    assert revision_of(tmp_path) is None
    assert release_of(tmp_path).is_supported


# ------------------------------------------------------------------------------------------- what differs, way back


def test_the_guides_release_is_accepted(tmp_path: Path):
    assert require_supported(checkout(tmp_path)).dialect == "prime-rl-0.5"


def test_the_release_of_august_is_refused_with_all_that_differs_and_the_way_out(tmp_path: Path):
    folder = checkout(tmp_path / "it's here", AUGUST)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text(REVISION_AUGUST)

    with pytest.raises(EngineMissing) as refused:
        require_supported(folder)

    told = str(refused.value)
    assert "the release of August 2026 (559b44772)" in told
    assert all(word in told for row in OTHERWISE for word in row)
    assert f"fetch https://github.com/PrimeIntellect-ai/prime-rl.git {REVISION} && git -C" in told
    assert "rlguide install --engine prime-rl --checkout" in told


def test_the_way_back_really_leads_back(tmp_path: Path):
    revision = repository(tmp_path / "home")
    (tmp_path / "home" / "later").write_text("")
    git(tmp_path / "home", "add", "--all")
    git(tmp_path / "home", "commit", "--quiet", "--message", "later")
    git(tmp_path, "clone", "--quiet", str(tmp_path / "home"), "mine")
    assert not release_of(tmp_path / "mine", pinned=revision).is_supported

    git(tmp_path / "mine", "fetch", "--quiet", str(tmp_path / "home"), revision)
    git(tmp_path / "mine", "checkout", "--quiet", "--detach", revision)

    assert release_of(tmp_path / "mine", pinned=revision).is_supported


def test_a_checkout_without_git_is_left_alone_and_another_one_offered(tmp_path: Path):
    with pytest.raises(EngineMissing, match="names changed one by one") as refused:
        require_supported(checkout(tmp_path / "middle", MIDDLE))

    assert "git -C" not in refused.value.hint
    assert f"--checkout {tmp_path}/middle-guide" in refused.value.hint


def test_the_page_of_differences_has_both_forms(tmp_path: Path):
    page = difference_page(checkout(tmp_path / "august", AUGUST))

    assert page.html.count("<tr>") == len(OTHERWISE) + 1
    assert all(row[2] in page.text for row in OTHERWISE)
    assert "the guide says" in page.text
    assert "your checkout wants" in page.text


def test_a_checkouts_own_programs_are_in_its_virtual_environment(tmp_path: Path):
    assert venv_bin(tmp_path) == tmp_path / ".venv" / "bin"
    assert venv_python(tmp_path) == tmp_path / ".venv" / "bin" / "python"
