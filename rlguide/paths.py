"""Where things are: the package's own data, the folder of all runs, and the files of one run.

Every path that leaves this module is absolute. Nothing here creates or removes anything.
"""

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from rlguide.errors import ConfigError

PACKAGE = Path(__file__).resolve().parent
DATA = PACKAGE / "data"
TINY_POLICY = DATA / "tiny-qwen3"
"""The warm start that ships with the package."""

OUTPUTS_VARIABLE = "RLGUIDE_OUTPUTS"
OUTPUTS_RULE = (
    "inside the project, runs are in its folder outputs; elsewhere in outputs of the current folder, "
    f"or where the variable {OUTPUTS_VARIABLE} says"
)


def outputs_root(start: Path | None = None) -> Path:
    """Folder that holds all runs: `$RLGUIDE_OUTPUTS`, else `outputs/` of the project found upward from `start`
    (default: the working directory), else `outputs/` in `start` itself.

    papermill starts a notebook in the caller's folder and Jupyter in the notebook's own; both find the same root.
    """
    named = os.environ.get(OUTPUTS_VARIABLE)
    if named:
        return absolute(Path(named))
    start = (start or _here()).resolve()
    for folder in (start, *start.parents):
        if is_project_root(folder):
            return folder / "outputs"
    return start / "outputs"


def notebooks_folder(start: Path | None = None) -> Path | None:
    """The numbered notebooks: of the checkout that rlguide runs from, else of the one found upward from `start`
    (default: the working directory); `None` where there is no checkout, for they are no part of the package.
    """
    start = (start or _here()).resolve()
    roots = (folder for folder in (PACKAGE.parent, start, *start.parents) if is_project_root(folder))
    return next((root / "notebooks" for root in roots if (root / "notebooks").is_dir()), None)


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigError("the working directory was removed", hint="cd to another one") from None


def absolute(path: Path) -> Path:
    """The absolute path that `path` stands for. Raises `ConfigError` for one that can stand for none."""
    try:
        found = path.expanduser().resolve()
        str(found).encode()  # a record of a run, in JSON, could not hold it
        return found
    except (RuntimeError, ValueError, OSError) as error:  # an unknown `~user` or a loop of links; NUL, no UTF-8
        raise ConfigError(f"{str(path)[:200]!r} cannot be a path: {error}", hint="choose another name") from None


def install_command(extra: str = "local") -> str:
    """What installs the packages of an extra for this Python: in the project's own virtual environment all of them, in
    the versions that were tried together, also where `make` takes them for installed."""
    clone = PACKAGE.parent
    if is_project_root(clone) and Path(sys.prefix).resolve() == clone / ".venv":
        others = "CONSTRAINTS=constraints/gpu.txt EXTRAS=gpu,notebooks,wandb,dev " if extra == "gpu" else ""
        return f"make -C {shlex.quote(str(clone))} {others}-B install"
    return f"{pip_command('install')} 'rlguide[{extra}]'"


def pip_command(verb: str) -> str:
    """Beginning of a command of pip for this very Python; a virtual environment made by uv has no pip."""
    python = shlex.quote(sys.executable)
    return f"{python} -m pip {verb}" if find_spec("pip") else f"uv pip {verb} --python {python}"


def is_project_root(folder: Path) -> bool:
    """True for a checkout of this project."""
    return (folder / "pyproject.toml").is_file() and (folder / "rlguide" / "paths.py").is_file()


class RunFiles:
    """The files of one run directory that rlguide itself writes; the engine's own tree is `engine`."""

    def __init__(self, directory: Path):
        self.directory = absolute(directory)
        self.record = self.directory / "run.json"
        self.config = self.directory / "config.toml"
        self.earlier = self.directory / "earlier"
        self.engine_config = self.directory / "rl.toml"
        self.steps = self.directory / "steps.jsonl"
        self.evaluations = self.directory / "evals"
        self.notebooks = self.directory / "notebooks"
        self.report = self.directory / "report.html"
        self.supervisor_log = self.directory / "supervisor.log"
        self.reserve = self.directory / ".reserve"
        self.lock = self.directory / "run.lock"
        self.supervisor_lock = self.directory / "supervisor.lock"
        self.stop_request = self.directory / "stop-request"
        self.engine = self.directory / "engine"
