"""Public names that show a run, and the rich forms of all records in an IPython shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from test_text import comparison, record, report
from toy import toy_plan

import rlguide
from rlguide import evaluation
from rlguide import run as operations
from rlguide.config import from_preset
from rlguide.display import register
from rlguide.records import Rollout, State, Status
from rlguide.run import Run, launch

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def finished(outputs: Path) -> Run:
    run = launch(toy_plan(outputs / "toy", steps=2))
    assert run.wait(30).state is State.SUCCEEDED
    return run


@pytest.fixture
def shell() -> InteractiveShell:
    return InteractiveShell()


def shown(shell: InteractiveShell, thing: object) -> dict[str, str]:
    data, _ = shell.display_formatter.format(thing)
    return data


def test_every_record_and_a_run_have_html_and_text(shell: InteractiveShell, finished: Run, tmp_path: Path):
    register(shell)
    rollout = Rollout(step=0, text="abc", completion="<i>", reward=0.0)
    things = (finished.status, finished, finished.record.plan, comparison(), comparison().before, report(Status.FAIL),
              from_preset("tiny"), from_preset("tiny").wandb, rollout)  # fmt: skip

    for thing in things:
        data = shown(shell, thing)

        assert '<div class="rlg">' in data["text/html"], type(thing)
        assert len(data["text/plain"].splitlines()) > 1, type(thing)
        assert "<i>" not in data["text/html"]


def test_a_record_knows_no_steps_and_says_nothing_of_them(shell: InteractiveShell, finished: Run):
    register(shell)

    for form, said in shown(shell, finished.stop()).items():
        assert "succeeded: the last step was reached" in said, form
        assert "2 steps" not in said, form
        assert "No training step has been recorded" not in said, form
    assert "2 of 2 steps, reward 0.100" in shown(shell, finished)["text/plain"]


def test_a_list_of_runs_is_a_table_and_any_other_list_stays_as_it_was(shell: InteractiveShell, finished: Run):
    register(shell)

    assert '<th scope="row">toy</th>' in shown(shell, rlguide.list_runs())["text/html"]
    assert list(shown(shell, [1, 2])) == ["text/plain"]
    assert list(shown(shell, [])) == ["text/plain"]


def test_a_shell_that_is_no_kernel_gets_no_live_display(shell: InteractiveShell):
    register(shell)

    assert operations.watching is None
    assert evaluation.showing is None


def test_importing_rlguide_in_ipython_gives_our_types_their_own_forms(outputs: Path):
    code = "import rlguide\nget_ipython().display_formatter.format(rlguide.load_config())[0]['text/plain'][:7]"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", code],
        capture_output=True, text=True, timeout=60, check=True, env=os.environ | {"IPYTHONDIR": str(outputs)},
    )  # fmt: skip

    assert "# Start" in done.stdout


def test_a_picture_of_a_run_has_its_rewards_in_words(finished: Run):
    view = rlguide.plot_reward(finished)

    assert "step 0: 0.000, step 1: 0.100" in view._repr_html_()
    assert "toy" in repr(view)


def test_a_run_may_be_given_by_name(finished: Run):
    assert repr(rlguide.plot_reward("toy")) == repr(rlguide.plot_reward(finished))


def test_rollouts_of_a_step_are_shown_and_a_missing_step_names_those_there_are(finished: Run):
    assert "<u>" not in rlguide.rollouts(finished, 1)._repr_html_().partition("</style>")[2].partition("struck")[2]
    assert "abc" in repr(rlguide.rollouts(finished, 1))
    assert repr(rlguide.rollouts(finished, 9)) == "No rollouts of step 9; steps that have some: 0, 1."


def test_letters_may_be_compared_with_and_without_tags():
    bare = rlguide.compare_letters("cXa", "abc")

    assert repr(bare) == repr(rlguide.compare_letters("<reversed_text> cXa </reversed_text>", "abc"))
    assert "0.667" in bare._repr_html_()


def test_the_guides_own_answer_scores_what_the_guide_says():
    said = repr(
        rlguide.compare_letters(".ti ot demerg saw kcuBr ni ytinummoC ehT", "The community in Bruck was merged into it")
    )

    assert said.splitlines()[-1] == "similarity 0.840"


def test_the_file_map_says_what_each_file_is_and_whether_it_is_there(finished: Run):
    rows = {line.split()[0]: line for line in repr(rlguide.file_map(finished)).splitlines()[2:]}

    assert "kB" in rows["run.json"]
    assert "2 files" in rows["engine/weights"]
    assert "not there yet" in rows["engine/checkpoints"]
    assert set(rows) > {"config.toml", "rl.toml", "steps.jsonl", "evals", "supervisor.log", "engine/rollouts"}


def test_every_command_of_the_quick_reference_exists(finished: Run):
    from rlguide.cli import app

    said = repr(rlguide.quick_reference(finished))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}

    assert f"tail -f {finished.directory / finished.record.plan.processes[0].log}" in said
    assert "rlguide resume toy" in next(line for line in said.splitlines() if "after a stop or a failure" in line)
    named = {line.rpartition("  rlguide ")[2].split()[0] for line in said.splitlines()[2:] if "  rlguide " in line}
    assert named <= commands
    assert all(hasattr(rlguide, name) for name in ("attach", "monitor", "evaluate", "try_text"))


def test_views_of_a_run_leave_it_as_it_was(finished: Run):
    before = {path: path.stat().st_mtime_ns for path in finished.directory.rglob("*")}

    for view in (rlguide.plot_reward(finished), rlguide.file_map(finished), rlguide.rollouts(finished, 0)):
        assert view._repr_html_()

    assert {path: path.stat().st_mtime_ns for path in finished.directory.rglob("*")} == before
    assert json.loads((finished.directory / "run.json").read_text())["state"] == "succeeded"


def test_a_record_of_a_state_is_told_in_words(shell: InteractiveShell, tmp_path: Path):
    register(shell)

    assert "interrupted: its supervisor is gone" in shown(shell, record(tmp_path, State.INTERRUPTED))["text/html"]
