"""Plain-text forms of measurements: evaluations, comparisons, and texts that were tried."""

from rlguide.environment.reward import right_form
from rlguide.measurements import Comparison, EvalSample, Evaluation, Trial
from rlguide.statistics import by_text
from rlguide.view.written import number, table

NO_ANSWER = "no answer between the tags"
"""Why a completion that may read well gets a reward of 0."""


def evaluation_text(evaluation: Evaluation) -> str:
    """One policy's result."""
    return "\n".join([evaluation_title(evaluation), table(evaluation_rows(evaluation)), *evaluation.notes])


def evaluation_title(evaluation: Evaluation) -> str:
    """Which policy was measured."""
    return f"{evaluation.label} ({evaluation.policy})"


def evaluation_rows(evaluation: Evaluation) -> list[tuple[str, str]]:
    """One policy's numbers, by name."""
    e, s = evaluation, evaluation.sampling
    low, high = e.interval
    return [
        ("mean reward", f"{e.mean:.4f} ± {e.stderr:.4f} (95 %: {low:.3f} to {high:.3f})"),
        ("right form", f"{e.right_form:.1%}; similarity when in the right form {number(e.similarity_in_form)}"),
        (f"reward ≥ {e.threshold:g}", f"{e.passed:.1%}"),
        ("exact reversals", f"{e.exact:.1%}"),
        (f"best of {s.rollouts_per_task}", f"{e.best_of:.3f}"),
        ("completions", f"{e.scored} scored, {e.errored} errored, {e.empty} empty"),
        (
            "sampling",
            f"{s.num_tasks} held-out texts × {s.rollouts_per_task}, temperature {s.temperature:g}, "
            f"at most {s.max_tokens} tokens",
        ),
    ]


def comparison_text(comparison: Comparison) -> str:
    """Two policies side by side, and the verdict."""
    head = ("measure", comparison.before.label, comparison.after.label)
    return f"{table(comparison_rows(comparison), head=head)}\n{comparison.verdict}"


def comparison_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Rows (name, before, after)."""
    before, after = comparison.before, comparison.after
    return [
        ("mean reward", number(before.mean), number(after.mean)),
        ("right form", f"{before.right_form:.1%}", f"{after.right_form:.1%}"),
        ("similarity in the right form", number(before.similarity_in_form), number(after.similarity_in_form)),
        (f"reward ≥ {after.threshold:g}", f"{before.passed:.1%}", f"{after.passed:.1%}"),
        ("exact reversals", f"{before.exact:.1%}", f"{after.exact:.1%}"),
        ("scored / errored", f"{before.scored} / {before.errored}", f"{after.scored} / {after.errored}"),
    ]


def examples_text(comparison: Comparison, *, count: int = 3) -> str:
    """The first `count` texts, each with the first answer of either policy."""
    before, after = by_text(comparison.before.samples), by_text(comparison.after.samples)
    labels = comparison.before.label, comparison.after.label
    return "\n\n".join(
        "\n".join([_task(text), labels[0], _sample(before[text][0]), labels[1], _sample(after[text][0])])
        for text in list(before)[:count]
    )


def paired_samples(comparison: Comparison) -> list[tuple[EvalSample, EvalSample]]:
    """The answers of both policies to one text, the first with the first and so on; the worst after training first.

    An answer that has no reward counts as the worst.
    """
    asked = by_text(comparison.before.samples)
    pairs = [(asked[after.text].pop(0), after) for after in comparison.after.samples if asked.get(after.text)]
    return sorted(pairs, key=lambda pair: -1 if pair[1].reward is None else pair[1].reward)


def result_line(comparison: Comparison) -> str:
    """The last line of a whole job, for people and for machines: `reward before=… after=… n=…`."""
    before, after = comparison.before, comparison.after
    return f"reward before={before.mean:.4f} after={after.mean:.4f} n={min(before.scored, after.scored)}"


def trial_text(trial: Trial) -> str:
    """One text, and what each policy made of it."""
    blocks = [_task(trial.text)]
    blocks += ["\n".join([a.label, *map(_sample, (a.answer, *a.samples))]) for a in trial.attempts]
    return "\n\n".join([*blocks, *trial.notes])


def _task(text: str) -> str:
    return f"text    {text}\nwanted  {text[::-1]}"


def _sample(sample: EvalSample) -> str:
    if sample.error is not None:
        return f"error   {sample.error}"
    why = "" if right_form(sample.completion) else f", {NO_ANSWER}"
    return f"answer  {sample.completion.strip()}\nreward  {number(sample.reward)}{why}"
