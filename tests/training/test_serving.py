"""The real `transformers serve` and the real `vf-eval`, on the policy that ships with rlguide."""

import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from toy import eventually

from rlguide.environment.generator import GUIDE_SENTENCE
from rlguide.errors import Busy, ServerError
from rlguide.evaluation import evaluate_policy
from rlguide.measurements import Evaluation, Sampling
from rlguide.paths import TINY_POLICY
from rlguide.slot import cpu_slot
from rlguide.statistics import compare
from rlguide.tryout import try_policies

pytestmark = pytest.mark.training

SMALL = Sampling(num_tasks=4, rollouts_per_task=2, max_tokens=64, temperature=1.0, seed=0)


def measured(policy: Path, sampling: Sampling, workdir: Path) -> Evaluation:
    return evaluate_policy(str(policy), sampling, label="warm start", workdir=workdir)


def servers_below(folder: Path) -> list[int]:
    """Live processes that work in `folder` or name it."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join([*process.cmdline(), process.cwd()]) and process.status() != "zombie":
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_the_guides_flags_score_sixty_rollouts_of_the_warm_start_and_leave_no_server(tmp_path: Path):
    sampling = Sampling(num_tasks=20, rollouts_per_task=3, max_tokens=1024, temperature=1.0, seed=0)

    found = measured(TINY_POLICY, sampling, tmp_path / "eval")

    assert (found.scored, found.errored) == (60, 0)
    assert found.interval[0] < found.mean < found.interval[1] < 0.5
    assert found.right_form * (found.similarity_in_form or 0) == pytest.approx(found.mean)
    assert found.notes == ()
    assert not servers_below(tmp_path)


def test_the_same_seed_gives_the_same_completions_and_another_one_others(tmp_path: Path):
    first = measured(TINY_POLICY, SMALL, tmp_path / "one")
    again = measured(TINY_POLICY, SMALL, tmp_path / "two")
    other = measured(TINY_POLICY, SMALL.model_copy(update={"seed": 1}), tmp_path / "three")

    assert first.samples == again.samples
    assert first.samples != other.samples
    assert compare(first, again).verdict.startswith("Not distinguishable")


def test_a_policy_whose_settings_switch_sampling_off_is_noted(tmp_path: Path):
    policy = tmp_path / "policy"
    shutil.copytree(TINY_POLICY, policy)
    settings = policy / "generation_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_sample": False}))

    found = measured(policy, SMALL, tmp_path / "eval")

    assert found.notes[0].startswith("Sampling was not active")


def test_a_folder_without_a_policy_is_not_served_and_the_log_says_why(tmp_path: Path):
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(ServerError, match=r"(?s)ended with exit code 1.*empty"):
        measured(empty, SMALL, tmp_path / "eval")


def test_nothing_is_measured_while_the_processor_is_taken(tmp_path: Path):
    with cpu_slot("a test"), pytest.raises(Busy, match="a test"):
        measured(TINY_POLICY, SMALL, tmp_path / "eval")


def test_who_tries_a_text_is_named_with_the_policys_folder():
    holder = Path(tempfile.gettempdir()) / f"rlguide-{os.getuid()}" / "cpu.holder"

    with ThreadPoolExecutor() as pool:
        trying = pool.submit(try_policies, {"warm start": str(TINY_POLICY)}, "abc")
        named = eventually(lambda: holder.is_file() and holder.read_text(), within_s=20)

    assert f"trying a text with {TINY_POLICY}" in named
    assert trying.result().attempts


def test_one_sentence_is_tried_on_two_policies_greedily_and_by_samples():
    found = try_policies(
        {"warm start": str(TINY_POLICY), "trained policy": str(TINY_POLICY)}, GUIDE_SENTENCE, samples=3
    )

    before, after = found.attempts
    assert (before.label, after.label) == ("warm start", "trained policy")
    assert before.answer == after.answer
    assert before.answer.completion
    assert len({sample.completion for sample in before.samples}) > 1
