"""Runs the real training program of the `trl` engine on small runs, without a supervisor."""

import json
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlguide.config import load_config
from rlguide.engines.trl import Trl
from rlguide.records import Machine, Plan
from rlguide.starting import start

QUICK = {
    "orchestrator.batch_size": 64,
    "orchestrator.rollouts_per_example": 16,
    "trainer.optim.lr": 1e-3,  # rises within a few steps; far above what twenty steps want
}
LIMIT_S = 240


def planned(directory: Path, changes: dict[str, Any]) -> Plan:
    """The plan of a quick run, its files written."""
    plan = Trl().plan(load_config("tiny", QUICK | changes), directory, machine=Machine(cores=2, memory_gib=8))
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in plan.files.items():
        (directory / name).write_text(text)
    return plan


def started(plan: Plan, *, resume: bool = False) -> "subprocess.Popen[bytes]":
    process = plan.processes[0]
    if resume:
        process = process.model_copy(update={"argv": process.argv + plan.resume_args})
    return start(process, plan.directory)


def trained(directory: Path, changes: dict[str, Any], *, resume: bool = False) -> Plan:
    """A run that has ended well."""
    plan = planned(directory, changes)
    assert started(plan, resume=resume).wait(LIMIT_S) == 0, log_of(plan)
    return plan


def limited(plan: Plan, largest_file_bytes: int) -> int:
    """Exit code of a run whose files cannot grow beyond a size, as on a full disk."""
    process = plan.processes[0]
    log = plan.directory / process.log
    log.parent.mkdir(parents=True)
    limit = _file_limit(largest_file_bytes)
    with log.open("wb") as output:
        return subprocess.run(
            process.argv, env=os.environ | process.env, stdout=output, stderr=output, preexec_fn=limit, timeout=LIMIT_S
        ).returncode


def _file_limit(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def steps_of(plan: Plan) -> list[dict[str, Any]]:
    path = plan.directory / plan.metrics[0].path
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rollouts_of(plan: Plan, step: int) -> list[dict[str, Any]]:
    path = plan.directory / plan.layout.rollouts / f"step_{step}" / plan.layout.rollouts_file
    return [json.loads(line) for line in path.read_text().splitlines()]


def log_of(plan: Plan) -> str:
    return (plan.directory / plan.processes[0].log).read_text(errors="replace")
