"""The numbers of an evaluation and what may be concluded from them. Pure: no files, no processes.

A task is one text; its rollouts share it, so they are not independent. Every standard error and interval here
therefore treats the task, not the rollout, as the unit that was sampled.
"""

import math
from collections.abc import Iterable, Sequence
from random import Random
from statistics import fmean, quantiles
from typing import Any, TypeVar

from rlguide.environment.reward import extract_answer, right_form
from rlguide.errors import EvaluationError
from rlguide.measurements import Comparison, EvalSample, Evaluation
from rlguide.records import Rollout

RESAMPLES = 2000
"""Bootstrap draws: the ends of a 95 % interval then move by about 2 % of its width from seed to seed."""

DIGITS = 3
"""Decimals of a mean reward that are shown: its standard error is some hundredths."""

Rewards = Sequence[Sequence[float]]
"""Rewards by task: one inner sequence a task, one number a scored rollout."""
Answer = TypeVar("Answer", EvalSample, Rollout)


def clustered_stderr(tasks: Rewards) -> float:
    """Standard error of the mean over all rollouts, clustered by task.

    √(G/(G−1) · Σ_task (Σ_rollout (r − mean))²) / n for G tasks and n rollouts: Miller 2024, "Adding Error Bars to
    Evals", section 2.2, with the small-sample factor G/(G−1) of Cameron & Miller 2015, section II.C.
    """
    mean = _mean(tasks)
    squares = sum(sum(reward - mean for reward in task) ** 2 for task in tasks)
    return math.sqrt(len(tasks) / (len(tasks) - 1) * squares) / sum(map(len, tasks))


def bootstrap_interval(tasks: Rewards) -> tuple[float, float]:
    """95 % percentile interval of the mean over all rollouts, from resampled tasks (Efron & Tibshirani 1993, ch. 13).

    The same rewards give the same interval.
    """
    rng = Random(0)
    draws = (rng.choices(tasks, k=len(tasks)) for _ in range(RESAMPLES))
    cuts = quantiles((_mean(draw) for draw in draws), n=40, method="inclusive")
    return cuts[0], cuts[-1]


def paired_differences(before: Evaluation, after: Evaluation) -> list[float]:
    """after − before of every task that both scored, as the difference of its mean rewards."""
    first, second = rewards_by_text(before.samples), rewards_by_text(after.samples)
    return [fmean(second[text]) - fmean(rewards) for text, rewards in first.items() if text in second]


def best_of(tasks: Iterable[Sequence[float]]) -> float:
    """Mean over tasks of the best reward."""
    return fmean(max(task) for task in tasks)


def by_text(answers: Iterable[Answer]) -> dict[str, list[Answer]]:
    """Samples, or rollouts, by task, in the order of first appearance."""
    tasks: dict[str, list[Answer]] = {}
    for answer in answers:
        tasks.setdefault(answer.text, []).append(answer)
    return tasks


def scored_by_text(samples: Iterable[EvalSample]) -> dict[str, list[EvalSample]]:
    """The samples that have a reward, by task."""
    return by_text(sample for sample in samples if sample.reward is not None)


def rewards_by_text(samples: Iterable[EvalSample]) -> dict[str, list[float]]:
    """Rewards of the scored samples, by task."""
    return {text: [sample.reward for sample in scored] for text, scored in scored_by_text(samples).items()}


def summarise(samples: Sequence[EvalSample], *, threshold: float) -> dict[str, Any]:
    """The statistics of `Evaluation`, as its keyword arguments.

    Raises `EvaluationError` when fewer than two texts have a scored sample: one text has no standard error.
    """
    scored = [sample for sample in samples if sample.reward is not None]
    tasks = list(rewards_by_text(samples).values())
    if len(tasks) < 2:
        raise EvaluationError(f"{len(scored)} of {len(samples)} rollouts were scored, on {len(tasks)} texts; 2 needed")
    in_form = [sample.reward for sample in scored if right_form(sample.completion)]
    mean = _mean(tasks)
    return {
        "threshold": threshold,
        "samples": tuple(samples),
        "scored": len(scored),
        "errored": len(samples) - len(scored),
        "empty": sum(not sample.completion.strip() for sample in scored),
        "mean": mean,
        "stderr": clustered_stderr(tasks),
        "interval": bootstrap_interval(tasks),
        "lower_bound": mean * len(scored) / len(samples),
        "passed": fmean(sample.reward >= threshold for sample in scored),
        "exact": fmean(extract_answer(sample.completion) == sample.text[::-1].strip() for sample in scored),
        "right_form": len(in_form) / len(scored),
        "similarity_in_form": fmean(in_form) if in_form else None,
        "best_of": best_of(tasks),
    }


def sampling_inactive(samples: Iterable[EvalSample]) -> bool:
    """True when tasks have several completions and all completions of every task are equal: nothing was sampled."""
    repeated = [scored for scored in scored_by_text(samples).values() if len(scored) > 1]
    return bool(repeated) and all(len({sample.completion for sample in scored}) == 1 for scored in repeated)


def compare(before: Evaluation, after: Evaluation) -> Comparison:
    """What changed from `before` to `after`, with an honest sentence.

    Raises `EvaluationError` when the two are not alike: other texts, another threshold, or another sampling (the seed
    may differ).
    """
    _require_alike(before, after)
    differences = paired_differences(before, after)
    if len(differences) < 2:
        raise EvaluationError(f"only {len(differences)} texts were scored in both evaluations; 2 needed")
    interval = bootstrap_interval([[difference] for difference in differences])
    choosing, improving = choosing_and_improving(before, after)
    return Comparison(
        before=before,
        after=after,
        difference=fmean(differences),
        interval=interval,
        choosing=choosing,
        improving=improving,
        verdict=_verdict(before, after, interval),
    )


def choosing_and_improving(before: Evaluation, after: Evaluation) -> tuple[float | None, float | None]:
    """The rise of the mean reward, split: answering in the right form more often, and better answers in that form.

    As mean = right_form × similarity_in_form, the rise is Δform · mean similarity + mean form · Δsimilarity, exactly.
    `None`s when a side has no answer in the right form, and so no similarity.
    """
    if before.similarity_in_form is None or after.similarity_in_form is None:
        return None, None
    choosing = (after.right_form - before.right_form) * (before.similarity_in_form + after.similarity_in_form) / 2
    improving = (before.right_form + after.right_form) / 2 * (after.similarity_in_form - before.similarity_in_form)
    return choosing, improving


def shown_split(before: Evaluation, after: Evaluation) -> tuple[float, float | None, float | None]:
    """The rise of the mean reward, its part choosing and its part improving, rounded so that they add up on a page.

    Rounded one by one they can miss their sum by 0.001: so the rise is that of the means as they are shown, and
    improving is what choosing leaves of it.
    """
    rise = round(round(after.mean, DIGITS) - round(before.mean, DIGITS), DIGITS)
    choosing, _ = choosing_and_improving(before, after)
    if choosing is None:
        return rise, None, None
    return rise, round(choosing, DIGITS), round(rise - round(choosing, DIGITS), DIGITS)


def _mean(tasks: Rewards) -> float:
    return sum(map(sum, tasks)) / sum(map(len, tasks))


def _require_alike(before: Evaluation, after: Evaluation) -> None:
    for what, one, other in (
        ("sampling", *(side.sampling.model_dump(exclude={"seed"}) for side in (before, after))),
        ("thresholds", before.threshold, after.threshold),
        ("texts", *({sample.text for sample in side.samples} for side in (before, after))),
    ):
        if one != other:
            seen = "" if what == "texts" else f": {one} and {other}"
            raise EvaluationError(
                f"two evaluations with different {what} cannot be compared{seen}",
                hint="evaluate both policies again with the same settings",
            )


def _verdict(before: Evaluation, after: Evaluation, interval: tuple[float, float]) -> str:
    difference, choosing, improving = shown_split(before, after)
    size = f"{len({s.text for s in after.samples})} texts × {after.sampling.rollouts_per_task} samples"
    moved = f"from {before.mean:.3f} to {after.mean:.3f} on {size}"
    bounds = f"95 % interval {interval[0]:+.3f} to {interval[1]:+.3f}"
    if interval[0] <= 0 <= interval[1]:
        return (
            f"Not distinguishable: the reward went {moved}; a difference of {difference:+.3f} ({bounds}) can be chance."
        )
    word = "rose" if interval[0] > 0 else "fell"
    sentence = f"The reward {word} {moved}, a difference of {difference:+.3f} ({bounds})"
    if choosing is None or improving is None:
        return f"{sentence}; answers in the right form: {before.right_form:.1%} before, {after.right_form:.1%} after."
    return (
        f"{sentence}: {choosing:+.3f} from how often it answers in the right form ({before.right_form:.1%} → "
        f"{after.right_form:.1%}), {improving:+.3f} from how good those answers are "
        f"({before.similarity_in_form:.3f} → {after.similarity_in_form:.3f})."
    )
