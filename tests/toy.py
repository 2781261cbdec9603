"""Plans for the toy engine, and evidence about the real processes that they start."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_engine import STUBBORN as STUBBORN  # for tests that need no engine

from rlguide.engines.base import fingerprint
from rlguide.process import MARK
from rlguide.records import Layout, MetricSource, Plan, Process, RunRecord
from rlguide.run import Run

ENGINE = Path("engine")
TOY = Path(__file__).with_name("toy_engine.py")


def toy_plan(
    directory: Path,
    *,
    time_limit_s: float = 60,
    grace_s: float = 3,
    exclusive_cpu: bool = False,
    others: tuple[Process, ...] = (),
    checkpoint_markers: tuple[str, ...] = (),
    **behaviour: Any,
) -> Plan:
    """What the toy engine would do in `directory`; `behaviour` as in `toy_engine.DEFAULTS`."""
    return Plan(
        engine="trl",
        release="toy 1",
        policy="none",
        directory=directory,
        processes=(toy_process(directory, "trainer", **behaviour), *others),
        resume_args=("--resume",),
        files={"rl.toml": "# toy\n"},
        metrics=(MetricSource(component="trainer", path=ENGINE / "logs" / "metrics.jsonl", dialect="trl"),),
        layout=Layout(
            logs={"trainer": ENGINE / "logs" / "trainer.log"},
            rollouts=ENGINE / "rollouts",
            rollouts_file="train_rollouts.jsonl",
            checkpoints=ENGINE / "checkpoints",
            checkpoint_markers=checkpoint_markers,
            weights=ENGINE / "weights",
            weights_marker="STABLE",
        ),
        max_steps=behaviour.get("steps", 3),
        batch_size=1,
        time_limit_s=time_limit_s,
        grace_s=grace_s,
        exclusive_cpu=exclusive_cpu,
        precision="float32",
        attention="none",
        fingerprint=fingerprint(**behaviour),
    )


FOREVER = {"stop_steps_at": 2}
HIDDEN = "orphan, forgets the mark" if sys.platform == "linux" else "own session"
"""A child that is found neither below the engine nor by its mark; only a subreaper, on Linux, sees such an orphan."""
WHOLE = (str(ENGINE / "checkpoints" / "step_{step}" / "whole"),)
"""Markers of the toy's checkpoints, for a layout that has them."""
LAUNCHER = ENGINE / "logs" / "launcher.log"


def launcher_plan(
    directory: Path, *, tells: str = "Inference", logs: tuple[str, ...] = ("inference",), **more: Any
) -> Plan:
    """One process that starts the components itself, and says in its log that the one called `tells` failed."""
    plan = toy_plan(directory, tells=tells, **({"workers": 2} | FOREVER | more))
    launcher = plan.processes[0].model_copy(update={"name": "launcher", "log": LAUNCHER})
    paths = {name: ENGINE / "logs" / f"{name}.log" for name in ("launcher", *logs)}
    alarms = (MetricSource(component="launcher", path=LAUNCHER, dialect="prime-rl-0.5 launcher"),)
    layout = plan.layout.model_copy(update={"logs": paths})
    return plan.model_copy(update={"processes": (launcher,), "alarms": alarms, "layout": layout})


def workers_of(directory: Path) -> list[psutil.Process]:
    """The processes that the engine in `directory` started."""
    return [psutil.Process(int(pid)) for pid in eventually((directory / ENGINE / "workers").read_text).split()]


def toy_process(directory: Path, name: str, **behaviour: Any) -> Process:
    """A toy engine as one component; the trainer has the engine's folder, any other a folder of its own in it."""
    folder = directory / ENGINE / ("" if name == "trainer" else name)
    argv = (sys.executable, "-S", "-E", str(TOY), str(folder), json.dumps(behaviour))
    return Process(name=name, argv=argv, log=ENGINE / "logs" / f"{name}.log")


def eventually(claim: Callable[[], Any], *, within_s: float = 15) -> Any:
    """The first true result of `claim`; fails when there is none within the deadline."""
    deadline = time.monotonic() + within_s
    while not (result := claim()):
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.02)
    return result


def processes_below(folder: Path) -> list[psutil.Process]:
    """Live processes that name `folder` in their arguments or work in it, or carry the mark of a run in it."""
    marks = {json.loads(path.read_text()).get("mark") for path in folder.rglob("run.json") if _is_json(path)}
    return [process for process in psutil.process_iter() if _belongs(process, str(folder), marks - {None})]


def _belongs(process: psutil.Process, folder: str, marks: set[str]) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        named = any(folder in argument for argument in (*process.cmdline(), process.cwd()))
        return named or process.environ().get(MARK) in marks
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _is_json(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text()), dict)
    except ValueError:
        return False


@pytest.fixture
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After the test no process of its runs is alive; the CPU slot is the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    try:
        eventually(lambda: not processes_below(tmp_path))
    finally:
        for process in processes_below(tmp_path):
            process.kill()


def trainer_of(run: Run) -> psutil.Process:
    """The live engine process of a run."""
    return psutil.Process(eventually(lambda: run.record.components)[0].identity.pid)


def supervisor_of(run: Run) -> psutil.Process:
    return psutil.Process(run.record.supervisor.pid)


def caretaker_of(run: Run) -> psutil.Process:
    """The process that outlives the supervisor of a run if that is killed."""
    caretaker = supervisor_of(run).parent()
    assert "rlguide.supervisor" in caretaker.cmdline()  # a test may kill it
    return caretaker


def child_of(run: Run) -> psutil.Process:
    """The child that the engine of a run started."""
    return psutil.Process(int((run.directory / ENGINE / "child-ready").read_text()))


def after_steps(run: Run, number: int) -> RunRecord:
    """Wait until that many steps are recorded."""
    eventually(lambda: len(run.history) >= number)
    return run.record
