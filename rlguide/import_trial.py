"""Tries imports in a child process of whatever Python will need them, and puts into words how they went."""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rlguide.asking import Finding, once
from rlguide.child import Answer, answer_of
from rlguide.paths import PACKAGE, absolute, install_command
from rlguide.records import Status
from rlguide.redact import redacted

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

PROGRAM = PACKAGE / "programs" / "try_imports.py"
LIMIT_S = 60.0
"""A cold disk can take this long to read torch and its libraries."""
SIGNS = {
    "undefined symbol": "it was built for another version of a package that it uses; install it again: {fix}",
    "SIGKILL": "the system ended it: give it more memory, or raise the limit (`ulimit -a` lists limits)",
    "MemoryError": "give it more memory, or raise the limit (`ulimit -a` lists limits)",
    "still importing": "try again: the first time reads gigabytes; then look at what keeps disk or processor busy",
}
"""What the words of a failed import tell about its cause → what to do."""
SPARE = ("peft", "trackio", "mlflow")
"""TRL's trainer imports them where they are installed, wanted or not; rlguide uses none of them."""
EXTRAS = {"vllm": "gpu", "flash_attn": "flash-attn", "wandb": "wandb"}
"""Extra of rlguide that brings a package, where it is not `local`."""
OVER = {"file", "error"}
"""One of them stands in the answer about a module whose import is over."""
REFERENCE_WORK_S = 0.0085
"""What `work_s` of the trial is on the processor on which the time of a run was measured, while it checks."""


class ImportTrial:
    """Imports packages in one child process of `python`; a crash there is a finding, not a crash here.

    What must be in a module stands behind it, as in `"trl:GRPOConfig,GRPOTrainer"`. `homes` are the folders that a
    module must come from, and `accepted` gives versions by distribution. `fix` is for whatever is wrong, where it is
    not pip that installs for `python`.
    """

    def __init__(
        self,
        modules: Sequence[str],
        *,
        python: Path = Path(sys.executable),
        fix: str | None = None,
        homes: Mapping[str, Collection[Path]] | None = None,
        accepted: Callable[[], Mapping[str, "SpecifierSet"]] = dict,
        limit_s: float = LIMIT_S,
    ):
        self.modules, self.asked = tuple(module.partition(":")[0] for module in modules), modules
        self.late = {module.partition(":")[0] for module in modules if ":" in module}  # the rest loads with itself
        self.python, self.limit_s = python, limit_s
        self.homes, self.accepted = homes or {}, accepted
        self.fix = fix
        self.answers = once(self._run)

    def find(self, module: str) -> Finding:
        """How importing `module` went. The first caller runs the child, the others wait for it."""
        told, end = self.answers()
        answer = told.get(module)
        if answer is None and module != next(name for name in self.modules if not told.get(name, {}).keys() & OVER):
            return Finding(Status.SKIP, f"not tried: {end} before")
        if answer and answer.get("file"):
            seen, file = f"{answer['version']} from {answer['file']}".strip(), Path(answer["file"]).resolve()
            if file.parent in self.homes.get(module, (file.parent,)):
                return self._judged(module, answer["version"], seen)
            other = f"{self.python} -m pip uninstall {distribution(module)}"
            return Finding(Status.FAIL, f"{seen}, which is not the one that is meant", self._fix(seen, file, other))
        answer = answer or {}
        seen = answer.get("error", f"{end} while importing it")
        if answer.get("folders"):
            seen = f"only a folder without code: {', '.join(answer['folders'])}"
        origin = answer.get("origin") or self.python
        return Finding(Status.FAIL, redacted(f"{seen} ({origin})"), self._fix(seen, Path(origin), again(module)))

    def _judged(self, module: str, version: str, seen: str) -> Finding:
        """A package that imports: too old is a failure, too new a doubt."""
        wanted, fix = self.accepted().get(distribution(module)), self.fix or _install(module)
        if wanted is None:
            return Finding(Status.PASS, seen)
        if wanted.contains(version, prereleases=True):
            lacks = unmet(distribution(module)) if module in self.late else []
            told = f"{seen}; it asks for {', '.join(lacks)}" if lacks else seen
            return Finding(Status.WARN if lacks else Status.PASS, told, fix if lacks else None)
        least = (part for part in wanted if part.operator == ">=" and version[:1].isdecimal())
        is_old = any(not part.contains(version, prereleases=True) for part in least)
        return Finding(Status.FAIL if is_old else Status.WARN, f"{seen}; rlguide is made for {wanted}", fix)

    def _fix(self, seen: str, origin: Path, fix: str) -> str:
        if mend := next((mend for sign, mend in SIGNS.items() if sign in seen), None):
            return mend.format(fix=self.fix or fix)
        if in_the_way(origin):
            return f"{origin} stands before the package: rename it, or leave its folder out of PYTHONPATH"
        return self.fix or fix

    def _run(self) -> tuple[dict[str, dict[str, Any]], str]:
        """What the child said of each module, and how it ended."""
        argv = (self.python, "-P", PROGRAM, *self.asked)
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # wandb makes folders when it is imported
            answer = answer_of(argv, limit_s=self.limit_s, env={"TMPDIR": folder})
        told: dict[str, dict[str, Any]] = {}
        for line in answer.out.splitlines():
            with suppress(ValueError, TypeError, KeyError):  # a word of something that Python loads at its start
                found = json.loads(line)
                told[found["module"]] = found
        return told, self._end(answer)

    def _end(self, answer: Answer) -> str:
        if answer.code is None:
            return f"still importing after {self.limit_s:.0f} s"
        said = f" ({answer.err.strip().splitlines()[-1]})" if answer.err.strip() and answer.code > 0 else ""
        return f"Python ended with {ended(answer.code)}{said}"


def distribution(module: str) -> str:
    """What pip calls a package of ours or of our libraries."""
    return module.replace("_", "-")


def again(module: str) -> str:
    """What mends a package of this Python that is there and does not work; to install it would find it there."""
    if module in SPARE:
        return f"{sys.executable} -m pip install --upgrade {module}; or uninstall it: rlguide does not use it"
    try:
        version = metadata.version(distribution(module)).partition("+")[0]
    except metadata.PackageNotFoundError:
        return _install(module)
    return f"{sys.executable} -m pip install --force-reinstall --no-deps {distribution(module)}=={version}"


def _install(module: str) -> str:
    return install_command(EXTRAS.get(module, "local"))


def is_there(module: str) -> bool:
    """True for a module that an import would find, whole or broken."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # imported already, and it does not say from where
        return True


def accepted_versions() -> dict[str, "SpecifierSet"]:
    """Distribution → versions, as rlguide's own metadata say: of several extras, the first that names it."""
    from packaging.requirements import Requirement

    told: dict[str, SpecifierSet] = {}
    with suppress(metadata.PackageNotFoundError):  # it runs from a folder where it was not installed
        for requirement in map(Requirement, metadata.requires("rlguide") or ()):
            told.setdefault(requirement.name, requirement.specifier)
    return told


def unmet(name: str) -> list[str]:
    """What the distribution `name` asks for and this Python lacks, with what there is."""
    from packaging.requirements import Requirement

    told = []
    with suppress(metadata.PackageNotFoundError, ValueError):  # its metadata are not there, or not readable
        for asked in map(Requirement, metadata.requires(name) or ()):
            if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                told += _lacking(asked)
    return told


def _lacking(asked: "Requirement") -> list[str]:
    try:
        version = metadata.distribution(asked.name).metadata.get("Version")  # none where it was cut off
    except metadata.PackageNotFoundError:
        return [f"{asked.name}{asked.specifier}, which is not installed"]
    is_met = not version or asked.specifier.contains(version, prereleases=True)
    return [] if is_met else [f"{asked.name}{asked.specifier}, but {version} is installed"]


def in_the_way(file: Path) -> bool:
    """True for a module that is found by PYTHONPATH, before whatever is installed."""
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return any(file.is_relative_to(absolute(Path(folder))) for folder in folders)


def slowness(trial: ImportTrial) -> float:
    """How many times as long as in the estimates this processor takes, by the trial that imported torch.

    1 also for a faster one, of which no run was measured, and where it cannot be told.
    """
    return max(1.0, (trial.answers()[0].get("torch", {}).get("work_s") or 0) / REFERENCE_WORK_S)


def ended(code: int) -> str:
    """How a program ended, in words."""
    with suppress(ValueError):  # a signal without a name, and every exit code
        return f"exit code {code} ({signal.Signals(-code).name})"
    return f"exit code {code}"
