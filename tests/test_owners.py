"""Whoever holds a GPU or a port is named as far as it can be seen: a run of ours by its name, others by program."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from toy import FOREVER, after_steps, eventually, supervisor_of, toy_plan, trainer_of

from rlguide.owners import NOT_VISIBLE, owner_of
from rlguide.paths import OUTPUTS_VARIABLE, RunFiles
from rlguide.process import MARK, identity_of
from rlguide.records import ComponentStatus, GpuOwner, RunRecord, State
from rlguide.run import launch
from rlguide.store import write_record


@contextmanager
def sleeper(*, folder: Path | None = None, argv: tuple[str, ...] = ("sleep", "60"), **variables: str) -> Iterator[int]:
    """The pid of a program that is not this Python, with these variables."""
    with subprocess.Popen(argv, cwd=folder, env=os.environ | variables) as child:
        try:
            eventually(psutil.Process(child.pid).environ)  # empty for a moment while it starts
            yield child.pid
        finally:
            for process in (*psutil.Process(child.pid).children(), child):
                process.kill()


def record_of(folder: Path, mark: str, pid: int | None = None) -> RunRecord:
    """The record of a run in `folder`, written there."""
    folder.mkdir(parents=True, exist_ok=True)
    components = () if pid is None else (ComponentStatus(name="trainer", identity=identity_of(pid)),)
    plan = toy_plan(folder)
    record = RunRecord(
        name=folder.name, plan=plan, state=State.RUNNING, mark=mark, components=components, created_at="2026-01-02"
    )
    write_record(RunFiles(folder), record)
    return record


@pytest.mark.usefixtures("nothing_left")
def test_processes_of_a_run_are_named_by_the_run(outputs: Path):
    run = launch(toy_plan(outputs / "first-look", **FOREVER))
    after_steps(run, 1)

    owners = [owner_of(process.pid) for process in (trainer_of(run), supervisor_of(run))]
    run.stop()

    assert [owner.who for owner in owners] == ["the run 'first-look' of rlguide"] * 2


def test_a_run_that_was_renamed_is_named_by_its_folder_and_a_copy_is_not_it(outputs: Path):
    mark = uuid.uuid4().hex
    record_of(outputs / "old", mark)
    with sleeper(**{MARK: mark}) as pid:
        (outputs / "old").rename(outputs / "new")
        assert owner_of(pid).who == "the run 'new' of rlguide"

        record_of(outputs / "new", mark)
        shutil.copytree(outputs / "new", outputs / "copy")
        assert owner_of(pid).who == "the run 'new' of rlguide"


def test_a_run_in_another_outputs_folder_is_found_by_where_it_works(tmp_path: Path):
    mark = uuid.uuid4().hex
    record_of(tmp_path / "elsewhere" / "theirs", mark)
    inside = tmp_path / "elsewhere" / "theirs" / "engine"
    inside.mkdir()
    launcher = (sys.executable, "-c", f"import subprocess as s; s.run(['sleep', '60'], cwd={str(inside)!r})")

    with sleeper(folder=inside.parent, argv=launcher, **{MARK: mark}) as pid:
        (child,) = eventually(psutil.Process(pid).children)
        eventually(lambda: child.name() == "sleep")
        assert owner_of(child.pid).who == "the run 'theirs' of rlguide"


def test_a_process_that_dropped_the_mark_is_named_by_the_run_that_started_it(outputs: Path):
    with sleeper(argv=("sh", "-c", "sleep 60; :")) as pid:
        record_of(outputs / "one", "a-mark", pid)
        (child,) = eventually(psutil.Process(pid).children)

        assert owner_of(child.pid).who == "the run 'one' of rlguide"
        record = record_of(outputs / "one", "a-mark", pid)
        trainer = record.components[0]
        reused = trainer.model_copy(update={"identity": trainer.identity.model_copy(update={"start_time": 1.0})})
        write_record(RunFiles(outputs / "one"), record.model_copy(update={"components": (reused,)}))
        assert owner_of(child.pid).who.startswith("sleep of")


def test_a_mark_without_a_run_is_ours_all_the_same():
    with sleeper(**{MARK: "gone"}) as pid:
        assert owner_of(pid) == GpuOwner(pid=pid, who="a run of rlguide whose folder is not found from here")
    with sleeper(**{MARK: "helper-1"}) as pid:
        assert owner_of(pid).who == "an evaluation or a try-out of rlguide"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 99}', "\x00"])
def test_damaged_runs_beside_it_hide_nobody(outputs: Path, content: str):
    (outputs / "aaa").mkdir(parents=True)
    (outputs / "aaa" / "run.json").write_text(content)
    record_of(outputs / "good", "a-mark")

    with sleeper(**{MARK: "a-mark"}) as pid:
        assert owner_of(pid).who == "the run 'good' of rlguide"


def test_who_it_is_is_told_also_where_the_working_directory_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(OUTPUTS_VARIABLE)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with sleeper(folder=tmp_path) as pid:
        assert owner_of(pid).who.startswith("sleep of ")


def test_others_are_named_by_program_and_user():
    me = psutil.Process().username()
    kernel = ("sh", "-c", "sleep 60; :", "ipykernel_launcher")
    with sleeper() as other, sleeper(argv=kernel) as notebook:
        assert owner_of(other).who == f"sleep of {me}"
        assert owner_of(notebook).who == f"a notebook's kernel of {me}"
    assert owner_of(os.getpid()).who == "this Python itself: restart the kernel"


@pytest.mark.parametrize("pid", [None, 0, -1, 2**22 + 1, 2**63, 2**70])
def test_a_pid_that_means_nobody_here_is_not_visible(pid: int | None):
    assert owner_of(pid) == GpuOwner(who=NOT_VISIBLE)
