"""Imports point down only, child programs are never imported by the package, tests of the light core need no more."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from light_core import NEEDS_LOCAL
from packaging.requirements import Requirement

from rlguide.paths import PACKAGE

HERE = Path(__file__).resolve().parent

LAYERS = (
    {
        "cli",
        "console",
        "display",
        "headless",
        "progress",
        "reporting",
        "setting_up",
        "terminal",
        "__init__",
        "__main__",
    },
    {"run", "launching", "evaluation", "tryout", "installing", "prime_rl_parts", "remote"},
    {"engines", "accounts", "checkout", "checks", "readiness", "vf_eval"},
    {
        "supervisor",
        "supervision",
        "starting",
        "ending",
        "torch_build",
        "process",
        "family",
        "child",
        "tail",
        "probe",
        "ports",
        "gpus",
        "import_trial",
        "links",
        "owners",
        "windows",
        "server",
        "slot",
        "store",
        "saved",
        "following",
        "origin",
        "asking",
        "wheel",
    },
    {
        "config",
        "cuda_devices",
        "dialects",
        "guard",
        "parsing",
        "history",
        "statistics",
        "toml_form",
        "troubles",
        "view",
        "wanted",
    },
    {"environment"},
    {"addresses", "environ", "errors", "files", "measurements", "records", "paths", "redact"},
)
"""From the front doors down to the leaves; a module may import from its own layer and from those below."""

PROGRAMS = {"supervisor"} | {f"programs.{path.stem}" for path in (PACKAGE / "programs").glob("*.py")}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def noun(path: Path) -> str:
    """First part of a module's name below the package: `engines` for `rlguide/engines/trl.py`."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def level(name: str) -> int:
    found = [number for number, layer in enumerate(LAYERS) if name in layer]
    assert found, f"{name} is in no layer: add it to LAYERS and to ARCHITECTURE.md"
    return found[0]


def imported(path: Path) -> Iterator[str]:
    """Parts of rlguide that a module imports, by first name; imports for type checkers alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("rlguide."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            parts = (node.module or "").split(".")
            if parts == ["rlguide"]:
                yield from (alias.name for alias in node.names if not alias.name.startswith("__"))
            elif parts[0] == "rlguide":
                yield parts[1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path):
    here = noun(path)
    if here == "programs":
        return  # children of their own, above everything

    upward = [name for name in imported(path) if level(name) < level(here)]

    assert not upward, f"{here} imports {upward}, which is above it"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_programs_are_not_imported_by_the_package(path: Path):
    assert noun(path) == "programs" or "programs" not in set(imported(path))


@pytest.mark.parametrize("path", sorted((PACKAGE / "view").glob("*.py")), ids=lambda path: path.name)
def test_views_know_records_only(path: Path):
    assert set(imported(path)) <= {
        "view",
        "records",
        "measurements",
        "history",
        "statistics",
        "environment",
        "config",
        "errors",
    }


def test_an_upward_import_would_be_found(tmp_path: Path):
    bad = tmp_path / "paths.py"
    bad.write_text("def late():\n    from rlguide.run import launch\n    import rlguide.cli\n")

    assert list(imported(bad)) == ["run", "cli"]
    assert level("run") < level("paths")


def packages_imported(path: Path) -> set[str]:
    """First names of the packages that a module imports when it is loaded."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    froms = {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return froms | {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("path", sorted(HERE.glob("test_*.py")), ids=lambda path: path.name)
def test_tests_of_the_light_core_import_nothing_that_it_does_not_bring(path: Path):
    if path.stem.removeprefix("test_") in NEEDS_LOCAL:
        return
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    ours = {"rlguide", *(module.stem for module in HERE.iterdir())}

    others = packages_imported(path) - ours - sys.stdlib_module_names - {Requirement(one).name for one in brought}

    assert not others, f"{path.name} imports {others}: name it in NEEDS_LOCAL of tests/light_core.py"
