"""Executes the numbered notebooks in order without a browser, then writes the report: the tutorial as one call.

papermill runs each notebook in a kernel of this very Python. What a notebook does is the notebook's business; here are
the order, the limits, the progress, and what is said when one fails.
"""

import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlguide import engines
from rlguide.config import load_config
from rlguide.errors import ConfigError, EngineMissing, NotebookFailed, RlguideError
from rlguide.evaluation import evaluate
from rlguide.guard import check_parameters
from rlguide.links import copy_notebook
from rlguide.measurements import Comparison
from rlguide.paths import PACKAGE, RunFiles, notebooks_folder, outputs_root
from rlguide.progress import beside
from rlguide.records import Parameters, Record, RunSummary
from rlguide.redact import redact_file, redacted
from rlguide.reporting import report
from rlguide.run import attach, list_runs
from rlguide.tail import last_lines
from rlguide.view.text import progress_text

RUN_NAME = "tutorial"
PICTURES = "images"
"""Folder beside the notebooks; an executed notebook names its pictures relative to itself."""
START_LIMIT_S = 120
"""A kernel on a loaded machine with a cold disk took up to half a minute; papermill's own limit is 60 s."""
CELL_MARGIN_S = 600
"""Time for a cell beyond the run's own limit and grace: two evaluations on a slow machine, or a model's download."""
LOG_LINES = 8
LOOK_S = 1.0
"""Time between two looks at a training."""

Progress = Callable[[str, int, int], object]
"""Called with what is going on, how much is done, and how much there is in all."""


class Tutorial(Record):
    """What the tutorial left behind."""

    run: Path
    notebooks: tuple[Path, ...]
    """The executed notebooks."""
    report: Path
    comparison: Comparison


def tutorial(
    parameters: Parameters | None = None,
    *,
    notebooks: Path | None = None,
    cell_limit_s: int | None = None,
    on_progress: Progress | None = None,
) -> Tutorial:
    """Execute the notebooks of the folder `notebooks` (default: the checkout's), evaluate, and write the report.

    The executed notebooks and the report are in the run directory. Nothing starts when a parameter cannot be used.
    Raises `ConfigError`, `EngineMissing`, and `NotebookFailed` when a cell fails, takes longer than `cell_limit_s`
    (default: the run's limits and a margin), or loses its kernel; a training that runs then goes on.
    """
    asked = parameters or Parameters()
    asked = asked.model_copy(update={"run_name": asked.run_name or RUN_NAME})
    plan = engines.plan(load_config(asked))
    found = numbered_notebooks(notebooks)
    require_notebook_packages()
    files = RunFiles(outputs_root() / str(asked.run_name))
    limit_s = cell_limit_s or int(plan.time_limit_s + plan.grace_s + CELL_MARGIN_S)
    tell = on_progress or (lambda *_: None)
    files.notebooks.mkdir(parents=True, exist_ok=True)
    if (pictures := found[0].parent / PICTURES).is_dir():
        shutil.copytree(pictures, files.notebooks / PICTURES, dirs_exist_ok=True)
    copied = {PICTURES, *(notebook.name for notebook in found)}
    outputs = []
    for part, notebook in enumerate(found, 1):
        outputs.append(copy_notebook(notebook, files.notebooks, copied=copied))
        execute(Place(outputs[-1], f"{part} of {len(found)}", tell), files, asked, limit_s=limit_s)
    run = attach(files.directory)
    comparison = evaluate(run, on_progress=tell)
    return Tutorial(run=run.directory, notebooks=tuple(outputs), report=report(run), comparison=comparison)


def numbered_notebooks(folder: Path | None = None) -> list[Path]:
    """The notebooks to execute, in order. Raises `ConfigError` where there are none."""
    folder = folder or notebooks_folder()
    found = sorted(folder.glob("[0-9][0-9]_*.ipynb")) if folder else []
    if not found:
        hint = "they come with the project's checkout, not with the package: start this in a checkout"
        raise ConfigError("the tutorial's notebooks are not here", look=folder or PACKAGE.parent, hint=hint)
    return found


def require_notebook_packages() -> None:
    """Raises `EngineMissing` unless notebooks can be executed here."""
    missing = [name for name in ("papermill", "ipykernel") if find_spec(name) is None]
    if missing:
        raise EngineMissing(f"not installed: {', '.join(missing)}", hint="pip install 'rlguide[notebooks]'")


def collect_parameters(
    pairs: Iterable[tuple[str, str]] = (),
    *,
    texts: Sequence[str] = (),
    files: Sequence[Path] = (),
    named: Mapping[str, Any] | None = None,
) -> Parameters:
    """Parameters as papermill reads them, in its order of precedence: YAML files, YAML texts, (name, value) pairs.

    `named` comes last; its `None`s count as not given. Raises `ConfigError` for what cannot be read or is not allowed.
    """
    values: dict[str, Any] = {}
    for file in files:
        values |= _read_yaml(_text_of(file), str(file))
    for text in texts:
        values |= _read_yaml(text, "the YAML text")
    for name, value in pairs:
        values[name] = _read_value(value)
    return check_parameters(values | {name: value for name, value in (named or {}).items() if value is not None})


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the file of parameters cannot be read: {error}", look=file) from None


def _read_yaml(text: str, origin: str) -> dict[str, Any]:
    require_notebook_packages()
    import yaml
    from papermill.iorw import NoDatesSafeLoader

    try:
        values = yaml.load(text, Loader=NoDatesSafeLoader) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}", look=origin) from None
    if not isinstance(values, dict):
        raise ConfigError(f"{origin} gives a {type(values).__name__}", hint='parameters are "name: value"')
    return {str(name): value for name, value in values.items()}


def _read_value(text: str) -> Any:
    """A value of the command line with the type that papermill gives it."""
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# ----------------------------------------------------------------------------------------------------- one notebook


class Place:
    """Where an execution is: the notebook, which part of all it is, and its code cell, counted from 1 as in Jupyter."""

    def __init__(self, notebook: Path, part: str, tell: Progress):
        self.notebook, self.name = notebook, notebook.stem
        self.cell, self.done, self.cells, self.source = 0, 0, 1, ""
        self._part, self._tell = part, tell

    def enter(self, cell: Any, cell_index: int) -> None:
        """Called by nbclient before it executes a cell."""
        self.done, self.cell, self.source = self.cell, self.cell + 1, cell.source
        self.tell()

    def tell(self, *beside: str) -> None:
        """Say how many cells are done, and what goes on beside."""
        counted = ("cells",) if 0 < self.done < self.cells else ()
        self._tell(", ".join((f"{self.name} ({self._part})", *beside, *counted)), self.done, self.cells)

    def __str__(self) -> str:
        if not self.cell:
            return f"{self.name} did not start"
        first = next((line for line in self.source.splitlines() if line.strip()), "")
        return f"{self.name} stopped at cell In [{self.cell}], `{redacted(first.strip())[:80]}`"


def execute(place: Place, files: RunFiles, asked: Parameters, *, limit_s: int) -> None:
    """Execute the notebook of `place`, cell by cell. Raises `NotebookFailed`; what was done is on disk then too."""
    from papermill import execute_notebook
    from papermill.exceptions import PapermillException
    from papermill.iorw import load_notebook_node

    notebook = place.notebook
    cells = sum(cell.cell_type == "code" for cell in load_notebook_node(str(notebook)).cells)
    place.cells = cells + bool(asked.given)  # papermill adds a cell of parameters
    place.tell()  # before its kernel starts, which is part of the time that it takes
    path, log = str(notebook).replace("{", "{{").replace("}", "}}"), files.notebooks / "kernel.log"
    try:
        with beside(partial(_watch, files.directory.parent, place)):
            execute_notebook(
                path,  # papermill fills parameters into paths
                path,
                parameters=asked.given,
                kernel_name="python3",
                language="python",
                kernel_manager_class=_own_kernel(log),
                progress_bar=False,
                start_timeout=START_LIMIT_S,
                execution_timeout=limit_s,
                on_cell_execute=place.enter,
            )
        place.done = place.cells
        place.tell()
    except (PapermillException, TimeoutError, RuntimeError) as error:
        state, hint = training_state(files.directory.parent)
        told = f"{place}:\n{_what_happened(error, limit_s, log)}\n{state}"
        raise NotebookFailed(redacted(told), look=notebook, hint=hint) from None  # the cause may hold a secret
    finally:
        redact_file(notebook)
        redact_file(log)
        _trust(notebook)


def _trust(notebook: Path) -> None:
    """Sign what was executed here, as Jupyter does itself: it shows outputs of other origin without their style."""
    import nbformat
    from nbformat.sign import NotebookNotary

    with suppress(OSError):  # nowhere to keep a signature: it can still be read, or trusted by hand
        NotebookNotary().sign(nbformat.read(notebook, as_version=4))


def _own_kernel(log: Path) -> type:
    """A kernel manager that starts this Python, whatever kernels of that name are registered on the machine.

    What a kernel itself says, not what its cells print, goes to `log`.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from traitlets import default

    class OwnKernel(AsyncKernelManager):
        transport_encryption = "auto"  # other users of the machine could listen to what is sent in the clear

        @default("kernel_spec_manager")
        def _only_the_native_one(self) -> KernelSpecManager:
            return KernelSpecManager(kernel_dirs=[])

        async def start_kernel(self, **options: Any) -> None:
            with log.open("wb") as output:
                await super().start_kernel(**options, stdout=output, stderr=output)

    return OwnKernel


def _what_happened(error: Exception, limit_s: int, log: Path) -> str:
    if hasattr(error, "ename"):  # papermill's error for a cell that raised
        return f"{error.ename}: {error.evalue}"
    if isinstance(error, TimeoutError):
        return f"the cell did not end within {limit_s} s; its kernel was shut down"
    said = "".join(f"\n  {line}" for line in last_lines(log, LOG_LINES))
    if type(error).__name__ == "DeadKernelError":
        return f"the kernel died: killed, out of memory, or a crash{said}"
    return f"{type(error).__name__}: {error}{said}"


def training_state(root: Path) -> tuple[str, str | None]:
    """Which trainings below the outputs folder `root` go on, for the reader, and how to end them."""
    going = going_on(root)
    if not going:
        return "No training is running.", None
    said = (f"run {run.name} is {run.state}, {run.completed_updates} of {run.max_steps} steps" for run in going)
    hint = f"`rlguide stop {going[0].name}` ends it, `rlguide watch {going[0].name}` follows it"
    return f"The training goes on: {'; '.join(said)}.", hint


def going_on(root: Path) -> list[RunSummary]:
    """The runs below `root` that are not over."""
    return [run for run in list_runs(root) if run.state and not run.state.is_over]


def _watch(root: Path, place: Place, over: threading.Event) -> None:
    """Tells again and again, until it is over, where an execution is, and how far a training is that goes on."""
    while not over.wait(LOOK_S):
        with suppress(RlguideError):  # a run that is removed meanwhile
            runs = [attach(run.directory) for run in going_on(root)]
            place.tell(*(f"{run.record.name}: {progress_text(run.record, run.history.steps)}" for run in runs))
