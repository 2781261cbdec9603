"""The report of a run: one self-contained HTML page, light and dark, that needs no network and no script.

Draws what it is given; `rlguide.reporting` collects it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rlguide.config import RunConfig
from rlguide.history import History
from rlguide.measurements import Comparison, Evaluation
from rlguide.records import Provenance, RunRecord
from rlguide.statistics import RESAMPLES, shown_split
from rlguide.view import html, results
from rlguide.view import text as plain
from rlguide.view.elements import STYLE, Markup, join, notes, stylesheet, table, tag
from rlguide.view.written import duration, gpu_names, moment, number

PAGE_STYLE = stylesheet("page")
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
{title}<style>{style}</style></head><body><main>{body}</main></body></html>
"""

MEASURED = (
    "Each point of the curve is one training batch before that step's update; the evaluation measures other texts, "
    "longer answers allowed: the last point and the evaluation are two measurements.",
    "The interval covers the choice of texts and samples. It does not cover another seed: that would be another run.",
    "The held-out texts were never trained on, but come from the same source as the training texts. The result says "
    "nothing about texts of another kind, nor about another task.",
)
ALWAYS = (
    "The reward is a similarity: an answer with several wrong letters still scores high. Exact reversals are counted "
    "apart.",
    "The loss stays near 0 whatever is learned, so it is not shown.",
)
EMBEDDED = (
    "The tiny warm start can already reverse a text; it seldom answers in the right form, that is, in tags. So "
    "much of what training can teach is to choose a skill that is there; the split above says how much it was.",
    "A policy of 0.8 million weights that spells letter by letter stands in for a language model. The loop, the "
    "reward and the measurement are the real ones; the numbers are not those of a larger model.",
)


@dataclass(frozen=True)
class Contents:
    """Everything that a report tells. What is not there is `None` or empty, and the page says so."""

    record: RunRecord
    history: History
    embedded: bool
    """True for the tiny policy that ships with rlguide."""
    comparison: Comparison | None
    evaluations: tuple[Evaluation, ...]
    curve: Markup | None
    """The picture of the reward curve."""
    floors: Sequence[tuple[str, float]]
    """Rewards that need no learning, by name."""
    config: RunConfig | None
    provenance: Provenance
    files: Markup
    """The files of the run, as a table."""
    notebooks: Sequence[tuple[str, float | None]]
    """Rows (path relative to the report, seconds of its execution)."""
    log: tuple[str, ...]
    """End of the log of the component that failed."""


def report_page(contents: Contents) -> str:
    """The page."""
    record = contents.record
    title = f"Run {record.name}: learning to reverse text"
    sections = (
        ("The reward while training", _curve(contents)),
        ("Before and after, on texts it has never seen", _evaluations(contents)),
        ("Choosing or improving", _choosing(contents)),
        ("Side by side", _samples(contents)),
        ("What this shows, and what it does not", _honesty(contents)),
        ("Settings", _settings(contents)),
        ("Times", _times(contents)),
        ("Versions and hardware", _provenance(contents)),
        ("Files", _files(contents)),
    )
    body = join(
        tag("h1", title),
        tag("p", verdict(record, contents.comparison), class_="verdict"),
        _state(contents),
        *(join(tag("h2", name), content) for name, content in sections if content),
    )
    style = STYLE + PAGE_STYLE
    return PAGE.format(title=tag("title", title), style=style, body=tag("div", body, class_="rlg"))


def verdict(record: RunRecord, comparison: Comparison | None) -> str:
    """The sentence that matters most."""
    if comparison is not None:
        return comparison.verdict
    if record.plan.recording:
        return f"This is a recording of {record.plan.recording}: nothing was trained here."
    if record.state.is_success:
        return "Not evaluated yet: the training reached its last step, but nothing says yet how much it learned."
    why = f" {record.reason}" if record.reason else ""
    return f"No result. State of the run: {plain.state_text(record)}.{why}"


def _state(contents: Contents) -> Markup:
    record, plan = contents.record, contents.record.plan
    where = gpu_names(plan.gpus) if plan.gpus else "the processor"
    asked = f"{plan.max_steps} steps of {plan.batch_size} rollouts"
    told = join(
        f"{asked}, with the {plan.engine} engine ({plan.release}) on {where}. ",
        f"State: {plain.state_text(record)}; {plain.progress_text(record, contents.history.steps)}.",
    )
    log = html.folded("the last lines of its log", tag("pre", "\n".join(contents.log)), opened=True)
    return join(tag("p", told), log if contents.log else "")


def _curve(contents: Contents) -> Markup:
    steps = contents.history.steps
    if not steps:
        return notes(["No training step was recorded."])
    return join(contents.curve or tag("pre", plain.steps_text(steps, last=len(steps))), _steps(contents))


def _steps(contents: Contents) -> Markup:
    fields = {"reward": 3, "right_form": 2, "degenerate_groups": 2, "completion_tokens": 1, "seconds": 1}
    rows = [
        (step.step, *(number(getattr(step, field), digits) for field, digits in fields.items()))
        for step in contents.history.steps
    ]
    head = ("step", "reward (0–1)", "right form (share)", "groups without signal (share)", "tokens", "seconds")
    return html.folded("every step, as a table", table(rows, caption="Training steps", head=head))


# ------------------------------------------------------------------------------------------------------ the result


def _evaluations(contents: Contents) -> Markup:
    if contents.record.plan.recording:
        return notes(["A recording leaves no weights to evaluate."])
    if contents.comparison is None:
        known = [html.evaluation_html(evaluation) for evaluation in contents.evaluations]
        command = tag("code", f"rlguide evaluate {contents.record.name}")
        hint = tag("p", "Measure it with ", command, ", then make this report again.")
        return join(notes(["There is no evaluation of both the warm start and the trained policy."]), *known, hint)
    before, after = contents.comparison.before, contents.comparison.after
    rows = [("mean reward, 95 % interval", *(_with_interval(side.mean, side.interval) for side in (before, after)))]
    rows += results.comparison_rows(contents.comparison)[1:]
    rows.append(
        (f"best of {after.sampling.rollouts_per_task} answers", f"{before.best_of:.3f}", f"{after.best_of:.3f}")
    )
    s, low, high = after.sampling, *contents.comparison.interval
    rise, *_ = shown_split(before, after)
    alike = (
        f"Both were measured alike: {s.num_tasks} held-out texts × {s.rollouts_per_task} answers, temperature "
        f"{s.temperature:g}, at most {s.max_tokens} tokens. Difference {rise:+.3f}, 95 % interval {low:+.3f} to "
        f"{high:+.3f}. For an interval the texts are drawn anew {RESAMPLES} times, each with all its answers; it holds "
        "the middle 95 % of what comes out."
    )
    head = ("measure", before.label, after.label)
    return join(table(rows, caption="Rewards from 0 to 1", head=head), notes([alike, *before.notes, *after.notes]))


def _with_interval(mean: float, interval: tuple[float, float]) -> str:
    return f"{mean:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def _choosing(contents: Contents) -> Markup:
    found = contents.comparison
    if found is None:
        return Markup("")
    _, choosing, improving = shown_split(found.before, found.after)
    if choosing is None or improving is None:
        return notes(["It cannot be told: one of the policies never answered in the right form."])
    parts = [
        ("before", "before", found.before.mean),
        ("choosing", "choosing the right form more often", choosing),
        ("improving", "better answers in that form", improving),
    ]
    rows = [(join(tag("span", "", class_=f"key {kind}"), name), f"{value:+.3f}") for kind, name, value in parts]
    rows.append(("after", f"{found.after.mean:+.3f}"))
    widths = [tag("div", "", class_=kind, style=f"width:{100 * value:.1f}%") for kind, _, value in parts]
    said = ", ".join(f"{name} {value:.3f}" for _, name, value in parts)
    bar = tag("div", *widths, class_="bar", role="img", aria_label=said) if min(v for _, _, v in parts) >= 0 else ""
    scale = tag("p", "The whole bar is a reward of 1.", class_="soft") if bar else ""
    without = "; ".join(f"{name}: {value:.3f}" for name, value in contents.floors)
    floors = without and f"Rewards that need no learning, on the texts of the first step: {without}."
    sentence = "Mean reward = share of answers in the right form × their similarity; the rise splits accordingly."
    low, high = found.interval
    chance = "The difference can be chance, and so can its split." if low <= 0 <= high else None
    numbers = table(rows, caption="Where the reward comes from")
    return join(notes([sentence, chance]), bar, scale, numbers, notes([floors]))


def _samples(contents: Contents) -> Markup:
    return html.samples_html(contents.comparison, count=6) if contents.comparison else Markup("")


def _honesty(contents: Contents) -> Markup:
    sentences = (*(EMBEDDED if contents.embedded else ()), *(MEASURED if contents.comparison else ()), *ALWAYS)
    return tag("ul", *(tag("li", sentence) for sentence in sentences))


# ------------------------------------------------------------------------------------------------ how it was made


def _settings(contents: Contents) -> Markup:
    config = contents.config
    if config is None:
        return notes(["The configuration of this run is not there."])
    head = ("key", f"preset {config.preset}", "this run")
    every = html.folded("all settings", table(config.settings(), caption="All settings", head=head))
    return join(html.difference_html(config), every)


def _times(contents: Contents) -> Markup:
    record, limit_s = contents.record, contents.record.plan.time_limit_s
    steps = [step.seconds for step in contents.history.steps if step.seconds is not None]
    rows: list[tuple[object, ...]] = [
        ("launched", moment(record.created_at)),
        ("attempts", record.attempt),
        ("until the first step was done", duration(record.ready_s)),
        ("a step, median", f"{median(steps):.1f} s" if steps else None),
        ("training in all, last attempt", f"{duration(record.elapsed_s)} of at most {duration(limit_s)}"),
    ]
    rows += [(f"evaluation of the {e.label}", duration(e.seconds)) for e in contents.evaluations]
    return table(rows, caption="How long it took")


def _provenance(contents: Contents) -> Markup:
    made, plan = contents.provenance, contents.record.plan
    changes = ", with changes" if made.modified else ""
    rows = [
        ("trained with", f"{plan.release}, {plan.precision}, attention {plan.attention}"),
        ("policy before training", plan.policy),
        ("Python", made.python),
        *made.packages.items(),
        ("commit", f"{made.commit}{changes}" if made.commit else "not a checkout"),
        ("system", made.system),
        ("processor", f"{made.processor}, {made.cores} cores for this process"),
        ("GPUs", ", ".join(made.gpus) or made.gpu_problem or "none"),
        ("report made", moment(made.made_at)),
    ]
    return table(rows, caption="Where this report was made")


def _files(contents: Contents) -> Markup:
    executed = [(tag("a", path, href=path), duration(seconds)) for path, seconds in contents.notebooks]
    head = ("notebook", "took")
    return join(contents.files, table(executed, caption="Executed notebooks", head=head) if executed else "")
