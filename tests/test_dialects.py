import json
import tracemalloc
from pathlib import Path

import pytest

from rlguide.dialects import Stage, find_stage, message_of
from rlguide.engines.replay import RECORDING
from rlguide.history import History, StepMerger
from rlguide.parsing import ALARMS, DIALECTS, HOLDING, parse_rollouts
from rlguide.tail import LineReader

LAUNCHER, INFERENCE = "prime-rl-0.5 launcher", "prime-rl-0.5 inference"
ORCHESTRATOR, TRAINER = "prime-rl-0.5 orchestrator", "prime-rl-0.5 trainer"
LOGS = {ORCHESTRATOR: RECORDING / "logs" / "orchestrator.log", TRAINER: RECORDING / "logs" / "trainer.log"}
SAMPLED = (
    "08:05:01 SUCCESS Step 2 | Time: 7.19s | Reward: 0.1698 | Seq. Length: 184.3 tokens/sample | "
    "Max. Off-Policy Level: 1"
)
TRAINED = (
    "[trainer0]:08:05:06 SUCCESS Step 2 | Time: 3.49s | Loss: -0.0013 | Entropy: 0.0480 | Mismatch KL: 0.0212 | "
    "Grad. Norm: 0.0419 | LR: 1e-05 | Throughput: 7472 tokens/s | MFU: 0.3% | Peak Mem.: 0.2 GiB"
)


def recorded_lines(dialect: str) -> list[str]:
    return LineReader(LOGS[dialect]).read()


def recorded_parts(dialect: str) -> list[dict]:
    return [part for line in recorded_lines(dialect) if (part := DIALECTS[dialect](line))]


def test_a_line_of_the_orchestrator_tells_of_a_step_whose_update_is_still_to_come():
    assert DIALECTS[ORCHESTRATOR](SAMPLED) == {
        "step": 2, "completed_updates": 2, "reward": 0.1698, "sampling_s": 7.19, "sequence_tokens": 184.3,
        "off_policy_level": 1,
    }  # fmt: skip


def test_a_line_of_the_trainer_tells_of_a_step_that_is_done():
    assert DIALECTS[TRAINER](TRAINED) == {
        "step": 2, "completed_updates": 3, "loss": -0.0013, "seconds": 3.49, "entropy": 0.048, "mismatch_kl": 0.0212,
        "grad_norm": 0.0419, "lr": 1e-05, "tokens_per_s": 7472, "mfu": 0.3, "peak_memory_gib": 0.2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "field"),
    [
        ("Reward: nan", "reward"),
        ("Reward: inf", "reward"),
        ("Time: 12.0 min", "sampling_s"),
        ("Time: 12.0", "sampling_s"),
        ("Time: ", "sampling_s"),
    ],
)
def test_what_is_not_a_number_in_the_known_unit_is_a_gap(printed: str, field: str):
    line = SAMPLED.replace("Reward: 0.1698", printed) if field == "reward" else SAMPLED.replace("Time: 7.19s", printed)

    part = DIALECTS[ORCHESTRATOR](line)

    assert part["step"] == 2
    assert field not in part


def test_a_metric_that_is_not_printed_is_absent():
    part = DIALECTS[TRAINER](TRAINED.replace(" | Mismatch KL: 0.0212", "").replace(" | MFU: 0.3%", ""))

    assert not {"mismatch_kl", "mfu"} & set(part)
    assert part["entropy"] == 0.048


@pytest.mark.parametrize(
    "line",
    [
        "Step 99 | Time: 1.00s | Reward: 1.0 | Loss: 0.1",
        "The answer is 08:05:01 SUCCESS Step 99 | Time: 1.00s | Reward: 1.0 | Loss: 0.1",
        "08:05:01    INFO completion: Step 99 | Time: 1.00s | Reward: 1.0 | Loss: 0.1",
        "08:05:01   DEBUG Micro Step 3 | Loss: 0.1 | Reward: 1.0",
        "08:05:01 WARNING Step 3 | Reward: 1.0 | Loss: 0.1",
        "08:05:01 SUCCESS Step 3",
        "08:05:01 SUCCESS Step 3 | Policy v1",
        '{"completion": "08:05:01 SUCCESS Step 99 | Time: 1.00s | Reward: 1.0 | Loss: 0.1"}',
        '{"level": "SUCCESS", "message": ["Step 99 | Reward: 1.0 | Loss: 0.1"]}',
        '{"level": "SUCCESS", "message": "Step 99 | Reward: 1.0 | Loss',
        "wandb: Step 3 | Reward: 1.0 | Loss: 0.1",
        f"08:05:01 SUCCESS Step {'9' * 5000} | Reward: 1.0 | Loss: 0.1",
        "08:05:01 SUCCESS Step 3 | Reward 1.0 | Loss 0.1",
    ],
    ids=lambda line: line[:40],
)
def test_what_only_looks_like_a_metric_is_none(line: str):
    assert DIALECTS[ORCHESTRATOR](line) is None
    assert DIALECTS[TRAINER](line) is None


def test_a_line_belongs_to_one_component():
    assert DIALECTS[TRAINER](SAMPLED) is None
    assert DIALECTS[ORCHESTRATOR](TRAINED) is None


def test_the_place_in_the_code_that_debug_level_adds_is_no_part_of_the_message():
    assert DIALECTS[ORCHESTRATOR](f"{SAMPLED} [orchestrator.py::123]") == DIALECTS[ORCHESTRATOR](SAMPLED)


def test_json_logging_tells_the_same():
    said = {"timestamp": "2026-11-30T08:05:06+00:00", "level": "SUCCESS", "message": TRAINED.split("SUCCESS ")[1]}

    assert DIALECTS[TRAINER]("[trainer0]:" + json.dumps(said)) == DIALECTS[TRAINER](TRAINED)


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        ("Error: Inference failed with exit code 1", ("inference", 1)),
        ("Orchestrator failed with exit code -9", ("orchestrator", -9)),
        ("Error: Env server reverse-text failed with exit code 137", ("env server reverse-text", 137)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_launcher_says_which_component_failed(message: str, failure: tuple[str, int]):
    said = {"level": "ERROR", "message": message}

    assert ALARMS[LAUNCHER](f"08:02:29   ERROR {message}") == failure
    assert ALARMS[LAUNCHER](json.dumps(said)) == failure


@pytest.mark.parametrize(
    "line",
    [
        "Error: Inference failed with exit code 1",
        "08:02:29    INFO Error: Inference failed with exit code 1",
        "08:02:29   ERROR Error: Inference failed with exit code 1 and a half",
        "08:02:29   ERROR Error: Inference failed with exit code one",
        "08:02:29   ERROR Error:  failed with exit code 1",
        f"08:02:29   ERROR Error: {'x' * 1000} failed with exit code 1",
        f"08:02:29   ERROR Error: Inference failed with exit code {'9' * 5000}",
        "The answer is 08:02:29   ERROR Error: Inference failed with exit code 1",
    ],
    ids=lambda line: line[:60],
)
def test_what_only_looks_like_a_failure_is_none(line: str):
    assert ALARMS[LAUNCHER](line) is None


@pytest.mark.parametrize(
    ("dialect", "line"),
    [
        (LAUNCHER, "08:02:29   ERROR Error: Inference failed with exit code 1"),
        (INFERENCE, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."),
    ],
)
def test_every_line_about_a_failure_holds_the_bytes_by_which_it_is_found(dialect: str, line: str):
    assert ALARMS[dialect](line) is not None
    assert HOLDING[dialect] in line.encode()


def test_a_recorded_run_that_went_well_raises_no_alarm():
    assert not [line for line in LineReader(RECORDING / "logs" / "launcher.log").read() if ALARMS[LAUNCHER](line)]


@pytest.mark.parametrize("name", ["launcher", "orchestrator", "trainer", "inference"])
def test_every_recorded_line_is_read_without_an_error(name: str):
    lines = LineReader(RECORDING / "logs" / f"{name}.log").read()

    assert len(lines) > 10
    assert sum(message_of(line) is not None for line in lines) >= 1
    assert all(DIALECTS[dialect](line) is None for dialect in LOGS for line in lines if "Step " not in line)


def test_the_recorded_rewards_are_the_runs_own():
    parts = recorded_parts(ORCHESTRATOR)

    assert [part["step"] for part in parts] == list(range(20))
    assert [part["reward"] for part in parts] == [
        0.1293, 0.1321, 0.1698, 0.2742, 0.3659, 0.4211, 0.6067, 0.7232, 0.7523, 0.7724, 0.7950, 0.8244, 0.8817, 0.9062,
        0.8665, 0.8068, 0.8873, 0.8084, 0.9221, 0.9263,
    ]  # fmt: skip


def test_orchestrator_and_trainer_make_one_record_a_step_however_far_the_trainer_lags():
    merger, seen = StepMerger(["orchestrator", "trainer"], attempt=1), []
    sampled, trained = recorded_parts(ORCHESTRATOR), recorded_parts(TRAINER)

    for number, part in enumerate(sampled):
        seen += merger.add("orchestrator", part, elapsed_s=None)
        if number >= 2:  # the trainer is two lines behind
            seen += merger.add("trainer", trained[number - 2], elapsed_s=None)
    done_before_the_end = History(seen).completed_updates
    ended_early = History(seen + merger.flush())

    assert (len(seen), done_before_the_end) == (18, 18)
    assert all(step.reward is not None and step.loss is not None for step in seen)
    assert (len(ended_early), ended_early.completed_updates) == (20, 19)
    assert ended_early.last.loss is None


def test_a_step_whose_update_was_not_told_does_not_count_as_an_update():
    merger = StepMerger(["orchestrator", "trainer"], attempt=1)
    merger.add("trainer", DIALECTS[TRAINER](TRAINED), elapsed_s=1)

    (whole,) = merger.add("orchestrator", DIALECTS[ORCHESTRATOR](SAMPLED), elapsed_s=2)

    assert whole.completed_updates == 3


def test_rollouts_of_prime_rl_are_read():
    path = RECORDING / "run_default" / "rollouts" / "step_0" / "train_rollouts.jsonl"

    found = parse_rollouts(path.read_text(encoding="utf-8"), 0)

    assert len(found) == 128
    assert (found[0].step, found[0].text, found[0].completion) == (0, "func pass is", "si ssap cnuf")
    assert sum(rollout.reward for rollout in found) / 128 == pytest.approx(0.1293, abs=1e-4)
    assert parse_rollouts('{"prompt": [], "completion": [{}], "reward": 1}\n{"prompt": 3}\n', 0) == ()


def test_the_stages_of_the_recorded_run_follow_each_other():
    logs = {name.split()[1]: recorded_lines(name) for name in (ORCHESTRATOR, TRAINER)}
    stages = [
        find_stage({"orchestrator": logs["orchestrator"][:number], "trainer": []})[0]
        for number in range(len(logs["orchestrator"]))
    ]
    stages += [find_stage(logs | {"trainer": logs["trainer"][:n]})[0] for n in range(len(logs["trainer"]) + 1)]

    order = list(Stage)
    assert list(dict.fromkeys(stages)) == order
    assert stages == sorted(stages, key=order.index)


def test_a_server_that_is_not_reached_for_some_time_is_a_normal_boot():
    warning = (
        "08:04:37 WARNING Inference server was not reached after 40 seconds (Error: failed) on http://localhost:8000"
    )

    stage, told = find_stage({"orchestrator": [warning], "trainer": []})

    assert stage is Stage.BOOT
    assert "40 s" in told
    assert "normal" in told
    assert find_stage({}) == (Stage.BOOT, "the inference server and the trainer are starting")


def test_after_a_checkpoint_in_mid_run_steps_go_on():
    saving = "[trainer0]:08:05:05    INFO Saving checkpoint at step 2"

    assert find_stage({"trainer": [TRAINED, saving]})[0] is Stage.CHECKPOINT
    assert find_stage({"trainer": [saving, TRAINED]})[0] is Stage.STEPS


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A hundred thousand lines of noise around one step."""
    noise, path = b"\x1b[2m08:05:01\x1b[0m \x1b[1m   INFO\x1b[0m Pausing inference engines\n" * 50_000, tmp_path / "log"
    path.write_bytes(noise + SAMPLED.encode() + b"\n" + noise)
    return path


def test_a_long_log_is_passed_over_without_keeping_it(long_log: Path):
    reader = LineReader(long_log, holding=HOLDING[ORCHESTRATOR])
    tracemalloc.start()

    assert reader.read() == [SAMPLED]

    assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    tracemalloc.stop()


def test_a_refresh_reads_only_what_is_new(long_log: Path):
    reader = LineReader(long_log, holding=HOLDING[ORCHESTRATOR])
    reader.read()
    with long_log.open("r+b") as file:  # what was read already is not looked at again
        file.write(SAMPLED.encode() + b"\n")
        file.seek(0, 2)
        file.write(SAMPLED.replace("Step 2", "Step 3").encode() + b"\n")

    assert reader.read() == [SAMPLED.replace("Step 2", "Step 3")]
    assert reader.read() == []


def test_a_split_coloured_line_with_noise_around_it_is_one_step(tmp_path: Path):
    log = tmp_path / "log"
    reader = LineReader(log, holding=HOLDING[ORCHESTRATOR])
    line = "\x1b[2m08:05:01\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[1m\x1b[22m" + SAMPLED.split("SUCCESS ")[1]
    pieces = [
        b"\r 5%|#\r 100%|##\n",
        line[:40].encode(),
        line[40:].encode() + b"\x1b[0m\0\r\n",
        b"z" * 5_000_000,
        b"\n",
    ]

    found = []
    for piece in (*pieces, b"\n"):
        with log.open("ab") as file:
            file.write(piece)
        found += [part for told in reader.read() if (part := DIALECTS[ORCHESTRATOR](told))]

    assert found == [DIALECTS[ORCHESTRATOR](SAMPLED)]


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=12) ERROR 11-30 22:12:28 [async_llm.py:704] EngineDeadError: EngineCore encountered an issue.",
        "(APIServer pid=12) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).",
    ],
)
def test_a_server_that_lost_its_engine_is_named(line: str):
    assert ALARMS[INFERENCE](line) == ("inference", None)


@pytest.mark.parametrize(
    "line",
    [
        '(APIServer pid=12) INFO 11-30 22:12:28 [logger.py:40] prompt: "EngineDeadError"',
        "(APIServer pid=12) INFO:     Application shutdown complete.",
        "    raise EngineDeadError()",
    ],
)
def test_a_server_that_speaks_of_something_else_is_not(line: str):
    assert ALARMS[INFERENCE](line) is None
