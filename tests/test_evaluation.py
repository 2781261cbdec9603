"""Evaluations: the real `vf-eval` against small servers that answer, fail and lie; and what is kept of them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from finished import finished_run
from toy import toy_plan

from rlguide import tryout
from rlguide.child import program
from rlguide.config import load_config, write_config
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError, EvaluationError, ServerError, TextError
from rlguide.evaluation import evaluate, evaluate_one, held_out, notes, stored_evaluation
from rlguide.measurements import EvalSample, Evaluation, Sampling
from rlguide.paths import TINY_POLICY, RunFiles
from rlguide.ports import free_port
from rlguide.records import RunRecord, State
from rlguide.server import serving
from rlguide.statistics import summarise
from rlguide.store import read_record, write_record
from rlguide.tryout import LEARNED_CHARACTERS, require_spellable, try_policies
from rlguide.vf_eval import run_vf_eval, saved_rows, to_sample

STUB = Path(__file__).with_name("stub_server.py")
TEXTS = load_texts("heldout")
GUIDE = Sampling(num_tasks=20, rollouts_per_task=3, max_tokens=1024, temperature=1.0)
SMALL = Sampling(num_tasks=10, rollouts_per_task=2, max_tokens=64, temperature=1.0)


def measured(
    folder: Path, sampling: Sampling = SMALL, *, progress: list | None = None, stall_s: float = 30, **options: Any
) -> tuple[EvalSample, ...]:
    """The samples that `vf-eval` gets from a stub server with these options."""
    port = free_port()
    argv = (sys.executable, str(STUB), str(port), "stub", json.dumps(options))
    seen = progress if progress is not None else []
    with serving(argv, port=port, model="stub", log=folder / "server.log", ready_s=20) as endpoint:
        return run_vf_eval(
            endpoint,
            sampling,
            folder / "vf-eval",
            program=program("vf-eval"),
            on_progress=lambda *done: seen.append(done),
            stall_s=stall_s,
        )


def kept(samples: list[EvalSample], policy: Path, sampling: Sampling = SMALL) -> Evaluation:
    return Evaluation(
        label="warm start",
        policy=str(policy),
        sampling=sampling,
        **summarise(samples, threshold=0.5),
        seconds=1.0,
        created_at="2026-01-01T00:00:00+00:00",
    )


def answers(sampling: Sampling, reward: float) -> list[EvalSample]:
    """A scored sample for every rollout."""
    texts = TEXTS[: sampling.num_tasks]
    return [EvalSample(text=text, completion="?", reward=reward) for text in texts] * sampling.rollouts_per_task


# --------------------------------------------------------------------------------------------- vf-eval and servers


def test_the_guides_flags_give_sixty_scored_rollouts_of_held_out_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")  # a dead proxy that must not be asked
    monkeypatch.setenv("OPENAI_API_KEY", "must-not-travel")
    progress: list[tuple[int, int]] = []

    samples = measured(tmp_path, GUIDE, progress=progress, requests=str(tmp_path / "requests.jsonl"))

    assert [sample.text for sample in samples] == [text for text in TEXTS[:20] for _ in range(3)]
    assert {(sample.reward, sample.error) for sample in samples} == {(1.0, None)}
    assert samples[0].completion == f"<reversed_text>{TEXTS[0][::-1]}</reversed_text>"
    assert progress == sorted(progress)
    assert progress[-1] == (60, 60)
    _, *requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text().splitlines()]
    assert len(requests) == 60
    assert {(r["model"], r["max_completion_tokens"], r["temperature"]) for r in requests} == {("stub", 1024, 1.0)}
    assert {request["authorization"] for request in requests} == {"Bearer EMPTY"}
    assert "must-not-travel" not in "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    )


def test_a_few_failed_rollouts_are_left_out_of_the_mean_and_counted(tmp_path: Path):
    samples = measured(tmp_path, failing=[TEXTS[0]], how="503")

    found = summarise(samples, threshold=0.5)
    assert (found["scored"], found["errored"]) == (18, 2)
    assert (found["mean"], found["lower_bound"]) == (1.0, 0.9)
    assert "Error code: 503" in samples[0].error
    assert notes(samples, SMALL)[0].startswith("2 of 20 rollouts failed")


@pytest.mark.parametrize(
    ("how", "said"), [("503", "Error code: 503"), ("422", "Error code: 422"), ("html", "ModelError")]
)
def test_a_third_of_failed_rollouts_makes_the_result_invalid(tmp_path: Path, how: str, said: str):
    with pytest.raises(EvaluationError, match=rf"invalid: \d+ of 20 rollouts failed.*({said})"):
        measured(tmp_path, failing=TEXTS[:3], how=how)


def test_a_server_that_fails_throughout_is_a_failure_and_not_a_reward_of_zero(tmp_path: Path):
    with pytest.raises(EvaluationError, match="invalid"):
        measured(tmp_path, failing_from=2, how="503")


def test_a_server_that_only_breaks_connections_is_found_out_while_the_client_still_tries(tmp_path: Path):
    with pytest.raises(ServerError, match="does not answer"):
        measured(tmp_path, stall_s=8, failing_from=2, how="close")


def test_a_server_that_dies_during_the_evaluation_ends_it_with_its_last_words(tmp_path: Path):
    with pytest.raises(ServerError, match="stub ran out of memory"):
        measured(tmp_path, failing_from=6, how="die")


def test_an_answer_without_any_text_is_the_policys_own_and_scores_zero(tmp_path: Path):
    samples = measured(tmp_path, failing=[TEXTS[0], TEXTS[1]], how="empty")

    found = summarise(samples, threshold=0.5)
    assert (found["scored"], found["errored"], found["empty"]) == (20, 0, 4)
    assert found["mean"] == 0.8


def test_equal_answers_at_a_temperature_are_noted(tmp_path: Path):
    samples = measured(tmp_path)

    assert notes(samples, SMALL)[0].startswith("Sampling was not active: at temperature 1 ")
    assert notes(samples, SMALL.model_copy(update={"temperature": 0.0})) == ()


# ----------------------------------------------------------------------------------------------------- saved rows


def row(**changes: Any) -> dict[str, Any]:
    prompt = [{"role": "system", "content": "Reverse"}, {"role": "user", "content": "abc"}]
    completion = [{"role": "assistant", "content": "cba"}]
    return {"example_id": 0, "prompt": prompt, "completion": completion, "reward": 0.0, "error": None} | changes


def test_a_rollout_that_timed_out_is_an_error_whatever_reward_was_saved():
    found = to_sample(row(completion=[], stop_condition="timeout_reached"))

    assert (found.reward, found.error) == (None, "timeout_reached")


def test_half_a_line_at_the_end_of_the_results_is_not_read(tmp_path: Path):
    (tmp_path / "results.jsonl").write_text(json.dumps(row()) + "\n" + json.dumps(row())[:20])

    assert len(list(saved_rows(tmp_path))) == 1


# ------------------------------------------------------------------------------------------------- kept with a run


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    """A run that ended well, with complete weights of step 3."""
    files = RunFiles(tmp_path / "outputs" / "a-run")
    policy = tmp_path / "policy"
    policy.mkdir()
    plan = toy_plan(files.directory).model_copy(update={"policy": str(policy), "engine": "trl"})
    weights = files.directory / plan.layout.weights / "step_3"
    weights.mkdir(parents=True)
    (weights / plan.layout.weights_marker).touch()
    files.evaluations.mkdir()
    write_config(load_config("tiny", {"evaluation.num_tasks": 10, "evaluation.rollouts_per_task": 2}), files.config)
    created = "2026-01-01T00:00:00+00:00"
    write_record(files, RunRecord(name="a-run", plan=plan, state=State.SUCCEEDED, created_at=created))
    return files


STORED = SMALL.model_copy(update={"max_tokens": 1024, "seed": 0})


def store(files: RunFiles, name: str, policy: Path, reward: float) -> Path:
    path = files.evaluations / name
    path.write_text(kept(answers(STORED, reward), policy, STORED).model_dump_json())
    return path


def test_evaluations_that_are_there_are_compared_without_measuring_again(files: RunFiles, tmp_path: Path):
    store(files, "warm-start-step_0.json", tmp_path / "policy", 0.1)
    store(files, "trained-policy-step_3.json", files.engine / "weights" / "step_3", 0.9)

    found = evaluate("a-run")

    assert (found.before.mean, found.after.mean) == (pytest.approx(0.1), pytest.approx(0.9))


def test_a_run_without_complete_weights_is_refused_before_anything_is_measured(files: RunFiles):
    (files.engine / "weights" / "step_3" / "STABLE").unlink()

    with pytest.raises(EvaluationError, match="no complete weights") as refused:
        evaluate(files.directory)

    assert refused.value.hint == "they were removed, or not copied with the run: launch one of another name"
    assert list(files.evaluations.iterdir()) == []


def test_a_run_that_was_stopped_before_it_saved_weights_is_resumed_first(files: RunFiles):
    (files.engine / "weights" / "step_3" / "STABLE").unlink()
    write_record(files, read_record(files).model_copy(update={"state": State.STOPPED}))

    with pytest.raises(EvaluationError, match="no complete weights") as refused:
        evaluate(files.directory)

    assert refused.value.hint == "resume it"


def test_a_kept_evaluation_counts_for_the_same_policy_sampling_and_threshold_alone(files: RunFiles, tmp_path: Path):
    policy = tmp_path / "policy"
    path = store(files, "warm-start-step_0.json", policy, 0.1)

    assert stored_evaluation(path, str(policy), STORED, 0.5) == evaluate_one(files.directory, "warm start")
    assert stored_evaluation(path, "/another/policy", STORED, 0.5) is None
    assert stored_evaluation(path, str(policy), SMALL, 0.5) is None
    assert stored_evaluation(path, str(policy), STORED, 0.9) is None


def test_a_kept_evaluation_does_not_count_for_weights_that_are_newer(files: RunFiles, tmp_path: Path):
    policy = tmp_path / "policy"
    path = store(files, "warm-start-step_0.json", policy, 0.1)
    weights = policy / "model.safetensors"
    weights.touch()
    os.utime(weights, (path.stat().st_mtime + 10,) * 2)

    assert stored_evaluation(path, str(policy), STORED, 0.5) is None


def test_a_damaged_evaluation_is_not_taken(files: RunFiles, tmp_path: Path):
    path = store(files, "warm-start-step_0.json", tmp_path / "policy", 0.1)
    path.write_text(path.read_text()[:100])

    assert stored_evaluation(path, str(tmp_path / "policy"), STORED, 0.5) is None


def test_more_texts_than_there_are_is_refused_with_both_numbers():
    with pytest.raises(ConfigError, match=r"num_tasks = 257: there are 256"):
        held_out(257)


# ----------------------------------------------------------------------------------------------------- one's own text


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A folder with a character tokenizer that knows a, b, c and the blank."""
    vocabulary = {"<unk>": 0, "a": 1, "b": 2, "c": 3, " ": 4}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": model}))
    return tmp_path


def test_characters_that_the_tokenizer_does_not_have_are_named_once_each(policy: Path):
    with pytest.raises(TextError, match=r"cannot spell 'é' \(U\+00E9\), 'z' \(U\+007A\) in 'ab ézz c'"):
        require_spellable(str(policy), "ab ézz c")

    require_spellable(str(policy), "cab")


def test_a_tokenizer_of_bytes_spells_everything(policy: Path):
    model = {"type": "BPE", "vocab": {"a": 0}, "unk_token": None}
    (policy / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": model}))

    require_spellable(str(policy), "日本語")


def test_markers_of_a_chat_are_no_letters(policy: Path):
    tokenizer = json.loads((policy / "tokenizer.json").read_text())
    tokenizer["added_tokens"] = [{"content": marker} for marker in ("<|im_end|>", "<unk>", "b")]
    (policy / "tokenizer.json").write_text(json.dumps(tokenizer))

    for marker in ("<|im_end|>", "<unk>"):
        with pytest.raises(TextError, match="a marker and no letters"):
            require_spellable(str(policy), f"ab{marker}")
    require_spellable(str(policy), "ab")


def test_a_text_that_is_too_long_and_too_many_samples_are_refused_with_the_limit(policy: Path):
    with pytest.raises(TextError, match="501 characters are too many") as refused:
        require_spellable(str(policy), "a" * 501)
    with pytest.raises(ConfigError, match="from 0 to 64"):
        try_policies({"warm start": str(policy)}, "abc", samples=65)

    assert "500" in refused.value.hint


def test_a_text_longer_than_the_small_policy_has_learned_is_remarked_with_the_reason():
    longest = "a" * LEARNED_CHARACTERS
    policies = [str(TINY_POLICY), "/runs/one/weights"]

    (told,) = tryout.notes(policies, longest + "a")

    assert "has 81 characters; this small policy has learned from texts of at most 80" in told
    assert not tryout.notes(policies, longest)
    assert not tryout.notes(["another/policy"], longest + "a")
    assert f"1–{LEARNED_CHARACTERS} characters" in (TINY_POLICY / "README.md").read_text(encoding="utf-8")


def test_an_empty_text_is_refused(policy: Path):
    with pytest.raises(TextError, match="nothing to reverse"):
        require_spellable(str(policy), "  ")


@pytest.mark.usefixtures("nothing_left")
def test_a_run_directory_that_cannot_be_written_is_told_before_anything_is_measured(outputs: Path):
    run = finished_run(outputs / "one", evaluated=False)
    run.files.evaluations.write_text("a file where the folder should be")

    with pytest.raises(EvaluationError, match="cannot write the evaluation's files") as refused:
        evaluate(run)

    assert refused.value.hint
