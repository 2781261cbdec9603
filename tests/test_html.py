"""HTML forms are real tables that escape everything, and say in words what they show in colour."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_text import comparison, evaluation, record, report, steps
from toy import toy_plan

from rlguide.config import from_preset
from rlguide.environment.reward import similarity
from rlguide.measurements import Attempt, EvalSample, Evaluation, Trial
from rlguide.records import Rollout, State, Status, StepRecord
from rlguide.view import html
from rlguide.view.elements import STYLE, Markup, View, page, table, tag
from rlguide.view.letters import Mark, letters_text, pieces
from rlguide.view.metrics import METRICS
from rlguide.view.results import paired_samples

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</td></table>"
IN_TAGS = f"<reversed_text>{HOSTILE}</reversed_text>"
VOID = {"img"}


class Reader(HTMLParser):
    """Which elements there are, and whether each one that opens also closes."""

    def __init__(self, content: str):
        super().__init__()
        self.names: list[str] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert not self._open

    def handle_starttag(self, name: str, attrs: list) -> None:
        self.names.append(name)
        assert not [key for key, _ in attrs if key.startswith("on")]
        self._open += [] if name in VOID else [name]

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, data: str) -> None:
        self.words += data


def trial(completion: str) -> Trial:
    sample = EvalSample(text="abc", completion=completion, reward=0.0)
    return Trial(text="abc", attempts=(Attempt(label="warm start", policy="x", answer=sample, samples=(sample,)),))


def everything(tmp_path: Path, completion: str = "cba") -> dict[str, Markup]:
    samples = (
        EvalSample(text="abc", completion=completion, reward=0.5),
        EvalSample(text="abd", completion="", reward=0.0),
    )
    both = comparison().model_copy(update={"before": evaluation(samples=samples), "after": evaluation(samples=samples)})
    rollout = Rollout(step=0, text="abc", completion=completion, reward=0.5, advantage=-0.1)
    return {
        "plan": html.plan_html(toy_plan(tmp_path)),
        "report": html.report_html(report(*Status)),
        "config": html.config_html(from_preset("guide").replace({"max_steps": 3})),
        "run": html.run_html(record(tmp_path, State.FAILED, reason=completion), steps()),
        "rollouts": html.rollouts_html([rollout, rollout]),
        "letters": html.comparing_html(completion, "abc"),
        "trial": html.trial_html(trial(completion)),
        "evaluation": html.evaluation_html(evaluation(notes=(completion,))),
        "comparison": html.comparison_html(both),
        "record": html.record_html(rollout),
    }


@pytest.mark.parametrize("completion", [HOSTILE, IN_TAGS], ids=["bare", "in tags"])
def test_a_hostile_completion_is_shown_and_never_run(tmp_path: Path, completion: str):
    for name, content in everything(tmp_path, completion).items():
        found = Reader(page(content))

        assert not {"script", "img"} & set(found.names), name
        assert name in {"plan", "report", "config"} or "alert(1)" in found.words, name


def test_a_hostile_log_text_and_title_are_shown_and_never_run():
    logs = html.logs_html({HOSTILE: [HOSTILE]})
    group = html.rollouts_html([Rollout(step=0, text=HOSTILE, completion="", reward=0.0)])
    image = html.picture("AAAA", alt=HOSTILE, caption=HOSTILE)

    assert "script" not in Reader(logs).names + Reader(group).names + Reader(image).names
    assert Reader(image).names.count("img") == 1


def test_every_table_has_a_caption_and_headings(tmp_path: Path):
    for name, content in everything(tmp_path).items():
        tables = content.split("<table")[1:]

        assert name == "run" or tables, name
        assert all("<caption>" in each and "<th scope=" in each for each in tables), name


def test_a_view_is_html_in_a_notebook_and_text_elsewhere():
    view = View(tag("b", "x < y"), "x < y")

    assert "<b>x &lt; y</b>" in view._repr_html_()
    assert repr(view) == "x < y"


def test_a_column_of_numbers_stands_right_and_what_was_not_measured_is_no_zero():
    drawn = table([("a", 1.5, "word"), ("b", None, "2"), ("c", "3%", "4")], caption="c", head=("", "n", "w"))

    assert '<th scope="col" class="n">n</th><th scope="col">w</th>' in drawn
    assert '<td class="n">1.5</td><td>word</td>' in drawn
    assert '<td class="n">–</td><td>2</td>' in drawn


def test_a_first_column_of_numbers_stands_right_too_and_times_stand_left():
    drawn = table([(1, "2030-01-01 11:59"), (20, "2030-01-02 11:59")], caption="c", head=("step", "when"))

    assert '<th scope="col" class="n">step</th><th scope="col">when</th>' in drawn
    assert '<th scope="row" class="n">20</th><td>2030-01-02 11:59</td>' in drawn


@pytest.mark.parametrize("status", Status)
def test_a_check_says_its_result_in_a_word(status: Status):
    assert f" {status}</td>" in html.report_html(report(status))


def test_a_report_has_a_column_of_what_to_do_only_where_there_is_something_to_do():
    well = report(Status.PASS)
    well = well.model_copy(update={"checks": tuple(c.model_copy(update={"fix": None}) for c in well.checks)})

    assert "what to do" in html.report_html(report(Status.FAIL))
    assert "what to do" not in html.report_html(well)


def test_samples_side_by_side_begin_with_the_worst_after_training():
    def of(*rewards: float | None) -> Evaluation:
        made = [EvalSample(text=text, completion=f"<{r}>", reward=r) for text, r in zip("aabb", rewards, strict=True)]
        return evaluation(samples=tuple(made))

    both = comparison().model_copy(update={"before": of(0.1, 0.2, 0.3, 0.4), "after": of(0.995, 0.5, None, 0.9)})
    pairs = [(before.reward, after.reward) for before, after in paired_samples(both)]
    said = html.samples_html(both, count=3)

    assert pairs == [(0.3, None), (0.2, 0.5), (0.4, 0.9), (0.1, 0.995)]
    assert "3 of 4 answers, the worst after training first" in said
    assert "0.995" in html.samples_html(both)
    assert "0.995" not in said


def test_a_trial_names_every_policy_on_one_line():
    said = Reader(html.trial_html(trial("a"))).words

    assert "warm\u00a0start,\u00a0drawn" in said


def test_a_box_that_scrolls_shows_whole_lines_and_cuts_no_word():
    (box,) = re.findall(r"div\.rlg pre\{(.+?)\}", STYLE, re.DOTALL)
    height, line = (float(re.search(rf"{name}:([\d.]+)", box)[1]) for name in ("max-height", "line-height"))

    assert height / line == pytest.approx(round(height / line))
    assert "word-break:normal" in box  # JupyterLab breaks anywhere


def test_a_trial_shows_its_notes():
    assert "<p>Long.</p>" in html.trial_html(trial("a").model_copy(update={"notes": ("Long.",)}))


@pytest.mark.parametrize("kind", ["evaluation", "comparison", "rollouts", "trial"])
def test_every_column_has_a_heading(tmp_path: Path, kind: str):
    assert '<th scope="col"></th>' not in everything(tmp_path)[kind]


@pytest.mark.parametrize("state", State)
def test_a_run_says_its_state_time_and_limit_in_words(tmp_path: Path, state: State):
    said = Reader(html.run_html(record(tmp_path, state, elapsed_s=130), [])).words

    assert "2 min 10 s elapsed, of at most 60 s" in said
    assert "0 of 3 steps" in said
    assert "No training step has been recorded yet." in said


def test_the_last_steps_show_every_known_metric_with_unit_and_meaning():
    full = StepRecord(step=7, completed_updates=8, **{field: 1 for field, *_ in METRICS})

    said = Reader(html.all_metrics_html([full])).words

    assert "step 7" in said
    assert all(name in said and meaning in said for _, name, _, meaning in METRICS)


def test_metrics_that_an_engine_does_not_have_are_left_out():
    said = Reader(html.metrics_html(steps())).words

    assert "mean reward (0\u00a0to\u00a01)" in said
    assert "mismatch" not in said


def test_letters_are_marked_by_underline_strike_and_a_caret_that_says_what_is_missing():
    drawn = html.letters_html("cXa", "abc")

    told = "missing here: b"
    assert drawn == (
        f'<span class="text"><u>c</u><s>X</s><b role="img" title="{told}" aria-label="{told}">‸</b><u>a</u></span>'
    )
    assert letters_text("cXa", "abc").splitlines() == [
        "wanted  cba",
        "answer  cX‸a",
        "        =x =",
        "        = counts as right, x does not, ‸ letters are missing here",
        "similarity 0.667",
    ]


def test_letters_missing_at_either_end_and_hostile_ones_are_marked():
    assert [piece for piece, mark in pieces("b", "abc") if mark is Mark.MISSING] == ["c", "a"]
    assert list(pieces("", "ab")) == [("ba", Mark.MISSING)]
    assert "missing here: &lt;&quot;" in html.letters_html("a", 'a"<')


def test_every_mark_of_a_letter_is_in_the_legend():
    assert all(f"<{name}>" in html.LEGEND for name in ("u", "s", "b"))


@pytest.mark.parametrize(("answer", "text"), [("cXa", "abc"), ("abcabc", "abc"), ("", "ab"), ("ba", "ab"), ("x", "ab")])
def test_what_is_neither_struck_nor_missing_makes_the_reward(answer: str, text: str):
    found = list(pieces(answer, text))
    right, wrong, missing = (sum(len(p) for p, mark in found if mark is kind) for kind in Mark)

    assert right + wrong == len(answer)
    assert right + missing == len(text)
    assert 2 * right / (len(answer) + len(text)) == similarity(answer, text)


def test_a_completion_without_an_answer_in_tags_says_so():
    assert "no answer between the tags" in html.completion_html("cba", "abc")
    assert "<u>cba</u>" in html.completion_html("<reversed_text>cba</reversed_text>", "abc")


def test_rollouts_are_grouped_by_text_the_best_first():
    made = [
        Rollout(step=0, text=text, completion=f"{text}{n}", reward=n / 4) for text in ("one", "two") for n in range(3)
    ]

    drawn = html.rollouts_html(made)

    assert drawn.count("<details") == 2
    assert drawn.count('open=""') == 1
    assert "“one”: 3 rollouts, mean reward 0.250, best 0.500" in drawn
    assert drawn.index("one2") < drawn.index("one0")
