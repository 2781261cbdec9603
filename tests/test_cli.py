"""The command line: results on standard output, errors in four parts without a traceback, exit codes that mean it."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from toy import after_steps, eventually, nothing_left, toy_plan
from typer.main import get_command

import rlguide
from rlguide.cli import app
from rlguide.config import load_config
from rlguide.records import State
from rlguide.run import Run, launch

__all__ = ["nothing_left"]
PROGRAM = [sys.executable, "-c", "from rlguide.cli import main; main()"]

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs the command line in a folder outside the project."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [*PROGRAM, *map(str, arguments)]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)

    return run


# -------------------------------------------------------------------------------------------------------- the whole


def test_commands_are_twins_of_the_public_names():
    commands = set(get_command(app).commands)

    assert {"doctor", "config", "train", "watch", "evaluate", "stop", "resume", "runs", "try", "warm-start"} <= commands
    assert {"check_machine", "load_config", "launch", "attach", "evaluate", "list_runs", "try_text"} <= set(
        rlguide.__all__
    )


@pytest.mark.parametrize("name", get_command(app).commands)
def test_every_command_explains_itself_in_one_line(name: str):
    command = get_command(app).commands[name]

    assert command.get_short_help_str(limit=60).rstrip(".") == command.help.splitlines()[0].rstrip(".")
    assert all(
        parameter.help for parameter in command.params if parameter.name != "help" and hasattr(parameter, "help")
    )


def test_without_arguments_it_shows_its_commands(cli: Cli):
    done = cli()

    assert "doctor" in done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------------- configuration


def test_config_prints_a_file_that_loads_again(cli: Cli, tmp_path: Path):
    printed = cli("config", "guide", "--set", "max_steps=3").stdout
    (tmp_path / "rl.toml").write_text(printed)

    assert load_config(tmp_path / "rl.toml") == load_config("guide", {"max_steps": 3})


def test_config_writes_a_file_and_keeps_its_comments_the_next_time(cli: Cli, tmp_path: Path):
    path = tmp_path / "rl.toml"
    path.write_text("# mine\nmax_steps = 4\n")

    done = cli("config", path, "--set", "max_steps=5", "-o", path)

    assert done.stdout == f"written: {path}\n"
    assert path.read_text().startswith("# mine\nmax_steps = 5\n")


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("max_steps=3", "max_steps", 3),
        ("trainer.optim.lr=1e-4", "trainer.optim.lr", 1e-4),
        ("gpus=[0, 1]", "gpus", [0, 1]),
        ("run_name=a-b", "run_name", "a-b"),
        ("wandb.project=x=y", "wandb.project", "x=y"),
    ],
)
def test_set_reads_values_as_toml_and_otherwise_as_text(cli: Cli, argument: str, key: str, value: object):
    printed = tomllib.loads(cli("config", "--set", argument).stdout)
    for part in key.split("."):
        printed = printed[part]

    assert printed == value


def test_config_shows_the_difference_and_checks(cli: Cli):
    assert cli("config", "--set", "seed=4", "--diff").stdout.splitlines()[1].split() == ["seed", "0", "4"]
    assert cli("config", "guide", "--check").stdout == "valid: guide\n"
    assert json.loads(cli("config", "--json").stdout)["max_steps"] == 20


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["config", "--set", "max_stpes=3"], 2, "did you mean 'max_steps'?"),
        (["config", "--set", "orchestrator.batch_size=100"], 2, "nearest valid batch_size: 96 or 112"),
        (["config", "--set", "nonsense"], 2, "not KEY=VALUE"),
        (["config", "nowhere.toml"], 2, "no configuration at 'nowhere.toml'"),
        (["train", "--max-steps", "0", "--dry-run"], 2, "max_steps = 0"),
        (["train", "--engine", "prime-rl"], 2, "no checkout of prime-rl here"),
        (["train", "--engine", "prime-rl", "--set", "gpus=[1]", "--dry-run"], 2, "uses 2 GPUs"),
        (["train", "--set", "model.name=./absent", "--dry-run"], 2, "no model in that folder"),
        (["train", "--evaluate", "--no-wait"], 2, "leave --no-wait out"),
        (["watch", "absent"], 1, "no run at"),
        (["stop", "absent"], 1, "no run at"),
        (["evaluate", "absent"], 1, "no run at"),
        (["try", "hello", "--run", "absent"], 1, "no run at"),
    ],
)
def test_bad_input_is_one_clear_error_without_a_traceback(cli: Cli, arguments: list[str], code: int, said: str):
    done = cli(*arguments)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_broken_file_is_named(cli: Cli, tmp_path: Path):
    (tmp_path / "rl.toml").write_text("max_steps = \n")

    done = cli("train", "rl.toml")

    assert done.returncode == 2
    assert f"look: {tmp_path / 'rl.toml'}" in done.stderr
    assert "hint:" in done.stderr


# ------------------------------------------------------------------------------------------------------- the machine


def test_doctor_gives_one_verdict_and_its_exit_code_says_the_same(cli: Cli):
    done = cli("doctor", "--json")

    statuses = {check["status"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == (2 if "fail" in statuses else 1 if "warn" in statuses else 0)
    assert json.loads(done.stdout)["verdict"]


def test_doctor_prints_a_block_to_paste_without_secrets(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HOME", "/tmp/planted-secret")
    monkeypatch.setenv("HF_TOKEN", "planted-secret")

    done = cli("doctor", "--report")

    assert done.stdout.startswith("```text\nrlguide doctor, engine trl, ")
    assert done.stdout.endswith("```\n")
    assert "disk for downloads" in done.stdout
    assert "planted-secret" not in done.stdout


def test_doctor_names_an_engine_that_is_not_there(cli: Cli):
    done = cli("doctor", "--engine", "nemo")

    assert done.returncode == 2
    assert "there is no nemo engine" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prime-rl"], "prime-rl is an engine: rlguide doctor --engine prime-rl"),
        (["--json", "--report"], "leave --json or --report out"),
        (["numbers.toml"], "not a TOML file: Exceeds the limit"),
        (["--only", "gpu"], "did you mean gpus?"),
        (["--only", "port"], "did you mean ports?"),
        (["--only", "trl", "--only", "packages.torc"], "did you mean packages.torch?"),
    ],
)
def test_a_question_that_the_doctor_does_not_understand_is_answered_with_the_right_one(
    cli: Cli, tmp_path: Path, arguments: list[str], said: str
):
    (tmp_path / "numbers.toml").write_text(f"seed = {'1' * 5000}")

    done = cli("doctor", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())


def test_doctor_looks_at_single_checks_and_at_the_machine_for_a_configuration(cli: Cli, tmp_path: Path):
    (tmp_path / "mine.toml").write_text('model.name = "./no-such-folder"')

    alone = cli("doctor", "--only", "outputs", "--only", "disk")
    other = cli("doctor", str(tmp_path / "mine.toml"), "--only", "warm-start")

    assert (alone.returncode, alone.stdout.count("\n")) == (0, 2)
    assert (other.returncode, "no model in that folder" in other.stdout) == (2, True)


# -------------------------------------------------------------------------------------------------------------- runs


def test_a_dry_run_shows_the_plan_and_writes_nothing(cli: Cli, outputs: Path):
    done = cli("train", "--dry-run", "--run-name", "one", "--seed", "3")

    assert done.returncode == 0
    assert str(outputs / "one") in done.stdout
    assert not outputs.exists()


def test_a_plan_is_the_same_in_json_and_takes_the_directory_that_is_named(cli: Cli, tmp_path: Path):
    plan = json.loads(cli("train", "--dry-run", "--json", "--output-dir", "here").stdout)

    assert plan["directory"] == str(tmp_path / "here")
    assert plan["fingerprint"] == rlguide.plan(load_config(), tmp_path / "elsewhere").fingerprint
    assert tomllib.loads(plan["files"]["config.toml"])["max_steps"] == 20


def test_a_dry_run_of_an_engine_that_cannot_run_here_shows_what_would_start_elsewhere_and_says_what_is_missing(
    cli: Cli, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RLGUIDE_PRIME_RL", raising=False)

    done = cli("train", "guide", "--engine", "prime-rl", "--dry-run")
    plan = json.loads(cli("train", "guide", "--engine", "prime-rl", "--dry-run", "--json").stdout)

    assert done.returncode == 2
    assert f"{tmp_path}/prime-rl/.venv/bin/rl @ {outputs}/reverse-text/rl.toml" in done.stdout
    assert "Assumed, whatever is here: prime-rl, the guide's release (024abb204), installed in" in done.stdout
    assert "and GPUs 0 and 1, free." in done.stdout
    assert "there is no checkout of prime-rl here; make one with: rlguide install --engine prime-rl" in done.stderr
    assert plan["notes"][0].startswith("Assumed")
    assert not outputs.exists()


@pytest.mark.usefixtures("nothing_left")
def test_a_run_is_watched_to_its_end_and_listed(cli: Cli, outputs: Path):
    launch(toy_plan(outputs / "one"))

    watched, listed, as_json = cli("watch", "one"), cli("runs"), cli("runs", "--json")

    assert watched.returncode == 0
    assert "run one: succeeded: the last step was reached and the weights are complete" in watched.stdout
    assert "one, succeeded, reward 0.200: done, " in watched.stderr
    assert listed.stdout.splitlines()[1].split()[:2] == ["one", "succeeded"]
    assert json.loads(as_json.stdout)[0]["state"] == "succeeded"


@pytest.mark.usefixtures("nothing_left")
def test_a_failed_run_shows_the_end_of_its_log_and_the_way_on(cli: Cli, outputs: Path):
    launch(toy_plan(outputs / "one", exit_at=1, exit_code=3, flood_bytes=240))

    done = cli("watch", "one")

    assert done.returncode == 1
    assert "run one: failed" in done.stdout
    assert "end of the trainer's log:" in done.stderr
    assert "no checkpoint was saved" in done.stderr
    assert "rlguide clean one" in done.stderr
    assert "rlguide resume" not in done.stderr


@pytest.mark.usefixtures("nothing_left")
def test_a_failed_run_with_a_checkpoint_shows_how_to_go_on(cli: Cli, outputs: Path):
    launch(toy_plan(outputs / "one", exit_at=1, exit_code=3)).wait(30)
    (outputs / "one" / "engine" / "checkpoints" / "step_1").mkdir(parents=True)

    assert "hint: rlguide resume one goes on from the last checkpoint" in cli("watch", "one").stderr


@pytest.mark.usefixtures("nothing_left")
def test_interrupting_the_wait_leaves_the_run_and_says_how_to_end_it(tmp_path: Path, outputs: Path):
    run = launch(toy_plan(outputs / "one", steps=3, stop_steps_at=2))
    after_steps(run, 2)
    log = tmp_path / "watch.log"
    with log.open("wb") as file:
        watch = subprocess.Popen([*PROGRAM, "watch", "one"], stderr=file, stdout=file, cwd=tmp_path)
    eventually(lambda: "one, running" in log.read_text())

    watch.send_signal(signal.SIGINT)

    assert watch.wait(20) == 130
    assert run.status.state is State.RUNNING
    assert "rlguide stop one" in log.read_text()
    assert "Traceback" not in log.read_text()
    run.stop()


@pytest.mark.usefixtures("nothing_left")
def test_a_run_is_stopped_resumed_and_removed(cli: Cli, outputs: Path):
    run: Run = launch(toy_plan(outputs / "one", step_s=0.2, steps=20))
    after_steps(run, 1)

    stopped = cli("stop", "one")
    resumed = cli("resume", "one", "--no-wait")
    ended = cli("watch", "one", "--json")
    refused = cli("resume", "one")
    removed = cli("clean", "one", "--yes")

    assert "stopped by the user before its last step" in stopped.stdout
    assert resumed.returncode == 0
    assert "see it: rlguide watch one" in resumed.stderr
    assert (json.loads(ended.stdout)["state"], json.loads(ended.stdout)["attempt"]) == ("succeeded", 2)
    assert refused.returncode == 1
    assert "has succeeded" in refused.stderr
    assert removed.returncode == 0
    assert not (outputs / "one").exists()


@pytest.mark.usefixtures("nothing_left")
def test_removing_asks_first(cli: Cli, outputs: Path):
    launch(toy_plan(outputs / "one")).wait(30)

    done = cli("clean", "one")

    assert done.returncode == 1
    assert (outputs / "one").exists()


def test_the_logs_of_a_run_are_shown_in_tmux_and_the_command_to_see_them_is_told(
    cli: Cli, outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    launch(toy_plan(outputs / "one")).wait(30)
    tmux = tmp_path / "tmux"
    tmux.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/said\ntest "$1" != has-session\n')
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    shown = cli("watch", "one", "--tmux")

    assert shown.stdout.startswith("see them: tmux attach -t rlguide-one"), shown.stderr
    assert "new-session" in (tmp_path / "said").read_text()
