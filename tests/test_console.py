"""The command line at its edges: streams that are odd, options that contradict, places that cannot be used."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from toy import toy_plan

import rlguide
from rlguide.accounts import WandbAccount
from rlguide.checks.hardware import gpu_text
from rlguide.console import changes_asked, pasteable
from rlguide.records import Gpu, GpuOwner
from rlguide.run import launch
from rlguide.slot import cpu_slot

pytestmark = pytest.mark.usefixtures("nothing_left")
PROGRAM = shlex.join([sys.executable, "-P", "-c", "from rlguide.cli import main; main()"])

Shell = Callable[..., subprocess.CompletedProcess[str]]
GPU = Gpu(index=0, name="X", memory_gib=80, free_gib=80,
          owners=(GpuOwner(pid=7, who="sleep of bert"), GpuOwner(pid=8, who="the run 'one' of rlguide")))  # fmt: skip
ANNA = WandbAccount(user="anna", entity="her-team", source="WANDB_API_KEY", host="wandb.ai")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Runs the command line by a shell, with redirections and variables."""

    def run(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            f"{PROGRAM} {line}",
            shell=True,
            cwd=tmp_path,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=90,
            check=False,
        )

    return run


@pytest.fixture
def run_of_an_hour_ago(outputs: Path) -> Path:
    launch(toy_plan(outputs / "one")).wait(30)
    return outputs / "one"


# --------------------------------------------------------------------------------------------- --set beside options


def test_what_is_set_counts_for_keys_that_are_options_too(shell: Shell):
    changes = "max_steps=5 seed=7 run_name=mine time_limit_s=99.0 wandb.mode=offline"

    done = shell(f"train --dry-run --json {' '.join(f'--set {change}' for change in changes.split())}")

    plan = json.loads(done.stdout)
    config = tomllib.loads(plan["files"]["config.toml"])
    assert (plan["max_steps"], config["seed"], Path(plan["directory"]).name) == (5, 7, "mine")
    assert (plan["time_limit_s"], config["wandb"]["mode"]) == (99.0, "offline")


@pytest.mark.parametrize("change", ["max_steps=true", "seed=-1", "run_name=..", "engine=prime-rl"])
def test_what_is_set_is_checked_for_keys_that_are_options_too(shell: Shell, change: str):
    done = shell(f"train --dry-run --set {change}")

    assert done.returncode in {1, 2}
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["max_steps=5"], {"max_steps": 6}),
        (["wandb.mode=offline"], {"wandb_mode": "off"}),
        (["seed=1", "seed=2"], {}),
    ],
)
def test_a_key_that_is_given_twice_differently_is_refused(settings: list[str], options: dict):
    with pytest.raises(typer.BadParameter, match="given twice"):
        changes_asked(settings, **options)


def test_a_key_that_is_given_twice_alike_is_taken():
    assert changes_asked(["max_steps=5", "wandb_mode=off"], max_steps=5, seed=None) == {
        "max_steps": 5,
        "wandb.mode": "off",
    }


# ---------------------------------------------------------------------------------------------- the program by its name


def test_the_package_is_a_program_too_and_tells_its_version(shell: Shell, tmp_path: Path):
    told = shell("--version")
    argv = [sys.executable, "-m", "rlguide", "--version"]
    as_module = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert told.stdout == as_module.stdout == f"rlguide {rlguide.__version__}\n"
    assert (told.returncode, as_module.returncode) == (0, 0)


# --------------------------------------------------------------------------------------------- writing a configuration


def test_a_file_that_somebody_edited_is_not_written_over(shell: Shell, tmp_path: Path):
    shell("config --output rl.toml")
    edited = (tmp_path / "rl.toml").read_text().replace("max_steps = 20", "max_steps = 7  # mine")
    (tmp_path / "rl.toml").write_text(edited)

    refused = [shell(f"config {line} --output rl.toml") for line in ("", "guide", "tiny --set seed=1")]

    assert [done.returncode for done in refused] == [2, 2, 2]
    assert all("with other values is there: " in done.stderr for done in refused)
    assert all("rlguide config rl.toml --set KEY=VALUE --output rl.toml" in done.stderr for done in refused)
    assert (tmp_path / "rl.toml").read_text() == edited


def test_single_keys_of_a_file_are_changed_in_place(shell: Shell, tmp_path: Path):
    shell("config --output rl.toml")
    (tmp_path / "rl.toml").write_text("# mine\n" + (tmp_path / "rl.toml").read_text())

    done = shell("config rl.toml --set max_steps=5 --output rl.toml")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rl.toml").read_text().startswith("# mine\n")
    assert tomllib.loads((tmp_path / "rl.toml").read_text())["max_steps"] == 5


# ------------------------------------------------------------------------------------------------------ odd streams


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_some_letters_gets_the_others(shell: Shell, run_of_an_hour_ago: Path, encoding: str):
    listed, watched = (shell(line, PYTHONIOENCODING=encoding) for line in ("runs", "watch one"))

    assert (listed.returncode, watched.returncode) == (0, 0)
    assert "0.000 ? 0.200" in listed.stdout
    assert "Traceback" not in listed.stderr + watched.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full: Linux")
def test_output_that_does_not_fit_is_one_error(shell: Shell, run_of_an_hour_ago: Path):
    done = shell("runs >/dev/full")

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: [Errno 28] No space left on device",
        "hint: the disk is full: free some space, then try again",
    ]


def test_where_nobody_can_be_asked_nothing_is_removed(shell: Shell, run_of_an_hour_ago: Path):
    done = shell("clean one <&-")

    assert done.returncode == 2
    assert "give --yes" in done.stderr
    assert run_of_an_hour_ago.exists()


def test_closed_output_does_no_harm(shell: Shell, run_of_an_hour_ago: Path):
    assert shell("runs >&- 2>&-").returncode == 0
    assert shell("doctor --only tmux >&- 2>&-").returncode == 0


# ------------------------------------------------------------------------------------------- places and names


@pytest.mark.parametrize(
    "line",
    [
        f"watch {'a' * 300}",
        f"stop {'a' * 300}",
        f"evaluate {'a' * 300}",
        "watch '~nobody-of-that-name/x'",
        "train --dry-run --output-dir ''",
        "train --dry-run --output-dir file",
        "train --dry-run --output-dir file/below",
        f"train --dry-run --output-dir {'a' * 300}",
    ],
)
def test_a_place_that_cannot_be_is_one_clear_error(shell: Shell, tmp_path: Path, line: str):
    (tmp_path / "file").write_text("")

    done = shell(line)

    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert "rror: " in done.stderr
    assert "Traceback" not in done.stderr


def test_where_no_run_is_the_reader_learns_where_runs_are_looked_for(shell: Shell, outputs: Path):
    listed, watched = shell("runs"), shell("watch first")

    assert listed.stdout.startswith(f"no runs in {outputs}\nhint: inside the project")
    assert listed.stdout.count("RLGUIDE_OUTPUTS") == watched.stderr.count("RLGUIDE_OUTPUTS") == 1


def test_an_outputs_folder_of_nobody_is_one_clear_error(shell: Shell):
    done = shell("runs", RLGUIDE_OUTPUTS="~nobody-of-that-name/x")

    assert done.returncode == 2
    assert "'~nobody-of-that-name/x' cannot be a path" in done.stderr
    assert "Traceback" not in done.stderr


def test_hints_about_a_run_elsewhere_name_its_directory(shell: Shell, tmp_path: Path):
    launch(toy_plan(tmp_path / "else where", exit_at=1)).wait(30)

    assert f"rlguide clean '{tmp_path}/else where'" in shell("watch 'else where'").stderr


# -------------------------------------------------------------------------------------------------- the warm start


def test_a_file_called_like_a_module_is_not_imported_in_its_place(shell: Shell, tmp_path: Path):
    (tmp_path / "rlguide.py").write_text("raise SystemExit('shadowed')")

    assert "shadowed" not in shell("warm-start --help").stderr


def test_help_about_the_warm_start_and_its_mistakes_need_no_processor(shell: Shell):
    with cpu_slot("another"):
        helped, mistaken, refused = (shell(f"warm-start {options}") for options in ("--help", "", "--output new"))

    assert helped.returncode == 0
    assert "--hidden" in helped.stdout
    assert mistaken.returncode == 2
    assert "--output" in mistaken.stderr
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: the CPU is in use by another")


@pytest.mark.parametrize("options", ["--only python", "--engine prime-rl --json"])
def test_whoever_reads_no_further_is_told_apart_from_a_doubt(options: str):
    code = "import os; os.devnull = '/no/such/place'; from rlguide.cli import main; main()"
    argv = [sys.executable, "-P", "-c", code, "doctor", *options.split()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as doctor:
        doctor.stdout.close()
        told = doctor.stderr.read()

    assert (doctor.returncode, b"Traceback" in told) == (141, False), told


# ------------------------------------------------------------------------------------------- for the eyes of strangers


def test_what_is_pasted_holds_no_secret_no_password_and_no_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "planted-secret")
    monkeypatch.setenv("HOME", "/srv/people/adalovelace")
    monkeypatch.setenv("LOGNAME", "adalovelace")
    monkeypatch.setattr("socket.gethostname", lambda: "node17")
    said = (
        "/srv/people/adalovelace/rl on node17.example, not node177; python of adalovelace (pid 7); "
        "proxy http://ada:pass@proxy.example:3128; key planted-secret"
    )

    assert pasteable(said) == (
        "~/rl on [machine].example, not node177; python of [user] (pid 7); "
        "proxy http://proxy.example:3128; key [WANDB_API_KEY]"
    )


@pytest.mark.parametrize(
    ("told", "pasted"),
    [
        (gpu_text(GPU), "0 X, 80 of 80 GiB free, sleep of [user] (pid 7), the run 'one' of rlguide (pid 8)"),
        (ANNA.told, "the run reports to [user]'s account, in [user], on wandb.ai; the key is from WANDB_API_KEY."),
        (ANNA.model_copy(update={"entity": "anna"}).told,
         "the run reports to [user]'s account, on wandb.ai; the key is from WANDB_API_KEY."),
        ("the W&B key from WANDB_API_KEY belongs to anna", "the W&B key from WANDB_API_KEY belongs to [user]"),
        ("set WANDB_API_KEY to a key of bert, correct it", "set WANDB_API_KEY to a key of [user], correct it"),
        ("token of anna, from HF_TOKEN", "token of [user], from HF_TOKEN"),
    ],
)  # fmt: skip
def test_what_is_pasted_names_no_account_and_nobody_on_a_gpu(told: str, pasted: str):
    assert pasteable(told) == pasted


@pytest.mark.parametrize("home", [None, "/"])
def test_a_container_whose_user_has_no_name_and_no_home_is_pasted_as_it_is(
    monkeypatch: pytest.MonkeyPatch, home: str | None
):
    def unknown(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    if home:
        monkeypatch.setenv("HOME", home)

    assert pasteable("66 GiB free at /srv/outputs") == "66 GiB free at /srv/outputs"
