"""The real training program: what it learns, what it writes, how it saves, stops, resumes and fails."""

import math
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import verifiers
from trainer import limited, log_of, planned, rollouts_of, started, steps_of, trained
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rlguide.environment.reward import prompt_messages, reward, right_form
from rlguide.paths import TINY_POLICY
from rlguide.programs.trainer_parts import Scorer
from rlguide.records import Plan

pytestmark = pytest.mark.training
STEPS = 5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A finished run of five steps, saved also after two, with W&B offline."""
    changes = {"max_steps": STEPS, "ckpt.interval": 2, "wandb_mode": "offline"}
    return trained(tmp_path_factory.mktemp("run"), changes)


def test_reward_rises(run: Plan):
    rewards = [step["reward"] for step in steps_of(run)]

    assert rewards[0] < 0.25
    assert rewards[-1] > rewards[0] + 0.2


def test_steps_count_from_zero_and_every_metric_is_a_number(run: Plan):
    steps = steps_of(run)

    assert [step["step"] for step in steps] == list(range(STEPS))
    assert [step["completed_updates"] for step in steps] == list(range(1, STEPS + 1))
    assert all(math.isfinite(value) for step in steps for value in step.values())
    assert all(step["lr"] == 1e-3 for step in steps)
    assert all(step["reward_errors"] == 0 for step in steps)


def test_rollouts_of_each_step_are_kept_and_their_mean_is_the_step_s_reward(run: Plan):
    for step in steps_of(run):
        rollouts = rollouts_of(run, step["step"])

        assert len(rollouts) == 64
        assert sum(r["reward"] for r in rollouts) / 64 == pytest.approx(step["reward"], abs=1e-6)
        assert sum(right_form(r["completion"]) for r in rollouts) / 64 == step["right_form"]


def test_rewards_are_the_environments_and_advantages_are_centred_in_each_group(run: Plan):
    rollouts = rollouts_of(run, 3)

    for start in range(0, 64, 16):
        group = rollouts[start : start + 16]
        mean = sum(r["reward"] for r in group) / 16
        assert len({r["text"] for r in group}) == 1
        for rollout in group:
            assert rollout["reward"] == reward(rollout["completion"], rollout["text"])
            assert rollout["advantage"] == pytest.approx(rollout["reward"] - mean, abs=1e-9)


def test_weights_and_checkpoints_are_complete_and_the_weights_load_and_sample(run: Plan):
    weights = run.directory / run.layout.weights
    checkpoints = run.directory / run.layout.checkpoints
    last = weights / f"step_{STEPS}"

    assert sorted(path.name for path in weights.iterdir()) == ["step_2", "step_4", "step_5"]
    assert all((folder / run.layout.weights_marker).exists() for folder in weights.iterdir())
    assert sorted(path.name for path in checkpoints.glob("*step*")) == ["step_2", "step_4", "step_5"]
    assert not list(checkpoints.glob("checkpoint-*"))
    assert AutoModelForCausalLM.from_pretrained(last).num_parameters() == 801_408
    assert AutoTokenizer.from_pretrained(last).chat_template == AutoTokenizer.from_pretrained(TINY_POLICY).chat_template
    sampling = GenerationConfig.from_pretrained(last)
    assert (sampling.do_sample, sampling.temperature, sampling.top_k) == (True, 1.0, 0)


def test_an_offline_wandb_run_leaves_its_files_here_and_needs_no_key(run: Plan):
    folders = list((run.directory / "engine" / "wandb").glob("offline-run-*"))

    assert len(folders) == 1
    assert list(folders[0].glob("run-*.wandb"))
    assert all(path.is_relative_to(run.directory) for path in folders)


def test_the_log_is_for_readers(run: Plan):
    log = log_of(run)

    assert f"step   {STEPS - 1}  reward " in log
    assert "\r" not in log


def test_sigterm_saves_and_a_resumed_run_repeats_the_uninterrupted_curve(run: Plan, tmp_path: Path):
    plan = planned(tmp_path, {"max_steps": STEPS})
    process = started(plan)
    wait_for_step(plan, process, 1)

    process.send_signal(signal.SIGTERM)

    assert process.wait(120) == 0, log_of(plan)
    done = len(steps_of(plan))
    assert 2 <= done < STEPS
    assert (tmp_path / plan.layout.weights / f"step_{done}" / plan.layout.weights_marker).exists()

    assert started(plan, resume=True).wait(240) == 0, log_of(plan)

    assert f"going on from step_{done}" in log_of(plan)
    assert [step["step"] for step in steps_of(plan)] == list(range(STEPS))
    whole = [step["reward"] for step in steps_of(run)]
    assert [step["reward"] for step in steps_of(plan)] == pytest.approx(whole, abs=1e-6)


def test_a_full_disk_fails_the_run_and_nothing_half_written_counts_as_complete(tmp_path: Path):
    plan = planned(tmp_path, {"max_steps": 2, "orchestrator.batch_size": 16})

    code = limited(plan, 1_000_000)

    assert code not in (0, None)
    assert len(steps_of(plan)) == 2
    assert len(rollouts_of(plan, 1)) == 16
    assert not list((tmp_path / plan.layout.checkpoints).glob("step_*"))
    assert not list(tmp_path.rglob(plan.layout.weights_marker))


def test_resuming_takes_the_last_complete_checkpoint_not_a_half_written_one(run: Plan, tmp_path: Path):
    shutil.copytree(run.directory, tmp_path, dirs_exist_ok=True)
    checkpoints = tmp_path / run.layout.checkpoints
    shutil.rmtree(checkpoints / "step_5")
    (checkpoints / "step_4").rename(checkpoints / "checkpoint-4")
    (checkpoints / "checkpoint-4" / "model.safetensors").write_bytes(b"half")

    plan = trained(tmp_path, {"max_steps": STEPS}, resume=True)

    assert "going on from step_2" in log_of(plan)
    assert (tmp_path / plan.layout.weights / "step_5" / plan.layout.weights_marker).exists()


def test_rewards_that_could_not_be_computed_are_counted_and_never_silently_zero(tmp_path: Path):
    def broken(completion: list, **_: object) -> float:
        if "bad" in completion[0]["content"]:
            raise ValueError("no reward for this one")
        return 1.0

    scorer = Scorer(verifiers.Rubric(funcs=[broken]), 2, tmp_path)
    completions = [[{"role": "assistant", "content": content}] for content in ("good", "bad", "bad", "good")]

    scorer(
        prompts=[prompt_messages("abc")] * 4,
        completions=completions,
        answer=["cba"] * 4,
        trainer_state=SimpleNamespace(global_step=0),
    )

    assert scorer.errors.take() == 2
    assert scorer.errors.take() == 0


def wait_for_step(plan: Plan, process: "object", step: int) -> None:
    deadline = time.monotonic() + 120
    while len(steps_of(plan)) <= step:
        assert process.poll() is None, log_of(plan)
        assert time.monotonic() < deadline, log_of(plan)
        time.sleep(0.1)
