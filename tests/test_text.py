"""Plain-text forms say what the records hold, and "not measured" never looks like 0."""

from pathlib import Path

import pytest
from toy import toy_plan

from rlguide.measurements import Attempt, Comparison, EvalSample, Evaluation, Sampling, Trial
from rlguide.records import (
    Check,
    MachineReport,
    Parameters,
    Provenance,
    RunRecord,
    RunSummary,
    State,
    Status,
    StepRecord,
    StoppedBy,
)
from rlguide.view import results, text
from rlguide.view.html import plan_html
from rlguide.view.written import is_quantity, moment, moments

SAMPLES = (
    EvalSample(text="abc", completion="<reversed_text>cba</reversed_text>", reward=1.0),
    EvalSample(text="abd", completion="", reward=None, error="connection lost"),
)


def evaluation(**changes: object) -> Evaluation:
    values = {
        "label": "trained policy", "policy": "weights/step_20", "threshold": 0.5, "samples": SAMPLES, "scored": 119,
        "sampling": Sampling(num_tasks=40, rollouts_per_task=3, max_tokens=1024, temperature=1.0), "errored": 1,
        "empty": 0, "mean": 0.84116, "stderr": 0.0213, "interval": (0.8, 0.88), "lower_bound": 0.83, "passed": 0.95,
        "exact": 0.25, "right_form": 0.98, "similarity_in_form": 0.858, "best_of": 0.93, "seconds": 20.0,
        "created_at": "2030-01-01T00:00:00+00:00",
    }  # fmt: skip
    return Evaluation(**values | changes)


def comparison() -> Comparison:
    before = evaluation(label="warm start", mean=0.09071, scored=120, errored=0, similarity_in_form=None)
    return Comparison(
        before=before, after=evaluation(), difference=0.75, interval=(0.7, 0.8), choosing=0.7, improving=0.05,
        verdict="Better.",
    )  # fmt: skip


def record(tmp_path: Path, state: State, **changes: object) -> RunRecord:
    values = {"name": "one", "plan": toy_plan(tmp_path), "state": state, "created_at": "2030-01-01T00:00:00+00:00"}
    return RunRecord(**values | changes)


def steps() -> list[StepRecord]:
    return [StepRecord(step=n, completed_updates=n + 1, reward=n / 10, seconds=1.5) for n in range(8)]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "–"), (0, "0 s"), (48.4, "48 s"), (99.4, "99 s"), (125, "2 min 05 s"), (3599.6, "1 h 00 min"),
     (4200, "1 h 10 min")],
)  # fmt: skip
def test_durations_are_for_readers(seconds: float | None, said: str):
    assert text.duration(seconds) == said


def test_a_sparkline_spans_0_to_1_and_leaves_a_gap_for_what_was_not_measured():
    assert text.sparkline([0.0, None, 0.5, 1.0]) == "▁ ▅█"


def test_a_table_aligns_numbers_right_and_words_left():
    assert text.table([("a", 1.5), ("long", 12), ("b", None)], head=("key", "n")).splitlines() == [
        "key     n",
        "a     1.5",
        "long   12",
        "b       –",
    ]


def test_a_heading_stands_as_its_column_does():
    made = text.table([("one", "46 s", "0.100 → 0.700"), ("two", "–", "0.9%")], head=("run", "time", "reward"))

    assert made.splitlines() == ["run  time         reward", "one  46 s  0.100 → 0.700", "two     –           0.9%"]


@pytest.mark.parametrize(
    "cell",
    ["1", "-0.5", "+0.70", "1.5e-04", "12.5%", "–", "46 s", "2 min 05 s", "20 of 20", "0.100 → –", "119 / 1",
     "0.8956 (0.870 to 0.910)", "3.1 MB in 4 files", "not there yet"],
)  # fmt: skip
def test_numbers_with_their_units_count_as_numbers(cell: str):
    assert is_quantity(cell)


@pytest.mark.parametrize(
    "cell", ["", "run 1", "2026-11-30 11:59", "1 by 1", "20, 8 rollouts each", "in", "3.11.2 at x"]
)
def test_words_with_a_number_in_them_do_not(cell: str):
    assert not is_quantity(cell)


def test_a_time_is_told_to_the_minute_with_its_zone():
    assert moment("2030-01-02T11:59:07.123456+00:00") == "2030-01-02 11:59 UTC"
    assert moment("2030-01-02T11:59:07+02:00") == "2030-01-02 11:59 UTC+02:00"
    assert moment(None) == "–"
    assert moment("some day") == "some day"


def test_a_list_of_runs_tells_times_in_one_zone_that_is_named_once(tmp_path: Path):
    times = ("2030-01-02T11:59:07+00:00", "2030-01-02T11:59:07+02:00", None)
    made = [RunSummary(name=f"r{n}", directory=tmp_path, state=None, created_at=t) for n, t in enumerate(times)]

    said = text.runs_text(made, root=tmp_path, hint="look elsewhere").splitlines()

    assert said[0].endswith("launched (UTC)")
    assert [line.rpartition("  ")[2] for line in said[1:]] == ["2030-01-02 11:59", "2030-01-02 09:59", "–"]


def test_a_record_tells_its_times_and_durations_in_words():
    rows = dict(text.record_rows(evaluation()))

    assert rows["created at"] == "2030-01-01 00:00 UTC"
    assert ("time limit", "–") in text.record_rows(Parameters())
    assert dict(text.record_rows(RunSummary(name="one", directory=Path(), state=None, elapsed_s=125.2)))["elapsed"] == (
        "2 min 05 s"
    )


def test_a_table_of_nothing_is_nothing():
    assert text.table([]) == ""


def test_a_plan_shows_what_was_set_where_that_is_known(tmp_path: Path):
    plan = toy_plan(tmp_path)
    changed = plan.model_copy(update={"changes": ("seed 0 → 7", "max_steps 20 → 3")})

    assert "seed 0 → 7, max_steps 20 → 3" in text.plan_text(changed)
    assert "seed 0 → 7, max_steps 20 → 3" in plan_html(changed)
    assert "preset  nothing" in text.plan_text(plan.model_copy(update={"changes": ()}))
    assert "preset" not in text.plan_text(plan)


def test_a_plan_names_engine_time_and_directory(tmp_path: Path):
    said = text.plan_text(toy_plan(tmp_path, time_limit_s=600).model_copy(update={"notes": ("A note.",)}))

    assert "trl (toy 1)" in said
    assert [line.split() for line in said.splitlines() if line.startswith("expected")] == [
        ["expected", "time", "unknown"]
    ]
    assert "10 min 00 s" in said
    assert str(tmp_path) in said
    assert said.endswith("A note.")


@pytest.mark.parametrize("state", State)
def test_every_state_has_plain_words(tmp_path: Path, state: State):
    assert len(text.state_text(record(tmp_path, state))) >= 6


def test_a_stopped_run_says_by_whom_and_why(tmp_path: Path):
    stopped = record(tmp_path, State.STOPPED, stopped_by=StoppedBy.TIME_LIMIT, reason="600 s were over.")

    said = text.run_text(stopped)

    assert "stopped by the time limit before its last step" in said
    assert "600 s were over." in said


def test_a_running_run_shows_its_last_steps_and_what_was_not_measured(tmp_path: Path):
    said = text.run_text(record(tmp_path, State.RUNNING, elapsed_s=12), steps())

    assert "8 of 3 steps, reward 0.700" in said
    assert said.splitlines()[-1].split() == ["7", "0.700", "–", "–", "1.5"]


@pytest.mark.parametrize(
    ("age_s", "said"),
    [
        (None, "–"),
        (0.4, "0 s ago"),
        (59.9, "59 s ago"),
        (200, "3 min ago"),
        (7200, "2 h ago"),
        (90_000, "1 day ago"),
        (2e6, "23 days ago"),
    ],
)
def test_a_list_of_runs_says_how_long_ago_each_was_launched(tmp_path: Path, age_s: float | None, said: str):
    run = RunSummary(name="one", directory=tmp_path, state=State.RUNNING, age_s=age_s)

    assert f" {said} " in text.runs_text([run], root=tmp_path, hint="look elsewhere")


def test_a_list_of_runs_shows_also_the_one_that_cannot_be_read(tmp_path: Path):
    good = RunSummary(name="one", directory=tmp_path, state=State.SUCCEEDED, completed_updates=20, max_steps=20)
    bad = RunSummary(name="two", directory=tmp_path, state=None, problem="run.json is damaged")

    said = text.runs_text([good, bad], root=tmp_path, hint="look elsewhere").splitlines()

    assert said[1].split()[:5] == ["one", "succeeded", "20", "of", "20"]
    assert "unreadable" in said[2]
    assert "run.json is damaged" in said[2]
    assert text.runs_text([], root=tmp_path, hint="look there") == f"no runs in {tmp_path}\nhint: look there"


def report(*statuses: Status) -> MachineReport:
    checks = tuple(
        Check(id=str(n), title=f"title {n}", status=status, seen="seen", wanted="wanted", fix="mend it")
        for n, status in enumerate(statuses)
    )
    return MachineReport(engine="trl", checks=checks, verdict="A verdict.")


def test_a_report_shows_only_what_is_wrong_unless_asked_for_everything():
    found = report(Status.PASS, Status.WARN, Status.FAIL)

    assert "title 0" not in text.report_text(found)
    assert (
        "warn  title 1: seen (wanted: wanted)\nfail  title 2: seen (wanted: wanted)\n      fix: mend it\n"
        in text.report_text(found)
    )
    assert "title 0" in text.report_text(found, everything=True)
    assert "1 of 3 checks found nothing wrong; the doctor shows them with `--all`." in text.report_text(found)
    assert "--all" not in text.report_text(found, everything=True)


@pytest.mark.parametrize(
    ("statuses", "told"),
    [
        ([Status.PASS], "1 of 1 check found nothing wrong; the"),
        ([Status.SKIP], "1 was not needed or not tried; the"),
        ([Status.PASS, Status.SKIP], "1 of 2 checks found nothing wrong, 1 was not needed or not tried; the"),
    ],
)
def test_what_was_not_tried_is_not_counted_as_well(statuses: list[Status], told: str):
    assert text.report_text(report(*statuses)).splitlines()[1].startswith(told)


def test_the_first_screen_of_a_good_machine_is_short():
    well = report(*[Status.PASS] * 40)

    assert len(text.report_text(well).splitlines()) <= 12
    assert text.report_text(well).startswith("A verdict.")


def test_a_block_to_paste_holds_every_check_and_what_it_was_made_on():
    made = Provenance(
        packages={"rlguide": "0.1.0", "torch": "2.11"}, python="3.12.1", commit="a" * 40, modified=True,
        system="Linux 6.1", processor="EPYC", cores=2, memory_gib=7.5, made_at="2026-11-30T10:00:00+00:00",
    )  # fmt: skip

    lines = text.pasted_text(report(Status.PASS, Status.FAIL), made).splitlines()

    assert (lines[0], lines[-1]) == ("```text", "```")
    assert "Python 3.12.1, commit aaaaaaaaaa with changes; rlguide 0.1.0, torch 2.11" in lines
    assert sum("title" in line for line in lines) == 2


def test_a_difference_names_the_key_and_both_values():
    said = text.difference_text([("max_steps", 20, 2)], base="preset tiny")

    assert said.splitlines()[1].split() == ["max_steps", "20", "2"]
    assert text.difference_text([], base="preset tiny") == "no difference from preset tiny"


def test_the_result_line_has_the_promised_form():
    assert results.result_line(comparison()) == "reward before=0.0907 after=0.8412 n=119"


def test_an_evaluation_counts_errors_apart_and_names_its_threshold_and_sampling():
    said = results.evaluation_text(evaluation(notes=("A note.",)))

    assert "119 scored, 1 errored, 0 empty" in said
    assert "reward ≥ 0.5" in said
    assert "temperature 1, at most 1024 tokens" in said
    assert said.endswith("A note.")


def test_a_comparison_shows_what_could_not_be_measured_and_ends_with_the_verdict():
    said = results.comparison_text(comparison())

    assert "similarity in the right form – 0.858" in " ".join(said.split())
    assert said.endswith("Better.")


def test_examples_show_each_text_once_with_the_answer_or_error_of_either_policy():
    said = results.examples_text(comparison())

    assert (
        said.count("text    abc\nwanted  cba\nwarm start\nanswer  <reversed_text>cba</reversed_text>\nreward  1.000")
        == 1
    )
    assert "trained policy\nerror   connection lost" in said
    assert len(results.examples_text(comparison(), count=1).split("\n\n")) == 1


def test_a_trial_shows_the_text_once_and_every_policy():
    trial = Trial(
        text="abc", attempts=[Attempt(label=name, policy="x", answer=SAMPLES[0]) for name in ("warm start", "trained")]
    )

    said = results.trial_text(trial)

    assert results.trial_text(trial.model_copy(update={"notes": ("Long.",)})).endswith("\n\nLong.")
    assert said.count("text    abc") == 1
    assert "warm start\nanswer" in said
    assert "trained\nanswer" in said


@pytest.mark.parametrize(
    ("completion", "told"),
    [("cba", "reward  0.000, no answer between the tags"), ("<reversed_text>x</reversed_text>", "reward  0.000")],
)
def test_a_right_answer_without_tags_says_why_it_gets_nothing(completion: str, told: str):
    answer = EvalSample(text="abc", completion=completion, reward=0.0)
    trial = Trial(text="abc", attempts=[Attempt(label="warm start", policy="x", answer=answer)])

    assert results.trial_text(trial).splitlines()[-1] == told


def test_a_time_at_the_end_of_all_times_is_shown_as_it_stands():
    assert moments(["9999-12-31T23:59:59-12:00"])[1] == ["9999-12-31T23:59:59-12:00"]
