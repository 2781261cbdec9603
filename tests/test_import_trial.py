"""The trial of imports asks for what the training program uses, in the versions that the project declares."""

import ast
import sys
import tomllib
import types
from collections import defaultdict
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import verifiers.legacy
from packaging.requirements import Requirement

from rlguide.checks.embedded import IMPORTS
from rlguide.import_trial import accepted_versions, again, is_there, unmet
from rlguide.paths import PACKAGE, install_command
from rlguide.records import Check, MachineReport, Status
from rlguide.view.text import report_text

LIBRARIES = {"trl", "transformers", "verifiers"}


def used(path: Path) -> dict[str, set[str]]:
    """What a program takes from each of the libraries, annotations included."""
    found = defaultdict(set)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in LIBRARIES:
            found[node.module] |= {alias.name for alias in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in LIBRARIES:
            found[node.value.id].add(node.attr)
    return found


def taken(library: str) -> set[str]:
    """What training takes from `library`."""
    programs = (used(PACKAGE / "programs" / f"{name}.py") for name in ("train_trl", "trainer_parts"))
    return set().union(*(program[library] for program in programs)) - {"logging"}  # a module of transformers


@pytest.mark.parametrize("library", ["transformers", "trl"])
def test_everything_is_asked_for_that_the_training_program_takes_from_its_libraries(library: str):
    asked = dict(name.partition(":")[::2] for group in IMPORTS for name in group if ":" in name)

    assert {*asked[library].split(",")} == taken(library)


def test_what_the_training_program_takes_from_verifiers_is_in_the_part_that_is_asked_for():
    assert "verifiers:.legacy" in {name for group in IMPORTS for name in group}
    assert taken("verifiers") <= {*verifiers.legacy.__all__}


def test_the_versions_that_are_accepted_are_those_of_the_project():
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    local = {one.name: one.specifier for one in map(Requirement, extras["local"])}

    accepted = accepted_versions()

    assert local.items() <= accepted.items()
    assert "vllm" in accepted


def test_a_module_is_there_when_an_import_finds_it_whatever_it_says_of_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "put_here", types.ModuleType("put_here"))

    assert is_there("put_here")
    assert is_there("json")
    assert not is_there("no_such_module")


def test_a_folder_of_its_name_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "vllm").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    assert not is_there("vllm")


@pytest.fixture
def metadata_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes what tells of a distribution, before all that is installed."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, version: str | None, *requires: str) -> None:
        folder = tmp_path / f"{name}-{version or 0}.dist-info"
        folder.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
        (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]) if version else "")

    return write


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("no-such-client>=2", ["no-such-client>=2, which is not installed"]),
        ("pydantic>=2", []),
        ("no-such-client; extra == 'rl'", []),
        ("no-such-client; sys_platform == 'win32'", []),
        ("fsspec (>=2021.*)", []),
    ],
)
def test_what_a_distribution_asks_for_here_is_looked_for(
    metadata_of: Callable[..., None], requirement: str, said: list[str]
):
    metadata_of("asks", "1", requirement)

    assert unmet("asks") == said


def test_what_is_missing_is_found_also_behind_what_is_there(metadata_of: Callable[..., None]):
    metadata_of("first", "1", "second[fast]>=2", "broken (>=1.*)")
    metadata_of("second", "2", "third", 'fourth; extra == "fast"', 'fifth; extra == "slow"')
    metadata_of("third", "3", "first", "sixth>=9")  # in a circle
    metadata_of("sixth", "6")  # whose version is the second's or third's own affair

    assert unmet("first") == ["fourth, which is not installed"]


def test_a_distribution_that_was_cut_off_is_not_installed_and_of_two_one_that_fits_is_enough(
    metadata_of: Callable[..., None],
):
    metadata_of("asks", "1", "halved", "twice>=2")
    metadata_of("halved", None)
    metadata_of("twice", "0.1")
    metadata_of("twice", "2.5")

    assert unmet("asks") == ["halved, which is not installed"]


def test_in_the_projects_own_virtual_environment_make_installs_the_versions_that_were_tried(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys, "prefix", str(PACKAGE.parent / ".venv"))
    assert install_command() == f"make -C {PACKAGE.parent} -B install"

    monkeypatch.setattr(sys, "prefix", "/usr")
    assert install_command("wandb") == f"{sys.executable} -m pip install 'rlguide[wandb]'"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("trl", f"--force-reinstall --no-deps trl=={metadata.version('trl')}"),
        ("torch", f"--force-reinstall --no-deps torch=={metadata.version('torch').partition('+')[0]}"),
        (
            "trl.trainer.grpo_trainer",
            "--upgrade the package that this names, or uninstall it: no need of rlguide's",
        ),
        ("vllm", "pip install 'rlguide[gpu]'"),
    ],
)
def test_what_is_there_and_broken_is_installed_over_itself_because_pip_would_leave_it(
    monkeypatch: pytest.MonkeyPatch, module: str, said: str
):
    monkeypatch.setattr(sys, "prefix", "/usr")

    assert again(module) == f"{sys.executable} -m pip install {said.removeprefix('pip install ')}"


def test_what_to_do_about_several_packages_is_shown_once_below_the_last():
    bad = Check(id="one", title="one", status=Status.FAIL, seen="absent", wanted="imports", fix="make install")
    checks = (bad, bad.model_copy(update={"title": "two"}), bad.model_copy(update={"title": "three", "fix": "another"}))

    shown = report_text(MachineReport(engine="trl", checks=checks, verdict="No.")).splitlines()

    assert [line.split()[1] for line in shown[1:]] == ["one:", "two:", "make", "three:", "another"]
