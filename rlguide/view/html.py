"""HTML forms of the records, for notebooks and reports.

Everything that is not `Markup` is escaped: a completion may hold any characters. Colour never says anything alone.
"""

from collections.abc import Mapping, Sequence
from html import escape

from pydantic import BaseModel

from rlguide import measurements, records
from rlguide.config import RunConfig
from rlguide.environment.reward import ANSWER, similarity
from rlguide.statistics import by_text
from rlguide.view import results
from rlguide.view import text as plain
from rlguide.view.elements import Markup, folded, join, notes, table, tag
from rlguide.view.letters import CARET, Mark, pieces
from rlguide.view.metrics import METRICS, Metric, main_metrics, metric_rows
from rlguide.view.written import component_name, duration, number

# ------------------------------------------------------------------------------------------------- before a run


def plan_html(plan: records.Plan) -> Markup:
    """What a launch would start."""
    return join(table(plain.plan_rows(plan), caption="What a launch would start"), notes(plan.notes))


def report_html(report: records.MachineReport) -> Markup:
    """The verdict and what is wrong or doubtful, with what to do about it; all checks are behind a fold."""
    wrong, number = plain.remarkable(report), len(report.checks)
    told = "the check" if number == 1 else f"all {number} checks"
    return join(
        notes([report.verdict]),
        _checks(wrong, caption="What is wrong or doubtful") if wrong else Markup(),
        folded(told, _checks(report.checks, caption=f"For the engine {report.engine}")),
    )


def _checks(checks: Sequence[records.Check], *, caption: str) -> Markup:
    rows = [(c.title, f"{plain.MARKS[c.status]} {c.status}", c.seen, c.wanted, c.fix or "") for c in checks]
    head = ("check", "result", "seen", "wanted", "what to do")[: 5 if any(c.fix for c in checks) else 4]
    return table([row[: len(head)] for row in rows], caption=caption, head=head)


def config_html(config: RunConfig) -> Markup:
    """What differs from the preset, and the whole file behind a fold."""
    return join(difference_html(config), folded("all settings, as config.toml", tag("pre", config.to_toml())))


def difference_html(config: RunConfig) -> Markup:
    """What differs from the preset."""
    rows, base = config.difference(), f"preset {config.preset}"
    if not rows:
        return notes([f"No difference from {base}."])
    return table(rows, caption=f"What differs from {base}", head=("key", base, "here"))


# --------------------------------------------------------------------------------------------------------- a run


def run_html(record: records.RunRecord, steps: Sequence[records.StepRecord] | None = None) -> Markup:
    """Where a run stands, with its last steps; a record alone knows none, and says nothing of them."""
    return card(record) if steps is None else join(card(record, steps), metrics_html(steps), all_metrics_html(steps))


def card(record: records.RunRecord, steps: Sequence[records.StepRecord] | None = None) -> Markup:
    """State, progress and time of a run in plain words; no progress where no steps are given."""
    plan = record.plan
    return tag(
        "div",
        tag("p", tag("strong", record.name), f": {plain.state_text(record)}"),
        notes([record.reason]),
        Markup() if steps is None else _progress(record, steps),
        tag("p", f"{duration(record.elapsed_s)} elapsed, of at most {duration(plan.time_limit_s)}"),
        tag("p", f"engine {plan.engine} ({plan.release}); {plan.directory}", class_="soft"),
        class_="card",
    )


def _progress(record: records.RunRecord, steps: Sequence[records.StepRecord]) -> Markup:
    done = steps[-1].completed_updates if steps else 0
    bar = tag("progress", value=done, max=record.plan.max_steps, aria_label="steps done")
    return tag("p", bar, f" {plain.progress_text(record, steps)}")


def metrics_html(steps: Sequence[records.StepRecord], *, of: Sequence[Metric] | None = None) -> Markup:
    """Metrics of the last three steps with what each means, by default the main ones."""
    shown = list(steps[-3:])
    if not shown:
        return notes(["No training step has been recorded yet."])
    rows = [
        (*cells, tag("span", meaning, class_="soft"))
        for *cells, meaning in metric_rows(shown, of or main_metrics(shown))
    ]
    return table(
        rows, caption="The last steps", head=("metric", *(f"step {step.step}" for step in shown), "what it means")
    )


def all_metrics_html(steps: Sequence[records.StepRecord]) -> Markup:
    """Every metric of the last steps, behind a fold."""
    return folded("all metrics of the last steps", metrics_html(steps, of=METRICS)) if steps else Markup()


def logs_html(logs: Mapping[str, Sequence[str]]) -> Markup:
    """The ends of log files, each behind a fold."""
    empty = "(nothing yet)"
    return join(
        *(
            folded(f"log of the {component_name(name)}, last lines", tag("pre", "\n".join(lines) or empty))
            for name, lines in logs.items()
        )
    )


def picture(png: str, *, alt: str, caption: str) -> Markup:
    """A PNG image in base64, with a text for those who do not see it."""
    image = Markup(f'<img alt="{escape(alt)}" src="data:image/png;base64,{png}">')
    return tag("figure", image, tag("figcaption", caption, class_="soft"))


# ----------------------------------------------------------------------------------------------------- completions


def letters_html(answer: str, text: str) -> Markup:
    """An answer with the letters that count underlined, the others struck through, and a caret for missing ones."""
    return tag("span", *(_piece(piece, mark) for piece, mark in pieces(answer, text)), class_="text")


def _piece(piece: str, mark: Mark) -> Markup:
    if mark is Mark.MISSING:
        told = f"missing here: {piece}"
        return tag("b", CARET, role="img", title=told, aria_label=told)
    return tag("u" if mark is Mark.RIGHT else "s", piece)


def comparing_html(answer: str, text: str) -> Markup:
    """An answer below what was wanted, and their similarity."""
    wanted = tag("span", text[::-1], class_="text")
    rows = [
        ("wanted", wanted),
        ("answer", letters_html(answer, text)),
        ("similarity", f"{similarity(answer, text):.3f}"),
    ]
    return join(table(rows, caption="Letter by letter"), LEGEND)


LEGEND = tag(
    "p",
    *(tag("u", "underlined"), ": counts as right; ", tag("s", "struck through"), ": does not; "),
    *(tag("b", CARET), ": letters are missing here, point at it to see which."),
    class_="soft",
)


def completion_html(completion: str, text: str) -> Markup:
    """A completion, with the letters of its answer marked."""
    found = ANSWER.search(completion)
    if found is None:
        shown = tag("span", completion or "(empty)", class_="text")
        return join(shown, tag("div", results.NO_ANSWER, class_="soft"))
    start, end = found.span(1)
    around = [tag("span", part, class_="text soft") for part in (completion[:start], completion[end:])]
    return join(around[0], letters_html(found[1].strip(), text), around[1])


def rollouts_html(rollouts: Sequence[records.Rollout]) -> Markup:
    """The rollouts of a step by text, the best first; the first group is open."""
    groups = enumerate(by_text(rollouts).items())
    return join(LEGEND, *(_group(text, group, opened=n == 0) for n, (text, group) in groups))


def _group(text: str, group: list[records.Rollout], *, opened: bool) -> Markup:
    ordered = sorted(group, key=lambda rollout: -rollout.reward)
    mean = sum(rollout.reward for rollout in group) / len(group)
    title = f"“{text}”: {len(group)} rollouts, mean reward {mean:.3f}, best {ordered[0].reward:.3f}"
    rows = [
        (n, number(r.reward), number(r.advantage), completion_html(r.completion, text))
        for n, r in enumerate(ordered, 1)
    ]
    wanted = tag("p", "wanted: ", tag("span", text[::-1], class_="text"))
    head = ("place", "reward", "advantage", "completion")
    return folded(title, wanted, table(rows, caption="Best first", head=head), opened=opened)


def trial_html(trial: measurements.Trial) -> Markup:
    """One text, and what each policy made of it."""
    rows = [
        (f"{attempt.label}{', drawn' if drawn else ''}".replace(" ", "\u00a0"), *_sample(sample))
        for attempt in trial.attempts
        for drawn, sample in enumerate((attempt.answer, *attempt.samples))
    ]
    asked = [
        (name, tag("span", text, class_="text")) for name, text in (("text", trial.text), ("wanted", trial.text[::-1]))
    ]
    head = ("policy", "reward", "completion")
    answers = table(rows, caption="What each policy made of it", head=head)
    return join(table(asked, caption="The task"), answers, notes(trial.notes), LEGEND)


def _sample(sample: measurements.EvalSample) -> tuple[object, Markup]:
    if sample.error is not None:
        return None, join(f"error: {sample.error}")
    return number(sample.reward), completion_html(sample.completion, sample.text)


# ------------------------------------------------------------------------------------------------------ evaluations


def evaluation_html(evaluation: measurements.Evaluation) -> Markup:
    """One policy's result."""
    title = results.evaluation_title(evaluation)
    return join(table(results.evaluation_rows(evaluation), caption=title), notes(evaluation.notes))


def comparison_html(comparison: measurements.Comparison) -> Markup:
    """Two policies side by side, the verdict, and samples behind a fold."""
    head = ("measure", comparison.before.label, comparison.after.label)
    numbers = table(results.comparison_rows(comparison), caption="Before and after", head=head)
    return join(
        numbers, tag("p", tag("strong", comparison.verdict)), folded("samples side by side", samples_html(comparison))
    )


def samples_html(comparison: measurements.Comparison, *, count: int = 8) -> Markup:
    """Answers of both policies side by side: the `count` that are worst after training."""
    pairs = results.paired_samples(comparison)
    head = ("text", "reward", comparison.before.label, "reward", comparison.after.label)
    rows = [(after.text, *_sample(before), *_sample(after)) for before, after in pairs[:count]]
    caption = f"The same texts, before and after: {len(rows)} of {len(pairs)} answers, the worst after training first"
    return join(table(rows, caption=caption, head=head), LEGEND)


def record_html(record: BaseModel) -> Markup:
    """Any record, one field a row."""
    return table(plain.record_rows(record), caption=type(record).__name__)
