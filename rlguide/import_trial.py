"""Tries imports in a child process of whatever Python will need them, and puts into words how they went."""

import importlib.util
import json
import os
import re
import signal
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rlguide.asking import Finding, once
from rlguide.child import Answer, answer_of
from rlguide.paths import PACKAGE, absolute, install_command, pip_command
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
EXTRAS = {"vllm": "gpu", "flash_attn": "flash-attn", "wandb": "wandb"}
"""Extra of rlguide that brings a package, where it is not `local`."""
OVER = {"file", "error", "is_spare"}
"""One of them stands in the answer about a module whose import is over."""
REFERENCE_WORK_S = 0.0085
"""What `work_s` of the trial is on the processor on which the time of a run was measured, while it checks."""


class ImportTrial:
    """Imports packages in one child process of `python`; a crash there is a finding, not a crash here.

    What must be in a module stands behind it, as in `"trl:GRPOConfig,GRPOTrainer"`, and what it is tried for, where any
    is installed, as in `"trl.trainer.grpo_trainer?peft,mlflow"`. `homes` are the folders that a module must come from,
    and `accepted` gives versions by distribution. `fix` is for whatever is wrong, where pip does not install for
    `python`.
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
        self.modules, self.asked = tuple(re.split("[:?]", module)[0] for module in modules), modules
        self.late = {module.partition(":")[0] for module in modules if ":" in module}  # the rest loads with itself
        self.python, self.limit_s = python, limit_s
        self.homes, self.accepted = homes or {}, accepted
        self.fix = fix
        self.answers, self.read = once(self._run), cache(told_of)

    def find(self, module: str) -> Finding:
        """How importing `module` went. The first caller runs the child, the others wait for it."""
        lacks = unmet(distribution(module), self.read) if module in self.late else []  # while the child is at work
        told, end = self.answers()
        answer = told.get(module)
        if answer and answer.get("is_spare"):
            return Finding(Status.PASS, "nothing is installed that it loads where it is")
        if answer is None and module != next(name for name in self.modules if not told.get(name, {}).keys() & OVER):
            return Finding(Status.SKIP, f"not tried: {end} before")
        if answer and answer.get("file"):
            seen, file = f"{answer['version']} from {answer['file']}".strip(), Path(answer["file"]).resolve()
            if file.parent in self.homes.get(module, (file.parent,)):
                return self._judged(module, answer["version"], seen, lacks)
            other = f"{pip_command('uninstall')} {distribution(module)}"
            seen += ", which is not the one that is meant"
            return Finding(Status.FAIL, seen, self._fix(module, seen, file, other))
        answer = answer or {}
        seen = answer.get("error", f"{end} while importing it")
        if answer.get("folders"):
            seen = f"only a folder without code: {', '.join(answer['folders'])}"
        origin = answer.get("origin") or self.python
        return Finding(Status.FAIL, redacted(f"{seen} ({origin})"), self._fix(module, seen, Path(origin)))

    def _judged(self, module: str, version: str, seen: str, lacks: Sequence[str]) -> Finding:
        """A package that imports: too old is a failure, too new a doubt."""
        wanted, fix = self.accepted().get(distribution(module)), self.fix or _install(module)
        if wanted is None:
            return Finding(Status.PASS, seen)
        version = _release(version)
        if wanted.contains(version, prereleases=True):
            told = f"{seen}; it asks for {', '.join(lacks)}" if lacks else seen
            return Finding(Status.WARN if lacks else Status.PASS, told, fix if lacks else None)
        least = (part for part in wanted if part.operator == ">=" and version[:1].isdecimal())
        is_old = any(not part.contains(version, prereleases=True) for part in least)
        return Finding(Status.FAIL if is_old else Status.WARN, f"{seen}; rlguide is made for {wanted}", fix)

    def _fix(self, module: str, seen: str, origin: Path, fix: str | None = None) -> str:
        fix = self.fix or fix or again(module)
        if mend := next((mend for sign, mend in SIGNS.items() if sign in seen), None):
            return mend.format(fix=fix)
        if in_the_way(origin, module):
            return f"{origin} stands before the package: rename it, or leave its folder out of PYTHONPATH"
        return fix

    def _run(self) -> tuple[dict[str, dict[str, Any]], str]:
        """What the child said of each module, and how it ended."""
        argv = (self.python, "-P", PROGRAM, *self.asked)
        # wandb makes folders when it is imported; and no module lies where the child works, as in a run's directory.
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            answer = answer_of(argv, limit_s=self.limit_s, env={"TMPDIR": folder}, folder=Path(folder))
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
    """What to do about a package of this Python that is there and does not work: pip would leave it as it is."""
    if "." in module:
        return f"{pip_command('install')} --upgrade the package that this names, or uninstall it: no need of rlguide's"
    try:
        version = metadata.version(distribution(module)).partition("+")[0]
    except metadata.PackageNotFoundError:
        return _install(module)
    return f"{pip_command('install')} --force-reinstall --no-deps {distribution(module)}=={version}"


def _install(module: str) -> str:
    return install_command(EXTRAS.get(module, "local"))


def is_there(module: str) -> bool:
    """True for a module that an import would find, whole or broken; a folder of that name without code is none."""
    try:
        found = importlib.util.find_spec(module)
    except ValueError:  # imported already, and it does not say from where
        return True
    except Exception:  # a finder of somebody else's
        return False
    return found is not None and found.origin is not None


def accepted_versions() -> dict[str, "SpecifierSet"]:
    """Distribution → versions, as rlguide's own metadata say: of several extras, the first that names it."""
    from packaging.requirements import Requirement

    told: dict[str, SpecifierSet] = {}
    with suppress(metadata.PackageNotFoundError):  # it runs from a folder where it was not installed
        for requirement in map(Requirement, metadata.requires("rlguide") or ()):
            told.setdefault(requirement.name, requirement.specifier)
    return told


def told_of(name: str) -> list[Message]:
    """The heads of what tells of a distribution: of several where an installation was cut short, none of a rest."""
    texts = [one.read_text("METADATA") or one.read_text("PKG-INFO") for one in metadata.distributions(name=name)]
    heads = [HeaderParser().parsestr(text.partition("\n\n")[0]) for text in texts if text]
    return [head for head in heads if head["Version"]]


def unmet(name: str, read: Callable[[str], list[Message]] = told_of) -> list[str]:
    """What the distribution `name` asks for and this Python lacks, with what there is; also what that asks for itself,
    but of that not the versions. `read` is `told_of`, or remembers what that gave."""
    told, asked, known = [], deque(_requirements(read(name), ())), set()
    direct = len(asked)
    while asked:
        one, direct = asked.popleft(), direct - 1
        if (key := (one.name.lower(), frozenset(one.extras))) in known:
            continue
        known.add(key)
        heads = read(one.name)
        versions = [head["Version"] for head in heads]
        if not versions:
            told.append(f"{one.name}{one.specifier}, which is not installed")
        elif direct >= 0 and not any(one.specifier.contains(version, prereleases=True) for version in versions):
            told.append(f"{one.name}{one.specifier}, but {versions[0]} is installed")
        else:
            asked += _requirements(heads, one.extras)
    return told


def _requirements(heads: Sequence[Message], extras: Collection[str]) -> list["Requirement"]:
    """What a distribution needs here with these extras, without what cannot be read."""
    from packaging.requirements import Requirement

    found = []
    for text in heads[0].get_all("Requires-Dist", ()) if heads else ():
        if "extra ==" in text and not extras:  # most of them, and reading them takes time
            continue
        with suppress(ValueError):  # of an old form, or for a system that packaging does not know
            one = Requirement(text)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                found.append(one)
    return found


def in_the_way(file: Path, module: str) -> bool:
    """True for the file of a module that is found by PYTHONPATH, before one that is installed."""
    folders = [absolute(Path(one)) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    installed = Path(sysconfig.get_path("purelib")) / module
    is_ours = installed.exists() or installed.with_suffix(".py").exists()
    return is_ours and file.stem in {module, "__init__"} and not {*file.parents[:2]}.isdisjoint(folders)


def _release(version: str) -> str:
    """What vendors of torch call `2.11.0a0+5228986c39.nv25.06` has what 2.11.0 has."""
    from packaging.version import InvalidVersion, Version

    with suppress(InvalidVersion):
        return Version(version).base_version
    return version


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
