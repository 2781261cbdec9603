"""Keys are planted in the environment, everything that runs tells them, and none of them is found anywhere."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from finished import finished_run
from nbformat.v4 import new_code_cell, new_notebook
from test_evaluation import TEXTS, measured
from toy import eventually, supervisor_of, toy_plan

import rlguide
from rlguide.child import running
from rlguide.errors import ConfigError, EvaluationError, NotebookFailed, ServerError
from rlguide.headless import Place, collect_parameters, execute
from rlguide.paths import RunFiles
from rlguide.records import Parameters, Process
from rlguide.run import launch

pytestmark = pytest.mark.usefixtures("nothing_left", "cmdlines")

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
"""In a key: tests that run beside these look at the command lines of all processes, too."""
PLANTED = {
    "WANDB_API_KEY": "planted0wandb0" * 3,
    "HF_TOKEN": f"hf_planted0token{WORKER}",
    "MADE_UP_TOKEN": 'planted "made up" \\ <token>',
}
TELLS = """
import json, os, sys, time
keys = {name: os.environ[name] for name in ("WANDB_API_KEY", "HF_TOKEN", "MADE_UP_TOKEN")}
os.makedirs("engine/wandb", exist_ok=True)
for path in ("engine/notes", "engine/wandb/wandb-metadata.json"):
    open(path, "w").write(json.dumps(keys) + repr(keys))
for key in keys.values():
    print("starting with", key, flush=True)
    sys.stderr.write(f"refused: {key}\\r")
    for piece in ("in two writes ", key[:5], key[5:], "\\n", key[:9], "\\n  ", key[9:-3], "\\x1b[1m", key[-3:], "\\n"):
        os.write(1, piece.encode())
sys.stderr.flush()
"""
"""A component that tells its keys, in its log and in files."""


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in PLANTED.items():
        monkeypatch.setenv(name, key)


@pytest.fixture
def cmdlines(planted: None) -> Iterator[list[str]]:
    """Command lines of any process, at any time during the test, that hold a key; at its end there must be none."""
    found: list[str] = []
    over = threading.Event()
    watcher = threading.Thread(target=lambda: watch_cmdlines(found, over), daemon=True)
    watcher.start()
    yield found
    over.set()
    watcher.join()
    assert found == []


def watch_cmdlines(found: list[str], over: threading.Event) -> None:
    while not over.wait(0.05):
        lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
        found += [line for line in lines if holds_key(line)]


def holds_key(text: str) -> bool:
    """True when it is there in one piece, or in several with nothing but spaces, line ends and bold type in between."""
    whole = "".join(text.replace("\x1b[1m", "").split())
    written = (way for key in PLANTED.values() for way in (key, json.dumps(key)[1:-1], repr(key)[1:-1]))
    return any("".join(way.split()) in whole for way in written)


def files_with_keys(folder: Path) -> list[str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert paths
    return [str(path) for path in paths if holds_key(path.read_bytes().decode(errors="replace"))]


def teller(then: str) -> Process:
    return Process(name="teller", argv=(sys.executable, "-c", TELLS + then), log=Path("engine/logs/teller.log"))


def command(*argv: str) -> str:
    """All that a command of ours prints."""
    done = subprocess.run(
        [sys.executable, "-c", "from rlguide.cli import main; main()", *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


# --------------------------------------------------------------------------------------------------- the evidence


def test_a_key_on_a_command_line_would_be_seen(cmdlines: list[str]):
    argv = [sys.executable, "-c", "import time; time.sleep(20)", PLANTED["HF_TOKEN"]]

    with subprocess.Popen(argv) as process:
        eventually(lambda: cmdlines)
        process.kill()

    cmdlines.clear()


# ----------------------------------------------------------------------------------------------------------- runs


def test_a_run_that_tells_its_keys_keeps_none_of_them(outputs: Path):
    run = launch(toy_plan(outputs / "one", stop_steps_at=2, others=(teller("time.sleep(600)"),)))
    log = run.directory / "engine" / "logs" / "teller.log"
    eventually(lambda: log.exists() and log.read_text().count("refused") == len(PLANTED))

    while_running = "\n".join(run.tail("teller"))
    run.stop()

    assert "starting with [HF_TOKEN]" in while_running
    assert not holds_key(while_running)
    assert "starting with [WANDB_API_KEY]" in log.read_text()
    assert "[MADE_UP_TOKEN]" in (run.directory / "engine" / "wandb" / "wandb-metadata.json").read_text()
    assert files_with_keys(run.directory) == []


def test_a_run_that_lost_its_supervisor_keeps_no_key_once_it_was_stopped(outputs: Path):
    run = launch(toy_plan(outputs / "one", stop_steps_at=2, others=(teller("time.sleep(600)"),)))
    log = run.directory / "engine" / "logs" / "teller.log"
    eventually(lambda: log.exists() and log.read_text().count("refused") == len(PLANTED))

    supervisor_of(run).kill()
    run.stop()

    assert "starting with [WANDB_API_KEY]" in log.read_text()
    assert files_with_keys(run.directory) == []


def test_a_run_that_fails_with_a_key_on_its_lips_tells_it_nobody(outputs: Path):
    run = launch(toy_plan(outputs / "one", step_s=30, others=(teller("sys.exit(keys['HF_TOKEN'])"),)))

    said = f"{run.wait(30)!r} {command('watch', 'one')} {command('runs', '--json')}"
    page = rlguide.report(run).read_text()

    assert "exit code 1" in said
    assert "[HF_TOKEN]" in said
    assert not holds_key(said + page)
    assert files_with_keys(run.directory) == []


def test_wandb_keeps_no_copy_of_a_key_that_is_printed(tmp_path: Path):
    code = "import os, wandb; run = wandb.init(mode='offline'); print(*os.environ.values()); run.finish()"
    home = {"HOME": str(tmp_path)}  # where wandb writes down what it does itself

    with running([sys.executable, "-P", "-c", code], tmp_path / "wandb.log", env=home) as child:
        assert child.wait(60) == 0

    assert list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert "[WANDB_API_KEY]" in (tmp_path / "wandb.log").read_text()
    assert files_with_keys(tmp_path) == []


def test_a_launch_that_fails_tells_no_key(outputs: Path):
    nowhere = Process(name="trainer", argv=("/absent",), env={"PYTHONPATH": "/absent"}, log=Path("engine/trainer.log"))
    run = launch(toy_plan(outputs / "one").model_copy(update={"processes": (nowhere,)}))

    assert "could not be started" in run.wait(30).reason
    assert files_with_keys(run.directory) == []


# ------------------------------------------------------------------------------------------------------ notebooks


def notebook(path: Path, *sources: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    return path


def test_an_executed_notebook_that_shows_the_keys_holds_none(tmp_path: Path, outputs: Path):
    run = finished_run(outputs / "one")
    told = f"import json, os\nkeys = [os.environ[name] for name in {list(PLANTED)}]\nprint(*keys)\nkeys"
    page = notebook(tmp_path / "lessons" / "00_one.ipynb", told, "import rlguide; rlguide.attach('one')")
    run.files.notebooks.mkdir()

    execute(Place(page, "alone", lambda *_: None), run.files, Parameters(), limit_s=60)
    rlguide.report(run)

    assert all(f"[{name}]" in page.read_text() for name in PLANTED)
    assert nbformat.read(page, as_version=4)
    assert files_with_keys(outputs) == []


def test_a_cell_that_fails_with_a_key_tells_it_nobody(tmp_path: Path, outputs: Path):
    raising = notebook(
        tmp_path / "lessons" / "00_one.ipynb", "import os\nraise ValueError(os.environ['MADE_UP_TOKEN'])"
    )
    files = RunFiles(outputs / "one")
    files.notebooks.mkdir(parents=True)

    with pytest.raises(NotebookFailed, match="MADE_UP_TOKEN") as caught:
        execute(Place(raising, "alone", lambda *_: None), files, Parameters(), limit_s=60)

    assert not holds_key(f"{caught.value} {caught.value.__cause__}")
    assert files_with_keys(outputs) == []


def test_no_parameter_takes_a_key():
    with pytest.raises(ConfigError, match="a secret is never a parameter") as caught:
        collect_parameters([("wandb_api_key", PLANTED["WANDB_API_KEY"]), ("max_steps", PLANTED["HF_TOKEN"])])

    assert not holds_key(str(caught.value))


# ---------------------------------------------------------------------------------------------------- evaluations


def test_an_evaluation_that_fails_over_a_key_tells_it_nobody(tmp_path: Path):
    folder = tmp_path / "evaluation"
    folder.mkdir()

    with pytest.raises(EvaluationError, match="invalid") as caught:
        measured(folder, failing=TEXTS[:5], how="leak")

    assert not holds_key(str(caught.value))
    assert "stub knows [WANDB_API_KEY]" in (folder / "server.log").read_text()
    assert files_with_keys(folder) == []


def test_a_server_that_refuses_with_a_key_is_quoted_without_it(tmp_path: Path):
    with pytest.raises(
        ServerError, match=r"(?s)no budget for \[WANDB_API_KEY\].*stub knows \[WANDB_API_KEY\]"
    ) as caught:
        measured(tmp_path, failing_from=1, how="leak")

    assert not holds_key(str(caught.value))
    assert files_with_keys(tmp_path) == []
