"""Where things are: the package's own data, the folder of all runs, and the files of one run.

Every path that leaves this module is absolute. Nothing here creates or removes anything.
"""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DATA = PACKAGE / "data"
TINY_POLICY = DATA / "tiny-qwen3"
"""The warm start that ships with the package."""

OUTPUTS_VARIABLE = "RLGUIDE_OUTPUTS"


def outputs_root(start: Path | None = None) -> Path:
    """Folder that holds all runs: `$RLGUIDE_OUTPUTS`, else `outputs/` of the project found upward from `start`
    (default: the working directory), else `outputs/` in `start` itself.

    papermill starts a notebook in the caller's folder and Jupyter in the notebook's own; both find the same root.
    """
    named = os.environ.get(OUTPUTS_VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if is_project_root(folder):
            return folder / "outputs"
    return start / "outputs"


def is_project_root(folder: Path) -> bool:
    """True for a checkout of this project."""
    return (folder / "pyproject.toml").is_file() and (folder / "rlguide" / "paths.py").is_file()


class RunFiles:
    """The files of one run directory that rlguide itself writes; the engine's own tree is `engine`."""

    def __init__(self, directory: Path):
        self.directory = directory.expanduser().resolve()
        self.record = self.directory / "run.json"
        self.config = self.directory / "config.toml"
        self.engine_config = self.directory / "rl.toml"
        self.steps = self.directory / "steps.jsonl"
        self.evaluations = self.directory / "evals"
        self.supervisor_log = self.directory / "supervisor.log"
        self.lock = self.directory / "run.lock"
        self.supervisor_lock = self.directory / "supervisor.lock"
        self.stop_request = self.directory / "stop-request"
        self.engine = self.directory / "engine"
