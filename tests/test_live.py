"""Live views in a real kernel: nothing blocks that should not, and the last frame stays."""

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient
from toy import after_steps, eventually

from rlguide.records import State
from rlguide.run import attach

pytestmark = pytest.mark.usefixtures("nothing_left")

TESTS = Path(__file__).parent
LIMIT_S = 60


def start(directory: Path, **behaviour: object) -> str:
    """Code of a cell that launches the toy engine."""
    return (
        f"import sys, time; from pathlib import Path; sys.path.insert(0, {str(TESTS)!r})\n"
        "import rlguide; from toy import toy_plan\n"
        f"run = rlguide.launch(toy_plan(Path({str(directory)!r}), **{behaviour!r}))"
    )


def executed(*cells: str) -> list[str]:
    """What each cell shows at the end of the notebook, as one text: its HTML where it has some."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    return ["\n".join(map(_shown, cell.outputs)) for cell in notebook.cells]


def _shown(output: nbformat.NotebookNode) -> str:
    data = output.get("data", {})
    return data.get("text/html", data.get("text/plain", output.get("text", "")))


def test_monitor_returns_at_once_and_its_output_ends_with_the_last_frame(outputs: Path):
    _, watched, said, waited = executed(
        start(outputs / "toy", steps=8, step_s=0.4),
        "rlguide.monitor(run)",
        "print('state then:', run.status.state)",
        "record = run.wait()",
    )

    assert said.strip().removeprefix("state then: ") in {"planned", "starting", "running"}
    assert "succeeded: the last step was reached" in watched
    assert "8 of 8 steps" in watched
    assert "step 7: 0.700" in watched  # the curve, in words
    assert "<summary>log of the trainer, last lines</summary>" in watched
    assert "step 7</pre>" in watched
    assert "toy, succeeded, reward 0.700: 8 of 8" in waited
    assert "<figure" not in waited  # the same picture is above already


def test_a_wait_that_nobody_monitors_shows_the_run_whole_and_so_does_the_next(outputs: Path):
    _, *shown = executed(start(outputs / "toy", steps=2), "record = run.wait()", "record = run.wait()")

    assert all("step 1: 0.100" in told for told in shown)
    assert all("2 of 2 steps" in told for told in shown)


def test_all_redraws_use_one_figure(outputs: Path):
    *_, counted = executed(
        start(outputs / "toy", steps=12, step_s=0.4),
        "rlguide.monitor(run)\nrlguide.monitor(run)",
        "run.wait()",
        "import gc; from matplotlib.figure import Figure\n"
        "print(sum(isinstance(thing, Figure) for thing in gc.get_objects()))",
    )

    assert counted.strip() == "1"


def test_a_run_that_is_over_is_shown_and_a_failure_says_why(outputs: Path):
    _, watched, waited = executed(start(outputs / "toy", exit_at=0, exit_code=3), "rlguide.monitor(run)", "run.wait()")

    assert "exit code 3" in watched
    assert "The run ended before its first step." in watched
    assert "toy, failed: 0 of 3" in waited


def test_a_run_of_several_components_says_what_it_is_at(outputs: Path):
    _, watched = executed(
        "import rlguide\nconfig = rlguide.load_config('tiny', {'engine': 'replay', 'replay.speed': 1})\n"
        "run = rlguide.launch(rlguide.plan(config))",
        "rlguide.monitor(run)",
    )
    attach("reverse-text").stop()

    assert "boot: the inference server and the trainer are starting" in watched
    assert "a recording of prime-rl" in watched


def test_a_run_that_is_taken_away_while_it_is_watched_is_said_to_be_gone(outputs: Path):
    _, watched, _, _ = executed(
        start(outputs / "toy", stop_steps_at=2),
        "rlguide.monitor(run)",
        "away = run.files.record.rename(run.directory / 'away')\nimport threading\n"
        "[thread.join(20) for thread in threading.enumerate() if thread.name.startswith('monitor')]",
        "away.rename(run.files.record)",
    )
    attach("toy").stop()

    assert "no longer followed: no run at" in watched


@pytest.fixture
def kernel() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager, client = start_new_kernel()
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_interrupting_a_wait_leaves_the_run(outputs: Path, kernel: tuple[KernelManager, BlockingKernelClient]):
    manager, client = kernel
    assert (
        client.execute_interactive(start(outputs / "toy", stop_steps_at=2), timeout=LIMIT_S)["content"]["status"]
        == "ok"
    )
    run = attach("toy")
    after_steps(run, 2)

    asked = client.execute("run.wait()")
    eventually(lambda: _is_display(client.get_iopub_msg(timeout=LIMIT_S)), within_s=LIMIT_S)  # it waits and shows
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=LIMIT_S)

    assert reply["parent_header"]["msg_id"] == asked
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert reply["content"]["traceback"] == ["KeyboardInterrupt: run 'toy' goes on; `run.stop()` ends it"]
    assert run.status.state is State.RUNNING
    assert run.stop().state is State.STOPPED


def _is_display(message: dict) -> bool:
    return message["msg_type"] == "display_data"


def test_a_monitor_survives_an_interrupt_and_draws_the_end(outputs: Path):
    _, watched, stopped = executed(
        start(outputs / "toy", stop_steps_at=2),
        "rlguide.monitor(run)",
        "import _thread\ntry:\n    _thread.interrupt_main(); time.sleep(5)\nexcept KeyboardInterrupt:\n"
        "    print(run.stop().state)\nrecord = run.wait()",
    )

    assert "stopped" in stopped
    assert "stopped by the user before its last step" in watched


def test_progress_of_a_measurement_is_one_line_that_ends_complete():
    (shown,) = executed(
        "from rlguide.view.live import LiveProgress\ntell = LiveProgress()\n"
        "for done in range(0, 121, 3): tell('warm start', done, 120)"
    )

    assert "warm start: 120 of 120" in shown
    assert shown.count("<progress") == 1


def test_in_a_kernel_waiting_and_measuring_have_their_displays():
    (said,) = executed(
        "import rlguide, rlguide.run, rlguide.evaluation, json, sys\n"
        "print(json.dumps([rlguide.run.watching is not None, rlguide.evaluation.showing is not None,"
        " 'matplotlib' in sys.modules, 'ipywidgets' in sys.modules]))"
    )

    assert json.loads(said) == [True, True, False, False]


def test_what_the_form_changes_is_shown_below_it_also_where_no_widgets_are(outputs: Path):
    shown, _ = executed(
        "import rlguide\nform = rlguide.edit(rlguide.load_config('tiny'))\nform",
        "form.fields['max_steps'].value = 5",
    )

    assert "<caption>The six settings, and what else differs from the preset</caption>" in shown
    assert '<th scope="row">Training steps (max_steps)</th><td class="n">20</td><td class="n">5</td>' in shown
