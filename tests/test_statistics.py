"""The numbers of an evaluation, against values worked out by hand, and the sentences made of them."""

import json
import re
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlguide.errors import EvaluationError
from rlguide.measurements import EvalSample, Evaluation, Sampling
from rlguide.statistics import (
    best_of,
    bootstrap_interval,
    choosing_and_improving,
    clustered_stderr,
    compare,
    sampling_inactive,
    shown_split,
    summarise,
)

rewards = st.floats(0, 1)


def sample(text: str, completion: str, reward: float | None = 0.0) -> EvalSample:
    return EvalSample(text=text, completion=completion, reward=reward, error=None if reward is not None else "503")


def answered(text: str, answer: str, reward: float) -> EvalSample:
    return sample(text, f"<reversed_text>{answer}</reversed_text>", reward)


def evaluation(samples: list[EvalSample], *, threshold: float = 0.5, **sampling: float) -> Evaluation:
    settings = {"num_tasks": len({s.text for s in samples}), "rollouts_per_task": 3, "max_tokens": 64, "temperature": 1}
    return Evaluation(
        label="warm start",
        policy="/policy",
        sampling=Sampling.model_validate(settings | sampling),
        **summarise(samples, threshold=threshold),
        seconds=1.0,
        created_at="2026-01-01T00:00:00+00:00",
    )


def in_form(share: float, similarity: float, *, tasks: int = 40, rollouts: int = 10) -> list[EvalSample]:
    """Every text gets that share of answers in the right form, each with that reward."""
    good = round(share * rollouts)
    return [
        answered(f"text {task}", "x", similarity) if number < good else sample(f"text {task}", "no tags")
        for task in range(tasks)
        for number in range(rollouts)
    ]


# ------------------------------------------------------------------------------------- standard error and intervals


def test_the_standard_error_of_two_tasks_is_as_worked_out_by_hand():
    # mean 0.5; task sums of deviations −0.5·2 and +0.5·2; √(2/1 · (1 + 1)) / 4 = 0.5
    assert clustered_stderr([[0.0, 0.0], [1.0, 1.0]]) == pytest.approx(0.5)


def test_repeating_the_same_answer_does_not_make_the_standard_error_smaller():
    once = [[0.0], [1.0], [0.5]]

    assert clustered_stderr([task * 100 for task in once]) == pytest.approx(clustered_stderr(once))


@given(st.lists(st.lists(rewards, min_size=3, max_size=3), min_size=2, max_size=20))
def test_with_equally_many_rollouts_it_is_the_standard_error_of_the_task_means(tasks: list[list[float]]):
    means = [fmean(task) for task in tasks]

    assert clustered_stderr(tasks) == pytest.approx(stdev(means) / len(means) ** 0.5, abs=1e-9)


def test_the_bootstrap_interval_is_the_same_every_time_and_holds_the_mean():
    tasks = [[0.1 * number, 0.05 * number] for number in range(10)]

    low, high = bootstrap_interval(tasks)

    assert (low, high) == bootstrap_interval(tasks)
    assert low < fmean(fmean(task) for task in tasks) < high


def test_the_bootstrap_interval_of_many_tasks_is_near_the_normal_one():
    tasks = [[float(number % 2)] for number in range(400)]

    low, high = bootstrap_interval(tasks)

    assert low == pytest.approx(0.5 - 1.96 * clustered_stderr(tasks), abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * clustered_stderr(tasks), abs=0.006)


@given(st.lists(st.lists(rewards, min_size=1, max_size=4), min_size=2, max_size=8))
def test_intervals_stay_within_the_rewards_seen(tasks: list[list[float]]):
    low, high = bootstrap_interval(tasks)
    seen = [reward for task in tasks for reward in task]

    assert min(seen) - 1e-9 <= low <= high <= max(seen) + 1e-9


def test_best_of_is_the_mean_of_each_tasks_best():
    assert best_of([[0.1, 0.9], [0.3, 0.2]]) == pytest.approx(0.6)


# ------------------------------------------------------------------------------------------------------- a summary


def test_a_summary_counts_errors_empties_exact_and_right_form_apart():
    samples = [
        answered("abc", "cba", 1.0),
        answered("abc", "cab", 2 / 3),
        sample("abc", "cba"),
        sample("xyz", ""),
        sample("xyz", "", None),
        answered("xyz", "zyx", 1.0),
    ]

    found = summarise(samples, threshold=0.7)

    assert (found["scored"], found["errored"], found["empty"]) == (5, 1, 1)
    assert found["mean"] == pytest.approx((1 + 2 / 3 + 0 + 0 + 1) / 5)
    assert found["lower_bound"] == pytest.approx((1 + 2 / 3 + 0 + 0 + 0 + 1) / 6)
    assert (found["passed"], found["exact"], found["right_form"]) == (0.4, 0.4, 0.6)
    assert found["right_form"] * found["similarity_in_form"] == pytest.approx(found["mean"])
    assert found["best_of"] == 1


def test_a_reward_exactly_at_the_threshold_passes():
    assert summarise([sample("a", "x", 0.5), sample("b", "x", 0.5)], threshold=0.5)["passed"] == 1


def test_without_an_answer_in_the_right_form_its_similarity_is_unknown_and_not_zero():
    assert summarise([sample("a", "x"), sample("b", "x")], threshold=0.5)["similarity_in_form"] is None


def test_one_scored_text_is_too_little_for_a_standard_error():
    with pytest.raises(EvaluationError, match="on 1 texts"):
        summarise([sample("a", "x"), sample("a", "y"), sample("b", "", None)], threshold=0.5)


def test_equal_completions_of_every_text_mean_that_nothing_was_sampled():
    same = [sample(text, text) for text in ("a", "b") for _ in range(4)]

    assert sampling_inactive(same)
    assert not sampling_inactive([*same, sample("b", "other")])
    assert not sampling_inactive([sample("a", "a"), sample("b", "b")])  # one completion each: cannot be told


# ----------------------------------------------------------------------------------------------------- comparisons


def test_a_clear_rise_is_split_into_choosing_and_improving_without_a_rest():
    before, after = evaluation(in_form(0.2, 0.5)), evaluation(in_form(1.0, 0.8))

    found = compare(before, after)

    assert found.difference == pytest.approx(0.7)
    assert found.choosing == pytest.approx(0.8 * 0.65)
    assert found.improving == pytest.approx(0.6 * 0.3)
    assert found.choosing + found.improving == pytest.approx(found.difference)
    assert found.verdict == (
        "The reward rose from 0.100 to 0.800 on 40 texts × 3 samples, a difference of +0.700 (95 % interval +0.700 to "
        "+0.700): +0.520 from how often it answers in the right form (20.0% → 100.0%), +0.180 from how good those "
        "answers are (0.500 → 0.800)."
    )


@given(*[st.lists(st.tuples(st.booleans(), rewards), min_size=6, max_size=6)] * 2)
def test_the_numbers_that_are_shown_add_up(before: list[tuple[bool, float]], after: list[tuple[bool, float]]):
    first, second = (
        evaluation(
            [answered(f"{n % 3}", "x", reward) if tags else sample(f"{n % 3}", "x") for n, (tags, reward) in side]
        )
        for side in (list(enumerate(before)), list(enumerate(after)))
    )

    rise, choosing, improving = shown_split(first, second)

    assert f"{round(second.mean, 3) - round(first.mean, 3):.3f}" == f"{rise:.3f}"
    assert choosing is None or f"{choosing + improving:.3f}" == f"{rise:.3f}"
    assert choosing is None or (choosing, improving) == pytest.approx(choosing_and_improving(first, second), abs=0.0021)


def test_the_parts_in_a_verdict_add_up_to_the_rise_in_it():
    before, after = evaluation(in_form(0.1, 0.6914, rollouts=20)), evaluation(in_form(1.0, 0.9856))

    numbers = [float(found) for found in re.findall(r"[+]?\d\.\d{3}", compare(before, after).verdict)]

    low, high, rise, choosing, improving = *numbers[:3], *numbers[5:7]
    assert round(high - low, 3) == rise == round(choosing + improving, 3)


def test_a_fall_is_called_a_fall():
    found = compare(evaluation(in_form(0.9, 0.8)), evaluation(in_form(0.5, 0.8)))

    assert found.verdict.startswith("The reward fell from 0.720 to 0.400")


def test_a_difference_that_can_be_chance_is_not_called_a_rise():
    before = [answered(f"text {n}", "x", 0.5 + 0.4 * (n % 2)) for n in range(20)]
    after = [answered(f"text {n}", "x", 0.5 + 0.4 * (n // 2 % 2) + 0.02) for n in range(20)]

    found = compare(evaluation(before), evaluation(after))

    assert found.interval[0] < 0 < found.interval[1]
    assert found.verdict.startswith("Not distinguishable: the reward went from 0.700 to 0.720")


def test_the_same_evaluation_twice_cannot_be_told_apart():
    once = evaluation(in_form(0.5, 0.5))

    assert compare(once, once).verdict.startswith("Not distinguishable")


def test_pairing_by_text_finds_a_small_rise_under_large_differences_between_texts():
    before = [answered(f"text {n}", "x", n / 40) for n in range(30)]
    after = [answered(f"text {n}", "x", n / 40 + 0.05 + 0.01 * (n % 2)) for n in range(30)]

    found = compare(evaluation(before), evaluation(after))

    assert 0.05 < found.interval[0] < found.interval[1] < 0.06


def test_a_rise_from_no_answer_in_form_is_told_without_a_split():
    found = compare(evaluation(in_form(0.0, 0.5)), evaluation(in_form(1.0, 0.8)))

    assert (found.choosing, found.improving) == (None, None)
    assert found.verdict.endswith("answers in the right form: 0.0% before, 100.0% after.")


@pytest.mark.parametrize("changed", [{"max_tokens": 128}, {"temperature": 0.7}, {"rollouts_per_task": 4}])
def test_evaluations_with_different_sampling_are_not_compared(changed: dict):
    before = in_form(0.5, 0.5)

    with pytest.raises(EvaluationError, match=r"different sampling .*" + next(iter(changed))):
        compare(evaluation(before), evaluation(before, **changed))


def test_evaluations_on_different_texts_are_not_compared():
    with pytest.raises(EvaluationError, match="different texts"):
        compare(evaluation(in_form(0.5, 0.5, tasks=4)), evaluation(in_form(0.5, 0.5, tasks=5), num_tasks=4))


def test_evaluations_that_differ_in_the_seed_alone_are_compared():
    samples = in_form(0.5, 0.5)

    assert compare(evaluation(samples, seed=1), evaluation(samples, seed=2)).difference == 0


def test_a_comparison_survives_json():
    found = compare(evaluation(in_form(0.2, 0.5)), evaluation(in_form(1.0, 0.8)))

    assert type(found).model_validate(json.loads(found.model_dump_json())) == found
