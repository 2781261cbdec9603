"""The stand-ins for prime-rl do what the recording and the real programs do, as far as others can see it."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from prime_rl_stand_in import FAST, calls, environment_of, keys, make_checkout, tell
from prime_rl_stand_in.behaviour import DEFAULTS
from prime_rl_stand_in.client import call
from prime_rl_stand_in.policy import skill_of, write_config, write_tensors
from prime_rl_stand_in.settings import problems_in
from prime_rl_stand_in.trainer import steps_in
from prime_rl_stand_in.venv import PROGRAMS
from toy import eventually, processes_below

import rlguide
from rlguide.checkout import release_of
from rlguide.dialects import MILESTONES, NOT_REACHED, Stage, find_stage, message_of, parse_failure
from rlguide.engines.policy import is_whole
from rlguide.engines.replay import RECORDING
from rlguide.parsing import DIALECTS, parse_rollouts
from rlguide.tail import LineReader
from rlguide.vf_eval import to_sample

WARM_START = "warm/start"
"""A name as the Hub has them."""
TEXTS = Path(__file__).parent.parent / "rlguide" / "data" / "texts"
COMPONENTS = ("orchestrator", "trainer", "inference", "launcher")
OVERLAY = """
max_steps = {steps}
wandb = "None"
[model]
name = "{policy}"
[orchestrator.client]
base_url = ["http://localhost:{port}/v1"]
[[orchestrator.train.env]]
id = "reverse-text"
args = {{ dataset_name = "{texts}", dataset_split = "train" }}
[inference.server]
port = {port}
"""
KINDS = {
    "checkpoints/step_N/trainer/.metadata",
    "checkpoints/step_N/trainer/__N_N.distcp",
    "configs/inference.toml",
    "configs/orchestrator.toml",
    "configs/trainer.toml",
    "logs/envs/train/reverse-text/env_server.log",
    "logs/envs/train/reverse-text/env_worker_N.log",
    "logs/inference.log",
    "logs/orchestrator.log",
    "logs/trainer.log",
    "logs/trainer/torchrun/ID/attempt_N/N/stderr.log",
    "logs/trainer/torchrun/ID/attempt_N/N/stdout.log",
    "rollouts/step_N/rank_N.bin",
    "run_default/broadcasts/step_N/STABLE",
    "run_default/broadcasts/step_N/model.safetensors",
    "run_default/checkpoints/step_N/orchestrator/buffer/easy_examples.jsonl",
    "run_default/checkpoints/step_N/orchestrator/buffer/hard_examples.jsonl",
    "run_default/checkpoints/step_N/orchestrator/buffer/rollout_buffer.jsonl",
    "run_default/checkpoints/step_N/orchestrator/progress.pt",
    "run_default/control/orch.toml",
    "run_default/rollouts/step_N/train_rollouts.bin",
    "run_default/rollouts/step_N/train_rollouts.jsonl",
    "weights/step_N/STABLE",
    "weights/step_N/chat_template.jinja",
    "weights/step_N/config.json",
    "weights/step_N/generation_config.json",
    "weights/step_N/model.safetensors",
    "weights/step_N/tokenizer.json",
    "weights/step_N/tokenizer_config.json",
}
"""The files of the recorded run, without W&B's."""
ROW = {
    "example_id", "prompt", "completion", "answer", "reward", "error", "timing", "is_completed", "is_truncated",
    "stop_condition", "metrics", "tool_defs", "lcs_reward_func", "num_turns",
}  # fmt: skip
"""Keys of a row that the real vf-eval 0.1.14 saves, without token counts."""
METADATA = {
    "env_id", "env_args", "model", "base_url", "num_examples", "rollouts_per_example", "sampling_args", "time",
    "avg_reward", "avg_metrics", "avg_error", "pass_at_k", "pass_all_k", "pass_threshold", "usage", "version_info",
    "state_columns", "tools",
}  # fmt: skip

Child = subprocess.Popen[bytes]
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the stand-ins walk /proc")


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A checkout whose processes are gone after the test."""
    yield make_checkout(tmp_path / "prime-rl", behaviour=FAST)
    end_all(tmp_path)


def end_all(folder: Path) -> None:
    for process in processes_below(folder):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    eventually(lambda: not processes_below(folder))


def free_port() -> int:
    """A port below those that the system gives to outgoing connections, of which there are many beside this test."""
    while True:
        port = random.randrange(12_000, 32_000)
        with suppress(OSError), socket.create_server(("0.0.0.0", port)):
            return port


def overlay(
    checkout: Path, more: str = "", *, steps: int = 3, port: int | None = None, policy: str = WARM_START
) -> Path:
    file = checkout / "overlay.toml"
    file.write_text(OVERLAY.format(steps=steps, port=port or free_port(), policy=policy, texts=TEXTS) + more)
    return file


def start(checkout: Path, program: str, *arguments: Any, log: str = "launcher.log", **variables: str) -> Child:
    """A program with its output in a log, in a session of its own."""
    argv = [checkout / ".venv" / "bin" / program, *map(str, arguments)]
    env = environment_of(checkout, **variables)
    with (checkout / log).open("wb") as output:
        return subprocess.Popen(argv, cwd=checkout, env=env, stdout=output, stderr=output, start_new_session=True)


def launch(checkout: Path, *more: Any, **variables: str) -> Child:
    files = ("@", "examples/reverse_text/rl.toml", "@", "overlay.toml")
    return start(checkout, "rl", *files, "--output-dir", "out", *more, **variables)


def said(checkout: Path, name: str = "launcher") -> str:
    path = checkout / ("launcher.log" if name == "launcher" else f"out/logs/{name}.log")
    return "\n".join(LineReader(path).read())


def finished(checkout: Path, *more: Any, **variables: str) -> int:
    return launch(checkout, *more, **variables).wait(timeout=30)


def children_named(checkout: Path, name: str) -> list[psutil.Process]:
    return [process for process in processes_below(checkout) if process.name() == name[:15]]


# -------------------------------------------------------------------------------------------- agrees with the recording


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout with a finished run of 20 steps, of which no process is left."""
    checkout = make_checkout(tmp_path_factory.mktemp("whole") / "prime-rl", behaviour=FAST | {"server_start_s": 1.5})
    overlay(checkout, steps=20)
    try:
        assert finished(checkout) == 0, said(checkout)
        eventually(lambda: not processes_below(checkout))
        yield checkout
    finally:
        end_all(checkout)


def log_of(folder: Path, component: str) -> list[str]:
    path = folder / "launcher.log" if component == "launcher" and (folder / "out").exists() else None
    where = folder / "out" if (folder / "out").exists() else folder
    return LineReader(path or where / "logs" / f"{component}.log").read()


@pytest.mark.parametrize("component", ["orchestrator", "trainer"])
def test_each_step_tells_the_same_numbers_as_in_the_recording(done: Path, component: str):
    parse = DIALECTS[f"prime-rl-0.5 {component}"]
    made, recorded = (
        [part for line in log_of(folder, component) if (part := parse(line))] for folder in (done, RECORDING)
    )

    assert [part["step"] for part in made] == [part["step"] for part in recorded]
    assert [set(part) for part in made] == [set(part) for part in recorded]


def kinds_of_lines(folder: Path, component: str) -> set[str]:
    """The beginnings that the dialect looks for, as far as a log has them."""
    messages = [found[1] for line in log_of(folder, component) if (found := message_of(line))]
    starts = {begin for owner, begin, _ in MILESTONES if owner == component}
    waits = {NOT_REACHED.pattern} if any(map(NOT_REACHED.match, messages)) else set()
    return waits | {begin for begin in starts if any(message.startswith(begin) for message in messages)}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_kind_of_line_that_is_read_from_the_recording_is_there(done: Path, component: str):
    assert kinds_of_lines(done, component) == kinds_of_lines(RECORDING, component)


def test_a_run_goes_through_all_stages_in_their_order(done: Path):
    logs = {name: log_of(done, name) for name in ("orchestrator", "trainer")}
    cuts = range(len(logs["trainer"]) + 1)
    seen = [find_stage({"orchestrator": logs["orchestrator"][:5], "trainer": []})[0]]
    seen += [find_stage({"orchestrator": logs["orchestrator"], "trainer": logs["trainer"][:cut]})[0] for cut in cuts]

    assert list(dict.fromkeys(seen)) == list(Stage)


def forms(path: Path) -> set[bytes]:
    """The log's lines of the logger, with their colours, without time and words."""
    lines = re.split(rb"[\r\n]", path.read_bytes())
    return {re.sub(rb"\d\d:\d\d:\d\d|(?<=\x1b\[22m).*?(?=\x1b)", b"", line) for line in lines if b"\x1b[2m" in line}


@pytest.mark.parametrize("component", ["orchestrator", "trainer", "launcher"])
def test_lines_have_the_colours_and_prefixes_of_the_recording(done: Path, component: str):
    made = done / "launcher.log" if component == "launcher" else done / "out" / "logs" / f"{component}.log"

    assert forms(made) >= forms(RECORDING / "logs" / f"{component}.log") != set()


def test_progress_bars_are_written_over_themselves(done: Path):
    bar = rb"\rGenerating rollouts \(train\): 100%\|(?:\xe2\x96\x88){10}\| 128/128 \[\d\d:\d\d<\d\d:\d\d, [\d.]+it/s\]"

    assert len(re.findall(bar, (done / "out/logs/orchestrator.log").read_bytes())) == 20


def test_the_files_are_those_of_the_recorded_run(done: Path):
    out = done / "out"
    paths = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    paths = {re.sub(r"torchrun/[^/]+", "torchrun/ID", path) for path in paths}

    assert {re.sub(r"\d+", "N", path) for path in paths} == KINDS
    assert steps_in(out / "weights") == steps_in(out / "checkpoints") == [20]
    assert steps_in(out / "run_default" / "broadcasts") == [19, 20]
    assert steps_in(out / "rollouts") == steps_in(out / "run_default" / "rollouts") == list(range(20))


def test_rollouts_have_the_keys_of_recorded_ones(done: Path):
    made = (done / "out/run_default/rollouts/step_3/train_rollouts.jsonl").read_text()
    recorded = (RECORDING / "run_default/rollouts/step_3/train_rollouts.jsonl").read_text()

    assert set(json.loads(recorded.splitlines()[0])) - {"lcs"} <= set(json.loads(made.splitlines()[0]))
    assert len(parse_rollouts(made, 3)) == 128
    assert len({rollout.text for rollout in parse_rollouts(made, 3)}) == 8


def test_the_reward_rises_as_in_the_guide(done: Path):
    parse = DIALECTS["prime-rl-0.5 orchestrator"]
    rewards = [part["reward"] for line in log_of(done, "orchestrator") if (part := parse(line))]

    assert rewards[0] < 0.2
    assert rewards[-1] >= 0.65
    assert rewards[-1] >= rewards[0] + 0.4


def test_weights_are_a_policy_in_the_right_format(done: Path):
    folder = done / "out" / "weights" / "step_20"

    assert is_whole(folder / "model.safetensors")
    assert skill_of(folder) == DEFAULTS["top_skill"]
    assert json.loads((folder / "config.json").read_text())["model_type"] == "qwen3"


@pytest.mark.parametrize(("name", "table"), [("trainer", keys.TRAINER), ("inference", keys.INFERENCE),
                                             ("orchestrator", keys.ORCHESTRATOR), ("rl", keys.RL)])  # fmt: skip
def test_recorded_configurations_are_accepted(name: str, table: dict):
    folder = RECORDING if name == "rl" else RECORDING / "configs"

    assert not list(problems_in(tomllib.loads((folder / f"{name}.toml").read_text()), table))


# ------------------------------------------------------------------------------------------------------------- refusals


def refusals() -> list[Any]:
    extra = [
        ("unknown key", "[trainer]\nnonsense = 1\n", "trainer.nonsense", {}),
        ("renamed key", "[orchestrator]\ngroup_size = 16\n", "Extra inputs are not permitted", {}),
        ("wrong word", '[trainer.model]\nattn = "none"\n', "Input should be 'eager'", {}),
        ("uneven batch", "[orchestrator]\nbatch_size = 100\n", "Batch size must be divisible", {}),
        ("offline and shared", "[wandb]\noffline = true\n", "incompatible with offline mode", {}),
        ("two ports", "[inference.server]\nport = 9\n", "does not match inference.server.port (9)", {}),
        ("short trainer", "[trainer.model]\nseq_len = 16\n", "must be >= orchestrator seq_len", {}),
        ("no numbers", "", "invalid literal for int()", {"CUDA_VISIBLE_DEVICES": "GPU-1234,GPU-5678"}),
        ("too few", "", "only 1 physical GPU(s) are available: [3]", {"CUDA_VISIBLE_DEVICES": "3"}),
        ("none", "", "only 0 physical GPU(s) are available: []", {"CUDA_VISIBLE_DEVICES": ""}),
        ("busy", "", "GPU 1: PIDs [77]", {"STAND_IN_BUSY": '{"1": [77]}'}),
        ("offline Hub", "", "warm/start (offline mode)", {"HF_HUB_OFFLINE": "1", "HF_HOME": "/nowhere"}),
    ]
    return [pytest.param(*values, id=name) for name, *values in extra]


@pytest.mark.parametrize(("toml", "reason", "variables"), refusals())
def test_what_prime_rl_refuses_is_refused_before_anything_starts(
    checkout: Path, toml: str, reason: str, variables: dict
):
    overlay(checkout)
    (checkout / "more.toml").write_text(toml)

    code = finished(checkout, "@", "more.toml", **variables)

    assert code == 1
    assert reason in re.sub(r"\s+│\s+│\s*", " ", said(checkout).replace("\n", ""))
    assert [called["program"] for called in calls(checkout)] == ["rl"]


def test_an_unknown_flag_is_another_kind_of_refusal(checkout: Path):
    overlay(checkout)

    assert finished(checkout, "--nonsense", "3") == 2
    assert finished(checkout, "--dry-run", "true") == 2


def test_keys_of_the_optimizer_are_not_looked_at(checkout: Path):
    overlay(checkout, "[trainer.optim]\nnonsense = 1\n")

    assert finished(checkout, "--dry-run") == 0


def test_a_folder_with_checkpoints_is_refused_unless_it_is_resumed_or_emptied(checkout: Path):
    overlay(checkout)
    (checkout / "out" / "checkpoints" / "step_1").mkdir(parents=True)

    assert finished(checkout, "--dry-run") == 1
    assert "FileExistsError" in said(checkout)
    assert "ckpt.resume_step=-1" in said(checkout)
    assert finished(checkout, "--dry-run", "--ckpt.resume-step", "1") == 0
    assert finished(checkout, "--dry-run", "--clean-output-dir") == 0
    assert not (checkout / "out" / "checkpoints").exists()


def test_what_lies_beyond_the_first_step_is_removed_before_a_run(checkout: Path):
    overlay(checkout)
    stale = [checkout / "out" / name for name in ("rollouts", "run_default/rollouts", "run_default/broadcasts")]
    for folder in stale:
        (folder / "step_4").mkdir(parents=True)
        (folder / "step_5").mkdir()

    finished(checkout, "--dry-run", "--ckpt.resume-step", "4")
    assert [steps_in(folder) for folder in stale] == [[4]] * 3
    finished(checkout, "--dry-run")
    assert [steps_in(folder) for folder in stale] == [[]] * 3


def test_a_dry_run_writes_the_parts_and_starts_nothing(checkout: Path):
    overlay(checkout)

    assert finished(checkout, "--dry-run", "--max-steps", "7") == 0
    assert "Dry run complete." in said(checkout)
    assert "max_steps = 7" in (checkout / "out/configs/trainer.toml").read_text()
    assert [called["program"] for called in calls(checkout)] == ["rl"]


def test_some_flags_are_accepted_and_change_nothing(checkout: Path):
    overlay(checkout)

    assert finished(checkout, "--dry-run", "--orchestrator.train.sampling.max-completion-tokens", "9") == 0
    assert "max_completion_tokens = 128" in (checkout / "out/configs/orchestrator.toml").read_text()


def test_programs_are_found_by_path_alone(checkout: Path):
    overlay(checkout)

    assert finished(checkout, PATH="/usr/bin:/bin") == 1
    assert "No such file or directory: 'inference'" in said(checkout)


# ------------------------------------------------------------------------------------------------------------- failures


LEFT = {"inference": {"VLLM::EngineCor"}, "orchestrator": {"EnvServer::reve", "EnvWorker::reve"}}
"""What stays of a component that was killed: nobody has told it, and the launcher passes over the dead."""


@pytest.mark.parametrize(
    ("component", "plan", "told", "left"),
    [
        ("inference", {"exit": 3}, "Error: Inference failed with exit code 3", set()),
        ("inference", {"at": 1, "signal": 9}, "Error: Inference failed with exit code -9", LEFT["inference"]),
        ("engine", {"exit": 1}, "Error: Inference failed with exit code 1", set()),
        ("engine", {"at": 1, "signal": 9}, "Error: Orchestrator failed with exit code 1", set()),
        ("orchestrator", {"at": 1, "exit": 4}, "Error: Orchestrator failed with exit code 4", LEFT["orchestrator"]),
        ("orchestrator", {"at": 1, "error": "stand-in"}, "Error: Orchestrator failed with exit code 1", set()),
        ("trainer", {"at": 1, "signal": 9}, "Error: Trainer failed with exit code 1", set()),
        ("trainer", {"at": 1, "error": "out of memory"}, "Error: Trainer failed with exit code 1", set()),
        ("trainer", {"at": "weights", "exit": 1}, "Trainer failed with exit code 1", set()),
    ],
)
def test_when_one_component_dies_the_launcher_says_so_and_ends_the_others(
    checkout: Path, component: str, plan: dict, told: str, left: set[str]
):
    overlay(checkout, steps=8)
    tell(checkout, **FAST, die={component: plan})

    code = finished(checkout)

    assert code == 1
    assert told in said(checkout)
    assert [failure for line in said(checkout).splitlines() if (failure := parse_failure(line))]
    eventually(lambda: {process.name() for process in processes_below(checkout)} == left)


def test_an_error_stands_with_its_traceback_in_the_log_of_the_component(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, die={"trainer": {"at": 1, "error": "CUDA out of memory"}})

    assert finished(checkout) == 1
    assert "Fatal error in train" in said(checkout, "trainer")
    assert "RuntimeError: CUDA out of memory" in said(checkout, "trainer")
    assert "failed (exitcode: 1) local_rank: 0" in said(checkout, "trainer")


def test_the_trainer_needs_flash_attention_whatever_is_configured(tmp_path: Path):
    checkout = make_checkout(tmp_path / "prime-rl", behaviour=FAST, without=["flash_attn"])
    overlay(checkout, '[trainer.model]\nattn = "sdpa"\n')

    assert finished(checkout) == 1
    assert "No module named 'flash_attn'" in said(checkout, "trainer")
    assert "Error: Trainer failed with exit code 1" in said(checkout)


def test_a_port_that_is_taken_ends_the_server(checkout: Path):
    with socket.create_server(("0.0.0.0", 0)) as other:
        overlay(checkout, port=other.getsockname()[1])

        assert finished(checkout) == 1

    assert "Address already in use" in said(checkout, "inference")
    assert "Error: Inference failed with exit code 1" in said(checkout)


def test_a_server_that_is_never_ready_is_waited_for(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, never_ready=True)
    launcher = launch(checkout)

    eventually(lambda: (checkout / "out/logs/orchestrator.log").exists())
    eventually(lambda: "not reached after 30 seconds" in said(checkout, "orchestrator"))

    assert launcher.poll() is None


def test_a_server_that_ends_well_because_its_engine_died_is_waited_for(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, die={"engine": {"at": "ready", "signal": 9}})
    launcher = launch(checkout)

    eventually(lambda: (checkout / "out/logs/orchestrator.log").exists())
    eventually(lambda: "not reached after 60 seconds" in said(checkout, "orchestrator"))

    assert "EngineDeadError" in said(checkout, "inference")
    assert not children_named(checkout, "PRIME-RL::Inference")
    assert launcher.poll() is None


def test_the_server_of_another_model_is_no_server(checkout: Path):
    port = free_port()
    overlay(checkout, port=port)
    finished(checkout, "--dry-run", "--model.name", "another/policy")

    with serving(checkout, port=port):
        orchestrator = start(checkout, "orchestrator", "@", "out/configs/orchestrator.toml", log="orchestrator.log")
        assert orchestrator.wait(timeout=10) == 1

    assert "Model another/policy was not found" in (checkout / "orchestrator.log").read_text()


def test_reporting_to_wandb_needs_a_key(checkout: Path):
    overlay(checkout)
    (checkout / "more.toml").write_text('[wandb]\nproject = "mine"\n')
    away = {"NETRC": "/nowhere", "WANDB_API_KEY": ""}

    assert finished(checkout, "@", "more.toml", **away) == 1
    assert "No API key configured" in said(checkout, "orchestrator") + said(checkout, "trainer")


# ----------------------------------------------------------------------------------------------------- stopping, ending


@contextmanager
def training(checkout: Path, *, component: str = "trainer", **behaviour: Any) -> Iterator[Child]:
    """A launcher in mid-run."""
    overlay(checkout, steps=10_000)
    tell(checkout, **FAST, **behaviour)
    launcher = launch(checkout)
    eventually(lambda: (checkout / "out/logs/trainer.log").exists() and "Step 1 |" in said(checkout, "trainer"))
    yield launcher
    launcher.kill()
    launcher.wait()


@pytest.mark.parametrize(("number", "told"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "interrupt signal")])
def test_a_signal_ends_the_whole_tree(checkout: Path, number: int, told: str):
    with training(checkout) as launcher:
        launcher.send_signal(number)

        assert launcher.wait(timeout=15) == 1

    assert f"Received {told}, terminating all processes..." in said(checkout)
    assert "SignalException" in said(checkout, "trainer")
    assert not processes_below(checkout)


def test_the_trainer_has_a_session_of_its_own_and_survives_the_launchers_group(checkout: Path):
    with training(checkout) as launcher:
        (trainer,) = children_named(checkout, "PRIME-RL::Trainer")
        (engine,) = children_named(checkout, "VLLM::EngineCore")

        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()

        assert os.getsid(trainer.pid) == trainer.pid
        eventually(lambda: not children_named(checkout, "PRIME-RL::Orchestrator"))
        assert trainer.is_running()
        assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE


def test_the_engine_can_have_a_session_of_its_own_too(checkout: Path):
    with training(checkout, engine_session=True) as launcher:
        (engine,) = children_named(checkout, "VLLM::EngineCore")

        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()

        eventually(lambda: not children_named(checkout, "PRIME-RL::Inference"))
        assert engine.is_running()


def test_all_go_on_when_the_launcher_alone_is_killed(checkout: Path):
    with training(checkout) as launcher:
        launcher.kill()
        launcher.wait()
        steps = said(checkout, "trainer").count("SUCCESS Step")

        eventually(lambda: said(checkout, "trainer").count("SUCCESS Step") > steps + 3)


@pytest.mark.parametrize("component", ["engine", "env server"])
def test_what_a_killed_parent_leaves_behind_stays(checkout: Path, component: str):
    parent, child = {
        "engine": ("PRIME-RL::Inference", "VLLM::EngineCore"),
        "env server": ("PRIME-RL::Orchestrator", "EnvServer::reverse-text"),
    }[component]
    with training(checkout) as launcher:
        (left,) = children_named(checkout, child)
        children_named(checkout, parent)[0].kill()

        assert launcher.wait(timeout=15) == 1
        assert left.is_running()


def test_a_component_that_ignores_sigterm_is_killed_in_the_end(checkout: Path):
    with training(checkout, ignore_sigterm=["trainer"], worker_grace_s=0.5) as launcher:
        asked_at = time.monotonic()
        launcher.terminate()

        assert launcher.wait(timeout=15) == 1
        assert time.monotonic() - asked_at >= 0.5

    eventually(lambda: not processes_below(checkout))


def test_a_component_can_take_its_time_to_end(checkout: Path):
    with training(checkout, slow_end_s={"trainer": 1.0}) as launcher:
        asked_at = time.monotonic()
        launcher.terminate()

        assert launcher.wait(timeout=15) == 1
        assert time.monotonic() - asked_at >= 1.0


def test_a_run_can_hang_after_its_weights(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, hang=["trainer"])
    launcher = launch(checkout)

    eventually(lambda: (checkout / "out/weights/step_3/STABLE").exists())
    eventually(lambda: "RL trainer finished!" in said(checkout, "trainer"))

    with pytest.raises(subprocess.TimeoutExpired):
        launcher.wait(timeout=2)


# ------------------------------------------------------------------------------------------------ checkpoints, resuming


def test_a_run_is_resumed_from_a_checkpoint_in_between(checkout: Path):
    overlay(checkout, "[ckpt]\ninterval = 2\n", steps=6)
    tell(checkout, **FAST, die={"trainer": {"at": 5, "signal": 9, "once": True}})

    assert finished(checkout) == 1
    assert steps_in(checkout / "out" / "weights") == steps_in(checkout / "out" / "checkpoints") == [2, 4]
    assert finished(checkout, "--ckpt.resume-step", "4") == 0
    assert "Resuming training from checkpoint step 4" in said(checkout, "trainer")
    assert "Step 3 |" not in said(checkout, "trainer")
    assert (checkout / "out/weights/step_6/STABLE").exists()


def test_a_checkpoint_that_was_half_written_is_taken_for_the_newest(checkout: Path):
    overlay(checkout, "[ckpt]\ninterval = 2\n", steps=6)
    tell(checkout, **FAST, die={"trainer": {"at": "checkpoint", "signal": 9, "once": True}})

    assert finished(checkout) == 1
    assert not (checkout / "out/checkpoints/step_2/trainer/.metadata").exists()
    assert finished(checkout, "--ckpt.resume-step", "-1") == 1
    # The orchestrator runs ahead, and may have saved a later step: whoever looks first ends the other.
    assert "FileNotFoundError" in said(checkout, "trainer") + said(checkout, "orchestrator")


def test_without_a_table_for_checkpoints_nothing_is_saved(checkout: Path):
    overlay(checkout, 'ckpt = "None"\n'.replace("ckpt", "[trainer]\nckpt"))
    text = (checkout / "examples/reverse_text/rl.toml").read_text()
    (checkout / "examples/reverse_text/rl.toml").write_text(text.replace("[ckpt]", ""))

    assert finished(checkout) == 0
    assert not (checkout / "out" / "weights").exists()


def test_weights_can_stay_without_their_marker(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, unstable=True)

    assert finished(checkout) == 0
    assert not (checkout / "out/weights/step_3/STABLE").exists()


# ----------------------------------------------------------------------------------------------------------------- logs


def test_garbage_in_the_logs_hides_no_step(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, garbage=["orchestrator", "trainer", "inference", "rl"])

    assert finished(checkout) == 0
    parse = DIALECTS["prime-rl-0.5 orchestrator"]
    assert [part["step"] for line in log_of(checkout, "orchestrator") if (part := parse(line))] == [0, 1, 2]


def test_logs_can_be_json(checkout: Path):
    overlay(checkout, "[log]\njson_logging = true\n")

    assert finished(checkout) == 0
    parse = DIALECTS["prime-rl-0.5 trainer"]
    assert [part["step"] for line in log_of(checkout, "trainer") if (part := parse(line))] == [0, 1, 2]
    assert b"\x1b" not in (checkout / "out/logs/trainer.log").read_bytes()


def test_a_component_says_what_it_is_told_with_variables_filled_in(checkout: Path):
    overlay(checkout)
    tell(checkout, **FAST, says={"trainer": ["the key is $SOME_KEY"]})

    assert finished(checkout, SOME_KEY="abc123") == 0
    assert "the key is abc123" in said(checkout, "trainer")


# --------------------------------------------------------------------------------------------------- server, evaluation


@contextmanager
def serving(checkout: Path, policy: str = WARM_START, port: int | None = None) -> Iterator[str]:
    """Address of an `inference` of its own."""
    port = port or free_port()
    server = start(checkout, "inference", "--model.name", policy, "--server.port", port)
    eventually(lambda: server.poll() is not None or "startup complete" in said(checkout))
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    assert server.wait(timeout=10) == 0
    assert "EngineDeadError" not in said(checkout)
    eventually(lambda: not children_named(checkout, "VLLM::EngineCore"))


def ask(url: str, text: str, model: str = WARM_START, **more: Any) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": text}]} | more
    return call("POST", f"{url}/v1/chat/completions", body)


def content(answer: Any) -> str:
    return answer.json()["choices"][0]["message"]["content"]


def trained(folder: Path, skill: float) -> str:
    write_tensors(folder, skill)
    write_config(folder, "")
    return str(folder)


def test_the_server_has_the_paths_of_vllm_and_serves_one_name(checkout: Path):
    with serving(checkout) as url:
        assert call("GET", f"{url}/health").status == 200
        assert [card["id"] for card in call("GET", f"{url}/v1/models").json()["data"]] == [WARM_START]
        assert ask(url, "abc").status == 200
        assert ask(url, "abc", model="other").status == 404
        assert "The model `other` does not exist." in ask(url, "abc", model="other").text
        assert call("GET", f"{url}/nonsense").status == 404
        assert call("POST", f"{url}/v1/chat/completions", {"model": WARM_START}).status == 400


def test_greedy_answers_are_equal_and_sampled_ones_are_not(checkout: Path):
    with serving(checkout) as url:
        greedy = {content(ask(url, "a longer text", temperature=0)) for _ in range(5)}
        sampled = {content(ask(url, "a longer text", temperature=1)) for _ in range(20)}

    assert len(greedy) == 1
    assert len(sampled) > 1


def test_a_skilled_policy_is_right_and_an_answer_can_be_cut(checkout: Path, tmp_path: Path):
    policy = trained(tmp_path / "step_20", 1.0)
    with serving(checkout, policy) as url:
        whole, cut = ask(url, "abcdefgh", policy), ask(url, "abcdefgh", policy, max_completion_tokens=4)

    assert content(whole) == "<reversed_text>hgfedcba</reversed_text>"
    assert cut.json()["choices"][0]["finish_reason"] == "length"
    assert cut.json()["usage"]["completion_tokens"] == 4


def test_a_folder_that_is_no_policy_ends_the_server_at_once(checkout: Path, tmp_path: Path):
    assert start(checkout, "inference", "--model.name", tmp_path).wait(timeout=10) == 1
    assert start(checkout, "inference", "--model.name", tmp_path / "absent").wait(timeout=10) == 1
    assert start(checkout, "inference", "--vllm.model", WARM_START).wait(timeout=10) == 2


def evaluate(checkout: Path, url: str, *more: Any, model: str = WARM_START, **variables: str) -> int:
    given = json.dumps({"dataset_name": str(TEXTS), "dataset_split": "test"})
    argv = ("reverse-text", "-m", model, "-b", f"{url}/v1", "-n", 20, "-r", 3, "-a", given, "-s", "-o", "evals", *more)
    done = subprocess.run(
        [checkout / ".venv/bin/vf-eval", *map(str, argv)],
        cwd=checkout,
        env=environment_of(checkout, **variables),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    (checkout / "vf-eval.log").write_text(done.stdout + done.stderr)
    return done.returncode


def saved(checkout: Path) -> tuple[list[dict], dict]:
    (folder,) = (checkout / "evals" / "evals").glob("reverse-text--*/*")
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return rows, json.loads((folder / "metadata.json").read_text())


def test_an_evaluation_saves_the_files_of_vf_eval(checkout: Path):
    with serving(checkout) as url:
        assert evaluate(checkout, url, "--max-tokens", 128, "-T", 1.0) == 0

    rows, metadata = saved(checkout)
    assert set(metadata) == METADATA
    assert {frozenset(row) for row in rows} == {frozenset(ROW | {"token_usage"})}
    assert len(rows) == 60
    assert metadata["avg_reward"] == pytest.approx(sum(row["reward"] for row in rows) / 60)
    assert all(to_sample(row).reward == row["reward"] for row in rows)
    assert [to_sample(row).text for row in rows[::3]] == first_texts(20)
    assert f"reward: avg - {metadata['avg_reward']:.3f}" in (checkout / "vf-eval.log").read_text()


def first_texts(number: int) -> list[str]:
    return [json.loads(line)["prompt"] for line in (TEXTS / "test.jsonl").read_text().splitlines()[:number]]


def test_training_shows_in_an_evaluation(checkout: Path, tmp_path: Path):
    policy, means = trained(tmp_path / "step_20", 0.9), []
    for model in (WARM_START, policy):
        with serving(checkout, model) as url:
            evaluate(checkout, url, "-o", f"evals-{len(means)}", model=model)
        (results,) = (checkout / f"evals-{len(means)}").rglob("results.jsonl")
        rewards = [json.loads(line)["reward"] for line in results.read_text().splitlines()]
        means.append(sum(rewards) / len(rewards))

    assert means[0] < 0.3
    assert means[1] > 0.7


def test_the_checkouts_python_completes_chats_with_a_policy(checkout: Path, tmp_path: Path):
    program = Path(rlguide.__file__).parent / "programs" / "complete.py"
    chats, out = tmp_path / "chats.json", tmp_path / "out.json"
    chats.write_text(json.dumps([[{"role": "user", "content": "abcd"}]]))
    policies = (WARM_START, trained(tmp_path / "step_20", 1.0))

    argv = (checkout / ".venv/bin/python", "-P", program, *policies, "--chats", chats, "--out", out, "--samples", "9")
    subprocess.run(argv, check=True)

    (before,), (after,) = json.loads(out.read_text())
    assert {after["greedy"], *after["samples"]} == {"<reversed_text>dcba</reversed_text>"}
    assert len(before["samples"]) == 9
    assert before["samples"] != after["samples"]


@pytest.mark.parametrize("how", ["503", "html", "close", "empty"])
def test_an_evaluation_ends_well_although_every_request_fails(checkout: Path, how: str):
    tell(checkout, **FAST, requests={"how": how})
    with serving(checkout) as url:
        assert evaluate(checkout, url, "-n", 2, "-r", 1) == 0

    rows, metadata = saved(checkout)
    assert metadata["avg_error"] == 1
    assert {row["stop_condition"] for row in rows} == {"has_error"}
    assert all(set(row["error"]) == {"error", "error_chain_repr", "error_chain_str"} for row in rows)
    assert {frozenset(row) for row in rows} == {frozenset(ROW | {"error_chain", "long_error_chain"})}


def test_an_evaluation_without_a_server_ends_well_too(checkout: Path):
    assert evaluate(checkout, f"http://127.0.0.1:{free_port()}", "-n", 1, "-r", 1) == 0

    rows, _ = saved(checkout)
    assert "APIConnectionError" in rows[0]["error"]["error_chain_repr"]


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
        (["-a", json.dumps({"dataset_name": str(TEXTS), "dataset_split": "heldout"})], 1, 'Unknown split "heldout"'),
        (["-a", '{"dataset_name": "/nowhere"}'], 1, "Couldn't find any data file at /nowhere"),
        (["-a", '{"dataset": "x"}'], 1, "unexpected keyword argument 'dataset'"),
        (["-a", "{}"], 1, "Couldn't reach 'PrimeIntellect/Reverse-Text-RL' on the Hub"),
    ],
)
def test_what_vf_eval_refuses_is_refused(checkout: Path, more: list[str], code: int, told: str):
    assert evaluate(checkout, "http://127.0.0.1:9", *more, HF_HUB_OFFLINE="1") == code
    assert told in (checkout / "vf-eval.log").read_text()


def test_an_environment_that_is_not_installed_is_not_found(tmp_path: Path):
    checkout = make_checkout(tmp_path / "prime-rl", without=["reverse_text"])

    assert evaluate(checkout, "http://127.0.0.1:9") == 1
    assert "Could not import 'reverse-text' environment" in (checkout / "vf-eval.log").read_text()


def test_a_proxy_is_asked_unless_it_is_not_to_be(checkout: Path):
    with serving(checkout) as url:
        proxy = {"HTTP_PROXY": f"http://127.0.0.1:{free_port()}"}
        evaluate(checkout, url, "-n", 1, "-r", 1, "-o", "through", **proxy, NO_PROXY="", no_proxy="")
        evaluate(checkout, url, "-n", 1, "-r", 1, "-o", "past", **proxy, NO_PROXY="127.0.0.1", no_proxy="")

    errors = {name: next((checkout / name).rglob("metadata.json")).read_text() for name in ("through", "past")}
    assert json.loads(errors["through"])["avg_error"] == 1
    assert json.loads(errors["past"])["avg_error"] == 0


# ----------------------------------------------------------------------------------------------- checkout, installation


@pytest.mark.parametrize(("release", "supported"), [("G", True), ("between", False), ("C", False)])
def test_a_checkouts_release_is_told_by_its_files(tmp_path: Path, release: Any, supported: bool):
    checkout = make_checkout(tmp_path / "prime-rl", release=release)

    assert release_of(checkout).is_supported is supported


def test_a_checkout_is_made_at_once_and_its_python_imports_the_modules(tmp_path: Path):
    began = time.monotonic()
    checkout = make_checkout(tmp_path / "prime rl with blanks" / ("long" * 40))
    seconds = time.monotonic() - began
    code = (
        "import flash_attn, ring_flash_attn, reverse_text, verifiers, vllm, prime_rl, torch; print(torch.__version__)"
    )

    printed = subprocess.check_output([checkout / ".venv/bin/python", "-c", code], text=True)

    assert seconds < 1
    assert printed == "2.11.0+cu128\n"
    assert subprocess.run([checkout / ".venv/bin/rl", "--help"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert set(PROGRAMS) <= {path.name for path in (checkout / ".venv" / "bin").iterdir()}


def test_a_behaviour_that_there_is_not_is_refused(checkout: Path):
    tell(checkout, no_such=1)

    assert start(checkout, "rl").wait(timeout=10) == 1
    assert "unknown ['no_such']" in said(checkout)


def test_uv_tells_its_version_runs_programs_and_notes_its_calls(checkout: Path):
    assert start(checkout, "uv", "--version").wait(timeout=10) == 0
    assert said(checkout) == "uv 0.9.26"
    assert start(checkout, "uv", "run", "--no-sync", "rl", "--help").wait(timeout=10) == 0
    assert "usage: RLConfig" in said(checkout)
    assert start(checkout, "uv", "run", "--no-sync", "absent").wait(timeout=10) == 2
    assert calls(checkout, "uv")[0]["argv"] == ["--version"]
    assert calls(checkout, "rl")[0]["env"]["VIRTUAL_ENV"] == str(checkout / ".venv")
