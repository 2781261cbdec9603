"""A checkout of prime-rl: where it is, which release it holds, and what the run guide would find otherwise there.

Reads files only: it starts nothing, imports nothing of prime-rl, and needs no git.
"""

import os
import re
import shlex
import tomllib
from contextlib import suppress
from pathlib import Path

from rlguide.errors import ConfigError, EngineMissing
from rlguide.files import read_text, refusals_told
from rlguide.paths import absolute
from rlguide.records import Record
from rlguide.view.elements import View, join, notes, table
from rlguide.view.written import table as written_table

HOME = "https://github.com/PrimeIntellect-ai/prime-rl.git"
REVISION = "024abb2043088d2a7311e3c43f088f3ed5d5dd3f"
"""The run guide's release: the only one that rlguide drives."""
AUGUST_NAME = "the release of August 2026"
AUGUST = "559b44772e471d1538537b8805cc77f3824a5e64"
VARIABLE = "RLGUIDE_PRIME_RL"
DEFAULT = Path("~/prime-rl")
GUIDE_EXAMPLE = Path("examples/reverse_text/rl.toml")
AUGUST_EXAMPLE = Path("examples/basic/reverse-text/rl.toml")
CONFIGS = Path("packages/prime-rl-configs")
PROGRAMS = ("python", "rl", "inference", "vf-eval")
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

HEAD = ("what", "the guide says", "your checkout wants")
OTHERWISE = (
    ("configuration", str(GUIDE_EXAMPLE), str(AUGUST_EXAMPLE)),
    ("folder of a run", "--output-dir D: D", "--output-dir D --run.name N: D/N"),
    ("start over", "--clean-output-dir", "--clean"),
    ("go on from a checkpoint", "--ckpt.resume-step -1", "--resume"),
    ("W&B", "[wandb]", "[monitors.wandb]"),
    ("rollouts of a prompt", "orchestrator.rollouts_per_example", "orchestrator.group_size"),
    ("environment", "[[orchestrator.train.env]] id", "[[orchestrator.train.source]] name, env.taskset.id"),
    ("chat format", "found by itself", 'orchestrator.renderer.name = "prime-qwen3"'),
    ("attention without flash-attn", 'trainer.model.attn = "sdpa"', "there is none"),
    ("port", "inference.server.port, orchestrator.client.base_url", "the second: orchestrator.model.client.base_url"),
    ("serve a policy", "inference --model.name M", "inference --vllm.model M"),
    ("evaluate", "vf-eval reverse-text", "eval reverse-text"),
    ("number of the first step", "0, so that the last of 20 is 19", "1, so that the last of 20 is 20"),
    ("logs", "logs/trainer.log", "logs/latest/trainer.log, one folder an attempt"),
    ("trained policy", "weights/step_20, with STABLE", "broadcasts/step_20, without configuration and tokenizer"),
    ("installation", "uv sync --extra flash-attn, then a wheel", "uv sync --all-extras --all-packages"),
    ("copy to a node", "without .git", "with .git: the build takes versions from it"),
)
"""Rows of `HEAD`: where the release of August 2026 differs from the guide's."""


class Release(Record):
    """Which prime-rl a checkout holds."""

    name: str
    revision: str | None
    """Commit; `None` where no folder `.git` tells it."""
    is_supported: bool
    dialect: str | None
    """Beginning of its keys in `parsing.DIALECTS`; `None` for a release that rlguide cannot read."""

    @property
    def otherwise(self) -> tuple[tuple[str, str, str], ...]:
        """Rows of `HEAD`, where it is known what differs from the guide."""
        return OTHERWISE if self.name == AUGUST_NAME else ()

    def __str__(self) -> str:
        return f"{self.name} ({self.revision[:9] if self.revision else 'revision unknown'})"


GUIDE_RELEASE = Release(name="the guide's release", revision=REVISION, is_supported=True, dialect="prime-rl-0.5")


def named_place(named: str | Path | None = None) -> Path:
    """Where a checkout is, or would be made: `named`, else `$RLGUIDE_PRIME_RL`, else `~/prime-rl`. Looks at nothing."""
    place = Path(named or os.environ.get(VARIABLE) or DEFAULT)
    with suppress(RuntimeError):  # the home of a user that is not known
        return place.expanduser()
    return place


def checkout_place(named: str | Path | None = None) -> Path:
    """The same with links followed. Raises `ConfigError` for what can be no path."""
    return absolute(named_place(named))


def find_checkout(named: str | Path | None = None) -> Path | None:
    """The checkout `named`, else the one in `$RLGUIDE_PRIME_RL`, else `~/prime-rl` where that is one, else `None`.

    Raises `ConfigError` for a folder that was named and is no checkout of prime-rl.
    """
    folder = checkout_place(named)
    problem = reason_against(folder)
    if problem and (named or os.environ.get(VARIABLE)):
        hint = "name another folder, or `rlguide install --engine prime-rl --checkout DIR` makes one"
        raise ConfigError(f"{str(folder)!r} is no checkout of prime-rl: {problem}", look=folder, hint=hint)
    return None if problem else folder


def reason_against(folder: Path) -> str | None:
    """Why a folder is no checkout of prime-rl; `None` when it is one."""
    try:
        project = tomllib.loads(read_text(folder / "pyproject.toml")).get("project", {})
        if project.get("name") != "prime-rl":
            return f"it is the project {project.get('name')!r}"
        return None if (folder / "src" / "prime_rl").is_dir() else "its folder src/prime_rl is missing"
    except FileNotFoundError:
        return "it holds no pyproject.toml" if folder.is_dir() else "it is not there"
    except (OSError, ValueError, AttributeError) as error:  # ValueError: no TOML, no UTF-8
        return f"its pyproject.toml cannot be read: {error}"


def release_of(checkout: Path, *, pinned: str = REVISION) -> Release:
    """The release in a checkout, by its revision where that is known, else by where its files are.

    `pinned` is the revision that counts as the guide's. Raises `EngineMissing` for one that may not be read.
    """
    revision = revision_of(checkout)
    with refusals_told("read the checkout", checkout, EngineMissing, hint="choose one that you may read"):
        old, new = (checkout / GUIDE_EXAMPLE).is_file(), (checkout / AUGUST_EXAMPLE).is_file()
        in_parts = (checkout / "deps").is_dir()  # a checkout that went back to the pinned revision may still have it
        monitors = (checkout / CONFIGS / "src/prime_rl/configs/monitors.py").is_file()
        as_in_the_guide = old and not new and not in_parts and not monitors and (checkout / CONFIGS).is_dir()
    if (old and revision == pinned) or (as_in_the_guide and revision is None):
        return GUIDE_RELEASE.model_copy(update={"revision": revision})
    name = "near the guide's release" if as_in_the_guide else "another release"
    if revision == AUGUST or (new and not old and in_parts and monitors):
        name = AUGUST_NAME
    return Release(name=name, revision=revision, is_supported=False, dialect=None)


def revision_of(checkout: Path) -> str | None:
    """The commit that a checkout stands at, read from its own `.git`; `None` where that does not tell it.

    Git itself would answer for a repository further up, and refuse for one that belongs to another user.
    """
    try:
        git = checkout / ".git"
        if git.is_file():  # of a worktree: a line that says where the folder is
            git = checkout / read_text(git).removeprefix("gitdir:").strip()
        found = read_text(git / "HEAD").strip()
        if found.startswith("ref:"):
            name, shared = found.removeprefix("ref:").strip(), git / "commondir"
            common = git / read_text(shared).strip() if shared.is_file() else git
            if (common / name).is_file():
                found = read_text(common / name).strip()
            else:
                packed = (line.split() for line in read_text(common / "packed-refs").splitlines())
                found = next((words[0] for words in packed if words[1:] == [name]), "")
    except (OSError, ValueError):
        return None
    return found if COMMIT.fullmatch(found) else None


def extras_of(checkout: Path) -> dict[str, str]:
    """Packages that only a part of prime-rl needs that is not wanted here → the name of that part."""
    try:
        groups = tomllib.loads(read_text(checkout / "pyproject.toml"))["project"]["optional-dependencies"]
    except (OSError, ValueError, LookupError):
        return {}
    rows = ((re.split(r"[^\w.-]", wanted)[0], extra) for extra, several in groups.items() for wanted in several)
    others = {name.replace("_", "-").lower(): extra for name, extra in rows if extra not in {"flash-attn", "all"}}
    return {name: extra for name, extra in others.items() if name != "reverse-text"}


def venv_bin(checkout: Path) -> Path:
    """Folder of the programs in the checkout's own virtual environment, there or not."""
    return checkout / ".venv" / "bin"


def venv_python(checkout: Path) -> Path:
    """The Python that trains, there or not."""
    return venv_bin(checkout) / "python"


def absent_programs(checkout: Path) -> str | None:
    """Which of the programs that a run starts are not installed, in words; `None` where all are."""
    try:
        absent = [name for name in PROGRAMS if not (venv_bin(checkout) / name).is_file()]
    except OSError as error:
        return f"{venv_bin(checkout)} cannot be looked at: {error.strerror}"
    return f"there is no {', '.join(absent)} in {venv_bin(checkout)}" if absent else None


def require_supported(checkout: Path, *, pinned: str = REVISION) -> Release:
    """The release in a checkout that rlguide can drive. Raises `EngineMissing` with the way out for any other."""
    release = release_of(checkout, pinned=pinned)
    if not release.is_supported:
        raise EngineMissing(_told(release, pinned), look=checkout, hint=way_back(checkout, pinned=pinned))
    return release


def difference_page(checkout: Path) -> View:
    """What the guide says and what a checkout of another release wants, with the way back."""
    release = release_of(checkout)
    last = f"To train as the guide does: {way_back(checkout)}"
    rows = [table(release.otherwise, caption="What differs", head=HEAD)] if release.otherwise else []
    drawn = join(notes([_said(release, REVISION)]), *rows, notes([last]))
    return View(drawn, f"{_told(release, REVISION)}\n{last}")


def _told(release: Release, pinned: str) -> str:
    rows = release.otherwise
    return f"{_said(release, pinned)}\n{written_table(rows, head=HEAD)}" if rows else _said(release, pinned)


def _said(release: Release, pinned: str) -> str:
    told = f"the checkout holds prime-rl, {release}; rlguide drives the guide's release, {pinned[:9]}, and no other"
    return told if release.is_supported or release.otherwise else f"{told}: names changed one by one in between"


def way_back(checkout: Path, *, pinned: str = REVISION) -> str:
    """How to get at the guide's release: in this checkout, and in one of its own."""
    there = f"rlguide install --engine prime-rl --checkout {shlex.quote(f'{checkout}-guide')}"
    if not (checkout / ".git").exists():
        return f"make a checkout of its own: {there}"
    git = f"git -C {shlex.quote(str(checkout))}"
    return f"{git} fetch {HOME} {pinned} && {git} checkout --detach {pinned}\n   or make another checkout: {there}"
