"""The conda environment is thin: a Python, and then exactly what `make install` installs."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
PIP = next(entry["pip"] for entry in DEPENDENCIES if isinstance(entry, dict))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def makefile_default(name: str) -> str:
    return re.search(rf"^{name} := (.+)$", MAKEFILE, re.MULTILINE).group(1)


def test_conda_brings_only_a_python_that_the_project_takes():
    plain = [entry for entry in DEPENDENCIES if isinstance(entry, str)]
    version = next(entry for entry in plain if entry.startswith("python=")).removeprefix("python=")

    assert sorted(plain) == ["pip", "python=3.12"]
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{version}.0")


def test_pip_installs_the_extras_and_the_pins_of_make_install():
    extras = makefile_default("ALL")

    assert f"--constraint {makefile_default('CPU')}" == PIP[0]
    assert f"--editable .[{extras}]" == PIP[1]
    assert len(PIP) == 2
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert (ROOT / makefile_default("CPU")).is_file()
