"""Nothing is reported to a W&B account that was not meant: the real wandb asks a server of the tests' own."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from toy import eventually, processes_below, toy_plan
from wandb_stub import Stub, serving

from rlguide.accounts import wandb_account
from rlguide.checks import accounts, check_machine
from rlguide.config import load_config
from rlguide.engines import plan as planned
from rlguide.errors import ConfigError
from rlguide.paths import install_command
from rlguide.ports import free_port
from rlguide.records import Status
from rlguide.run import attach, launch

pytestmark = pytest.mark.usefixtures("nothing_left")

ANNA, BERT = "a" * 40, "b" * 86  # keys of W&B's old and new length


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A W&B that knows Anna and Bert, and a home without any key."""
    for name in [name for name in os.environ if name.startswith("WANDB_") or name == "NETRC"]:
        monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    with serving(Stub(users={ANNA: "anna", BERT: "bert"})) as stub:
        monkeypatch.setenv("WANDB_BASE_URL", stub.url)
        yield stub


def write_netrc(home: Path, machine: str, key: str) -> Path:
    path = home / ".netrc"
    with path.open("a") as file:
        file.write(f"machine {machine.removeprefix('http://')}\n  login user\n  password {key}\n")
    path.chmod(0o600)
    return path


def write_settings(home: Path, key: str) -> None:
    folder = home / ".config" / "wandb"
    folder.mkdir(parents=True)
    (folder / "settings").write_text(f"[default]\napi_key = {key}\n")


# ----------------------------------------------------------------------------------------- whose key, and from where


def test_the_variable_comes_before_a_saved_login_and_a_saved_login_before_settings(
    wandb: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "home"
    write_settings(home, ANNA)
    from_settings = wandb_account()
    netrc = write_netrc(home, wandb.url, BERT)
    before = netrc.read_bytes(), netrc.stat().st_mtime_ns
    from_netrc = wandb_account()
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    wandb.entity = "lab"
    from_variable = wandb_account()

    assert (from_settings.user, from_settings.source) == ("anna", "W&B's settings")
    assert (from_netrc.user, from_netrc.source) == ("bert", str(netrc))
    assert (from_variable.user, from_variable.source) == ("anna", "WANDB_API_KEY")
    assert from_netrc.told == f"the run reports to bert's account, on {from_netrc.host}; the key is from {netrc}."
    assert "anna's account, in lab," in from_variable.told
    assert (netrc.read_bytes(), netrc.stat().st_mtime_ns) == before


def test_a_blank_variable_hides_no_saved_login(wandb: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", " ")
    write_netrc(tmp_path / "home", wandb.url, BERT)

    assert wandb_account().user == "bert"


# ---------------------------------------------------------------------------------------------- when it is not known


def refusal() -> str:
    with pytest.raises(ConfigError) as caught:
        wandb_account()
    assert caught.value.hint
    assert not {ANNA, BERT} & set(str(caught.value).replace(":", " ").split())
    return caught.value.message


def test_without_a_key_nobody_is_asked(wandb: Stub, tmp_path: Path):
    write_netrc(tmp_path / "home", "http://another.example", ANNA)

    assert "there is no W&B key" in refusal()
    assert wandb.seen == []


@pytest.mark.parametrize("address", [None, "https://api.wandb.ai", "https://api.forge.coreweave.com"])
def test_the_service_has_the_one_name_that_people_know_at_whatever_address_it_is_asked(
    wandb: Stub, monkeypatch: pytest.MonkeyPatch, address: str | None
):
    monkeypatch.delenv("WANDB_BASE_URL")
    if address:
        monkeypatch.setenv("WANDB_BASE_URL", address)

    assert refusal().startswith("there is no W&B key for wandb.ai: ")


def test_the_address_is_told_where_it_is_what_cannot_be_reached(wandb: Stub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    monkeypatch.setenv("WANDB_BASE_URL", "https://api.wandb.ai")
    monkeypatch.setenv("HTTPS_PROXY", wandb.url)  # which lets nobody through
    monkeypatch.delenv("NO_PROXY", raising=False)

    assert refusal().startswith("W&B cannot be reached at api.wandb.ai: ")
    assert {"CONNECT api.wandb.ai:443"} == set(wandb.seen)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("null", "knows no account for the W&B key from WANDB_API_KEY"),
        ("html", "answers with something that is not W&B's"),
        ("500", "cannot say whose W&B key it is (status 500)"),
        ("late", "does not answer in time"),
    ],
)
def test_each_kind_of_failure_has_words_of_its_own(wandb: Stub, monkeypatch: pytest.MonkeyPatch, how: str, said: str):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    wandb.how = how
    started = time.monotonic()

    assert said in refusal()
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("key", ["z" * 40, "short"])
def test_a_key_that_the_server_does_not_know_is_refused_whatever_its_length(
    wandb: Stub, monkeypatch: pytest.MonkeyPatch, key: str
):
    monkeypatch.setenv("WANDB_API_KEY", key)

    assert "does not accept the W&B key from WANDB_API_KEY (status 401)" in refusal()


@pytest.mark.parametrize("key", [f"{ANNA}\n", f"{ANNA[:20]}\n{ANNA[20:]}", f"{ANNA} {ANNA}"])
def test_a_key_with_a_line_break_or_a_space_is_said_to_have_one(wandb: Stub, monkeypatch: pytest.MonkeyPatch, key: str):
    monkeypatch.setenv("WANDB_API_KEY", key)

    assert refusal() == "the W&B key from WANDB_API_KEY holds a space or a line break"


def test_no_network_is_said_as_such_with_the_way_out(wandb: Stub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{free_port()}")

    with pytest.raises(ConfigError, match="cannot be reached") as caught:
        wandb_account()

    assert "wandb.mode to offline" in caught.value.hint


def test_what_only_wandb_refuses_is_said_in_its_words(wandb: Stub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    monkeypatch.setenv("WANDB_IDENTITY_TOKEN_FILE", "/absent")

    assert refusal().startswith("wandb refuses the key from WANDB_API_KEY: Both WANDB_API_KEY and")


def test_where_wandb_is_not_installed_the_command_that_installs_it_is_told(
    wandb: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "wandb.py").write_text("raise ModuleNotFoundError('No module named wandb', name='wandb')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ConfigError, match="wandb is not installed") as caught:
        wandb_account()

    assert install_command("wandb") in caught.value.hint


def test_the_question_has_a_deadline(wandb: Stub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    wandb.how = "late"

    with pytest.raises(ConfigError, match="W&B does not answer in time"):
        wandb_account(limit_s=1)


def test_a_wandb_that_does_not_want_to_end_is_ended_in_time(
    wandb: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "wandb.py").write_text(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(accounts, "ANSWER_S", 2.0)

    (found,) = check_machine(only=["wandb"], config=load_config("tiny", {"wandb.mode": "online"})).checks

    assert (found.status, found.seconds < 2 + 2) == (Status.FAIL, True)
    assert found.seen == "W&B does not answer in time, so that the account of the W&B key is not known"
    assert not processes_below(tmp_path)


@pytest.mark.parametrize("how", ["well", "late"])
def test_nothing_is_left_of_the_question_in_the_folder_for_temporary_files(
    wandb: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    wandb.how = how

    with suppress(ConfigError):
        wandb_account(limit_s=4)

    assert not [*(tmp_path / "tmp").iterdir()]


# ------------------------------------------------------------------------------------------------------- launching


def online(folder: Path, user: str = "*"):
    return toy_plan(folder / "run").model_copy(update={"wandb_user": user})


def test_a_launch_says_whose_account_it_reports_to_and_the_run_directory_keeps_it(
    wandb: Stub, outputs: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)

    run = launch(online(outputs))
    run.wait(30)

    assert run.notice.startswith("W&B: the run reports to anna's account, on 127.0.0.1:")
    assert run.notice.endswith("the key is from WANDB_API_KEY.")
    assert attach(run.directory).record.plan.notes[-1] == run.notice


def test_another_account_than_expected_is_refused_before_anything_starts(
    wandb: Stub, outputs: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_API_KEY", BERT)

    with pytest.raises(ConfigError, match="the W&B key from WANDB_API_KEY belongs to bert") as caught:
        launch(online(outputs, "anna"))

    assert "a key of anna" in caught.value.hint
    assert not (outputs / "run" / "run.json").exists()
    assert not (outputs / "run" / "rl.toml").exists()

    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    assert launch(online(outputs, "anna")).wait(30).state.is_success


def test_a_run_is_not_resumed_into_another_account(wandb: Stub, outputs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    plan = toy_plan(outputs / "run", exit_at=1, exit_code=1).model_copy(update={"wandb_user": "anna"})
    run = launch(plan)
    eventually(lambda: run.status.state.is_over)
    monkeypatch.setenv("WANDB_API_KEY", BERT)

    with pytest.raises(ConfigError, match="belongs to bert"):
        run.resume()

    assert run.record.attempt == 1


def test_without_wandb_nobody_is_asked(wandb: Stub, outputs: Path):
    run = launch(toy_plan(outputs / "run"))

    assert run.notice is None
    assert wandb.seen == []


@pytest.mark.parametrize(
    ("changes", "user"),
    [
        ({}, None),
        ({"wandb_mode": "offline", "wandb.expected_user": "anna"}, None),
        ({"wandb_mode": "online"}, "*"),
        ({"wandb_mode": "online", "wandb.expected_user": "anna"}, "anna"),
    ],
)
def test_a_plan_says_whose_account_is_needed_and_asks_nobody(wandb: Stub, changes: dict, user: str | None):
    config = load_config("tiny", changes)
    plan = planned(config)

    assert plan.wandb_user == user
    assert plan.fingerprint == planned(config.replace({"wandb.expected_user": "somebody"})).fingerprint
    assert wandb.seen == []


# --------------------------------------------------------------------------------------------------------- proxies


@pytest.mark.parametrize("spelling", [str.upper, str.lower])
def test_the_question_goes_through_the_proxy(wandb: Stub, monkeypatch: pytest.MonkeyPatch, spelling):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for written in (name, name.upper()):
            monkeypatch.delenv(written, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(spelling(name), wandb.url)
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    monkeypatch.setenv("WANDB_BASE_URL", "http://some.invalid")

    account = wandb_account()

    assert (account.user, account.host) == ("anna", "some.invalid")
    assert set(wandb.seen) == {"POST http://some.invalid/graphql"}


# ----------------------------------------------------------------------------------------------------- the doctor


def test_the_doctor_says_whose_account_it_is_when_it_is_asked_and_only_then(
    wandb: Stub, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANDB_API_KEY", ANNA)
    (off,) = check_machine(only=["wandb"]).checks
    asked_before = list(wandb.seen)
    (anna,) = check_machine(only=["wandb"], config=load_config("tiny", {"wandb_mode": "online"})).checks
    berts = load_config("tiny", {"wandb_mode": "online", "wandb.expected_user": "bert"})
    (other,) = check_machine(only=["wandb"], config=berts).checks

    assert (off.status, off.seen, asked_before) == (Status.PASS, "none is needed: the mode is off", [])
    assert anna.status is Status.PASS
    assert anna.seen.startswith("the run reports to anna's account")
    assert (other.status, other.seen) == (Status.FAIL, "the W&B key from WANDB_API_KEY belongs to anna")
    assert "a key of bert" in other.fix
