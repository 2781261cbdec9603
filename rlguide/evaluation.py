"""Measures policies on held-out texts: a server, `vf-eval` against it, and the numbers with their errors.

The warm start and the trained policy of a run are measured alike; their evaluations are kept in the run directory.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from rlguide import engines
from rlguide.config import load_config
from rlguide.engines.base import Tools
from rlguide.engines.trl import local_tools
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError, EvaluationError
from rlguide.files import read_file, refusals_told, write_atomically
from rlguide.measurements import Comparison, EvalSample, Evaluation, Sampling
from rlguide.ports import free_port
from rlguide.run import Run, attach
from rlguide.server import serving
from rlguide.slot import cpu_slot
from rlguide.statistics import compare, sampling_inactive, summarise
from rlguide.vf_eval import run_vf_eval

Which = Literal["warm start", "trained policy"]
Progress = Callable[[str, int, int], object]
"""Called with what is measured, the rollouts done, and the rollouts in all."""

PROBE_BYTES = 2**20
"""What an evaluation writes at least; a disk without it is full."""
SLOT_WAIT_S = 10.0
"""A training that has just ended frees the processor within seconds."""

showing: Callable[[], Progress] | None = None
"""Makes what is told of a measurement's progress when nobody else is: in a notebook, a line that is kept up to date."""


def evaluate(run: Run | Path | str, *, on_progress: Progress | None = None) -> Comparison:
    """Measure a run's warm start and its trained policy on the same held-out texts, as its configuration says.

    `run` is a handle, a run directory, or a run's name. An evaluation that the run directory already holds is not
    made again. Raises `EvaluationError` when a measurement is not valid or nothing is trained yet, and `Busy` while a
    training has the processor.
    """
    run = attach(run)
    _ = engines.tools(run.record.plan)
    _ = _trained_policy(run)  # says now, not after the first measurement, that there is none
    before = evaluate_one(run, "warm start", on_progress=on_progress)
    after = evaluate_one(run, "trained policy", on_progress=on_progress)
    return compare(before, after)


def evaluate_one(run: Run | Path | str, which: Which, *, on_progress: Progress | None = None) -> Evaluation:
    """Measure one policy of a run, or read the evaluation that is there; see `evaluate`."""
    run = attach(run)
    tools = engines.tools(run.record.plan)
    asked = _asked(run, which)
    if kept := asked.kept():
        return kept
    made = evaluate_policy(
        asked.policy,
        asked.sampling,
        label=which,
        workdir=asked.stored.with_suffix(""),
        threshold=asked.threshold,
        tools=tools,
        completed_updates=asked.updates,
        on_progress=on_progress,
    )
    with refusals_told("keep the evaluation", asked.stored.parent, EvaluationError):
        write_atomically(asked.stored, made.model_dump_json(indent=2) + "\n")
    return made


def kept_evaluation(run: Run, which: Which) -> Evaluation | None:
    """The evaluation of one policy that a run directory holds, as `evaluate` would take it; measures nothing."""
    if not run.files.config.is_file() or (which == "trained policy" and run.weights is None):
        return None
    return _asked(run, which).kept()


class _Asked(NamedTuple):
    """What an evaluation of a run's policy is asked for, and where it is kept."""

    policy: str
    updates: int
    sampling: Sampling
    threshold: float
    stored: Path

    def kept(self) -> Evaluation | None:
        return stored_evaluation(self.stored, self.policy, self.sampling, self.threshold)


def _asked(run: Run, which: Which) -> _Asked:
    config = load_config(run.files.config)
    settings = config.evaluation
    policy, updates = (run.record.plan.policy, 0) if which == "warm start" else _trained_policy(run)
    sampling = Sampling(
        num_tasks=settings.num_tasks,
        rollouts_per_task=settings.rollouts_per_task,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=config.seed,
    )
    stored = run.files.evaluations / f"{which.replace(' ', '-')}-step_{updates}.json"
    return _Asked(policy, updates, sampling, settings.threshold, stored)


def evaluate_policy(
    policy: str,
    sampling: Sampling,
    *,
    label: str,
    workdir: Path,
    threshold: float = 0.5,
    tools: Tools | None = None,
    completed_updates: int | None = None,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Measure `policy` (folder or Hub name) on the first held-out texts.

    `tools` default to those of this Python, on the processor. `workdir` gets the logs and vf-eval's own files, and is
    emptied first. Raises `ConfigError` for more texts than there are, `ServerError` when the policy cannot be served,
    `EvaluationError` when the result would not be valid.
    """
    texts, tools = held_out(sampling.num_tasks), tools or local_tools()
    report = on_progress or (showing() if showing else lambda *_: None)

    def counted(done: int, total: int) -> None:
        report(f"{label}, completions" if done < total else label, done, total)

    started = time.monotonic()
    owner = f"an evaluation of the {label} in {workdir}"
    with cpu_slot(owner, wait_s=SLOT_WAIT_S) if tools.exclusive_cpu else nullcontext():
        _empty(workdir)
        report(label, 0, sampling.rollouts)
        samples = _sample(policy, sampling, workdir, tools, counted)
    if {sample.text for sample in samples} != set(texts):
        raise EvaluationError("vf-eval did not use the held-out texts", look=workdir)
    return Evaluation(
        label=label,
        policy=policy,
        completed_updates=completed_updates,
        sampling=sampling,
        **summarise(samples, threshold=threshold),
        notes=notes(samples, sampling),
        seconds=time.monotonic() - started,
        created_at=datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def _empty(workdir: Path) -> None:
    """Make `workdir` an empty folder. Raises `EvaluationError` where nothing can be written: now, not after minutes."""
    shutil.rmtree(workdir, ignore_errors=True)
    with refusals_told("write the evaluation's files", workdir, EvaluationError):
        workdir.mkdir(parents=True, exist_ok=True)
        write_atomically(workdir / ".probe", "x" * PROBE_BYTES)
        (workdir / ".probe").unlink()


def held_out(num_tasks: int) -> tuple[str, ...]:
    """The texts of an evaluation. Raises `ConfigError` for more than there are."""
    texts = load_texts("heldout")
    if num_tasks > len(texts):
        raise ConfigError(f"evaluation.num_tasks = {num_tasks}: there are {len(texts)} held-out texts")
    return texts[:num_tasks]


def stored_evaluation(path: Path, policy: str, sampling: Sampling, threshold: float) -> Evaluation | None:
    """The evaluation in `path`, if it is of this policy as it is now, on these texts, with this sampling."""
    try:
        written = path.stat().st_mtime
        stored = Evaluation.model_validate_json(read_file(path))
    except (OSError, ValidationError):  # not there, not to be read, or of another version: made anew
        return None
    asked = (policy, sampling, threshold, set(held_out(sampling.num_tasks)))
    found = (stored.policy, stored.sampling, stored.threshold, {sample.text for sample in stored.samples})
    newer = any(file.stat().st_mtime > written for file in Path(policy).glob("*.safetensors"))
    return stored if found == asked and not newer else None


def notes(samples: tuple[EvalSample, ...], sampling: Sampling) -> tuple[str, ...]:
    """What a reader of the numbers should know, one sentence each."""
    found = []
    errored = sum(sample.reward is None for sample in samples)
    if errored:
        found.append(
            f"{errored} of {len(samples)} rollouts failed; the mean leaves them out, the lower bound does not."
        )
    if sampling.temperature > 0 and sampling_inactive(samples):
        found.append(
            f"Sampling was not active: at temperature {sampling.temperature:g} all completions of a text are equal; "
            "look for do_sample = true in the policy's generation_config.json."
        )
    return tuple(found)


def _trained_policy(run: Run) -> tuple[str, int]:
    """Folder and number of updates of the newest complete weights."""
    if run.weights is None:
        state = run.status.state
        hint = "resume it" if state.is_over else "wait until the run has ended"
        if state.is_success:
            hint = "they were removed, or not copied with the run: launch one of another name"
        raise EvaluationError("the run has saved no complete weights", look=run.directory, hint=hint)
    return str(run.weights), int(run.weights.name.removeprefix("step_"))


def _sample(
    policy: str, sampling: Sampling, workdir: Path, tools: Tools, on_progress: Callable[[int, int], object]
) -> tuple[EvalSample, ...]:
    port, log = free_port(), workdir / "server.log"
    argv, env = tools.server(policy, port, sampling.seed or 0), tools.environment(policy)
    with serving(argv, port=port, model=policy, log=log, env=env, ready_s=tools.ready_s) as endpoint:
        return run_vf_eval(
            endpoint,
            sampling,
            workdir / "vf-eval",
            program=tools.vf_eval(),
            arguments=tools.arguments,
            env=env,
            concurrency=tools.concurrency,
            on_progress=on_progress,
        )
