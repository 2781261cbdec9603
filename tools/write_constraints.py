"""Prints a constraints file for the packages in this virtual environment: one `name==version` a line, with its reason.

    .venv/bin/python tools/write_constraints.py > constraints/cpu.txt

The reason of a direct dependency is its comment in `pyproject.toml`; of any other, the packages that need it.
Part of the project's tools, not of the package.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
HEADER = """\
# Every package of a CPU installation (extras local, notebooks, wandb and dev) at the version it was tested with on
# Python {major}.{minor}. Written by tools/write_constraints.py; the ranges that are accepted stand in pyproject.toml.
"""
NOT_OURS = {"pip", "rlguide"}


def main() -> None:
    installed = {canonicalize_name(found.name): found for found in metadata.distributions()}
    reasons = direct_reasons(PYPROJECT.read_text(encoding="utf-8"))
    needed_by = reverse_dependencies(installed)
    print(HEADER.format(major=sys.version_info.major, minor=sys.version_info.minor))
    for name in sorted(installed.keys() - NOT_OURS):
        version = installed[name].version.split("+")[0]  # a local build, such as torch's +cpu, has its own suffix
        print(f"{name}=={version}  # {reasons.get(name) or needed(needed_by[name])}")


def needed(users: set[str]) -> str:
    shown = sorted(users)[:4]
    more = f" and {len(users) - len(shown)} more" if len(users) > len(shown) else ""
    return f"needed by {', '.join(shown)}{more}"


def reverse_dependencies(installed: dict[str, metadata.Distribution]) -> dict[str, set[str]]:
    """Package → packages that require it; those that require it only for an extra count when nobody else does."""
    always, for_an_extra = defaultdict(set), defaultdict(set)
    for user, distribution in installed.items():
        if user in NOT_OURS:
            continue
        for name, extra in requirements(distribution):
            (for_an_extra if extra else always)[name].add(user)
    return defaultdict(set, for_an_extra | always)


def requirements(distribution: metadata.Distribution) -> Iterator[tuple[str, bool]]:
    """Names that `distribution` requires on this machine, and whether only one of its extras does."""
    extras = distribution.metadata.get_all("Provides-Extra") or []
    for requirement in map(Requirement, distribution.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name), False
        elif any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(requirement.name), True


def direct_reasons(pyproject: str) -> dict[str, str]:
    """Direct dependency → the comment on its first line."""
    dependencies = pyproject.partition("\n[project]")[2]
    lines = re.findall(r'"([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?[><=][^"]*"\]?,?\s*#\s*(.+)', dependencies)
    return {canonicalize_name(name): comment.strip() for name, comment in reversed(lines)}


if __name__ == "__main__":
    main()
