"""What rlguide runs with: versions, commit, hardware, date. Imports nothing that it names, and changes nothing."""

import platform
import subprocess
import sys
from datetime import datetime
from importlib.metadata import distributions
from pathlib import Path

from rlguide import probe
from rlguide.paths import PACKAGE, is_project_root
from rlguide.records import Plan, Provenance

PACKAGES = ("rlguide", "torch", "transformers", "trl", "verifiers", "vllm", "flash-attn", "datasets", "papermill")
"""Distributions that decide what a run or a notebook does."""
GIT_DEADLINE_S = 5.0
CPUINFO = Path("/proc/cpuinfo")
"""Where Linux says what its processor is called; psutil and `platform` do not know."""


def provenance(plan: Plan | None = None) -> Provenance:
    """Versions, commit, hardware and date of this moment.

    With the `plan` of a run whose programs are in a virtual environment of their own, as with prime-rl, also the
    release of the engine and the versions there, with its name in brackets.

    >>> provenance().packages["rlguide"]  # doctest: +SKIP
    '0.1.0'
    """
    commit, modified = commit_of(PACKAGE.parent)
    machine = probe.machine()
    return Provenance(
        packages=_versions(sys.path) | (_of_engine(plan) if plan else {}),
        python=platform.python_version(),
        commit=commit,
        modified=modified,
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        processor=processor(),
        cores=machine.cores,
        memory_gib=machine.memory_gib,
        gpus=tuple(gpu.name for gpu in machine.gpus),
        gpu_problem=machine.gpu_problem,
        made_at=datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def commit_of(root: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout `root`, and whether the package differs from it; `None`s for no checkout, or no git.

    Only the package counts: JupyterLab saves the outputs of notebooks into the checkout by itself.
    """
    commit = _git(root, "rev-parse", "HEAD") if is_project_root(root) else None
    changes = _git(root, "status", "--porcelain", "--", PACKAGE.name) if commit else None
    return commit, None if changes is None else bool(changes)


def processor(cpuinfo: Path = CPUINFO) -> str:
    """What the processor is called, as well as the system can say."""
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines() if cpuinfo.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.lower().startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _of_engine(plan: Plan) -> dict[str, str]:
    """Release and packages of an engine that does not share this Python's; what is not known there is left out."""
    venv = Path(plan.processes[0].argv[0]).parent.parent
    if venv.resolve() == Path(sys.prefix).resolve():
        return {}
    found = _versions([str(folder) for folder in venv.glob("lib/python*/site-packages")])
    return {plan.engine: plan.release} | {f"{name} ({plan.engine})": version for name, version in found.items()}


def _versions(folders: list[str]) -> dict[str, str]:
    """Version of each of `PACKAGES` that is installed in one of these folders."""
    found = {name: next(iter(distributions(name=name, path=folders)), None) for name in PACKAGES}
    told = {name: package.metadata.get("Version") for name, package in found.items() if package}
    return {name: version for name, version in told.items() if version}  # without one, its metadata were cut off


def _git(root: Path, *arguments: str) -> str | None:
    argv = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=GIT_DEADLINE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git, or one that hangs on a slow disk
        return None
    return done.stdout.strip() if done.returncode == 0 else None
