"""The form checks every change, keeps the last valid configuration, and saves it where the next notebook looks."""

from pathlib import Path

import pytest

import rlguide
from rlguide.config import from_preset, load_config
from rlguide.display import edit
from rlguide.view.form import FIELDS, Form
from rlguide.view.written import duration

GROUP, BATCH = "orchestrator.rollouts_per_example", "orchestrator.batch_size"
RATE = "trainer.optim.lr"


@pytest.fixture
def form() -> Form:
    return edit(from_preset("tiny"))


def test_the_form_has_the_six_fields_with_the_configured_values(form: Form):
    assert [form.fields[key].value for key in FIELDS] == [20, "0.0003", 128, 16, 128, 0]
    assert all(field.description for field in form.fields.values())


@pytest.mark.parametrize("preset", ["tiny", "guide"])
def test_an_untouched_form_leaves_the_configuration_as_it_is(preset: str):
    config = from_preset(preset).replace({"run_name": "other", "time_limit_s": 30.0})

    assert edit(config).config == config
    assert load_config("other") == config


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_steps", 3), (BATCH, 64), (GROUP, 8), ("seed", 7),
     ("orchestrator.train.sampling.max_completion_tokens", 64)],
)  # fmt: skip
def test_a_valid_change_is_saved_and_shown(form: Form, outputs: Path, key: str, value: float):
    form.fields[key].value = value

    assert form.config == from_preset("tiny").replace({key: value})
    assert load_config("reverse-text") == form.config
    assert "✓ valid" in form.verdict
    assert str(outputs / "reverse-text" / "config.toml") in form.verdict
    assert [row[0] for row in form.config.difference()] == [key]
    assert f"({key.rpartition('.')[2]})" in next(line for line in repr(form).splitlines() if "changed" in line)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (BATCH, 130, "Batch size 130 is not divisible by Group size 16; nearest valid Batch size: 128 or 144"),
        ("max_steps", 0, "Training steps = 0; wanted: 1 or more"),
        (RATE, "0", "Learning rate = 0.0; wanted: more than 0"),
        (RATE, "1.000,5", "wanted: a number"),
        (RATE, "", "wanted: a number"),
        ("orchestrator.train.sampling.max_completion_tokens", 4000, "Longest completion 4000 leaves no room"),
        ("seed", -1, "Seed = -1; wanted: 0 or more"),
    ],
)
def test_a_value_that_is_not_valid_says_what_would_be_and_changes_nothing(
    form: Form, key: str, value: float, said: str
):
    form.fields[key].value = value

    assert "✗ not valid" in form.verdict
    assert said in form.verdict
    assert form.config == from_preset("tiny") == load_config("reverse-text")


@pytest.mark.parametrize(
    ("typed", "rate"), [("0,001", 0.001), ("0.001", 0.001), ("1e-4", 1e-4), (" 3E-05 ", 3e-5), ("1", 1.0)]
)
def test_a_learning_rate_is_read_as_it_was_typed(form: Form, typed: str, rate: float):
    form.fields[RATE].value = typed

    assert form.config.trainer.optim.lr == rate == load_config("reverse-text").trainer.optim.lr


def test_the_form_says_how_long_a_run_would_take_and_when_that_is_too_long():
    form = Form(from_preset("tiny"), save=lambda *_: "saved", estimate=lambda config: 2.0 * config.max_steps)
    assert "about 40 s; time limit 10 min 00 s" in form.outlook
    assert "!" not in form.outlook.partition("</style>")[2]

    form.fields["max_steps"].value = 301

    assert "! It would be stopped after 10 min 00 s" in form.outlook
    assert "expected time unknown" in Form(from_preset("guide"), save=lambda *_: "saved").outlook


def test_the_estimate_of_the_form_is_the_plans(form: Form):
    assert f"about {duration(rlguide.plan(form.config).estimate_s)};" in form.outlook


@pytest.mark.parametrize(
    ("rate", "said"),
    [("0.0031", "more than 10 times"), ("0.003", None), ("0.00003", None), ("1e-5", "less than a tenth")],
)
def test_a_learning_rate_far_from_the_presets_is_remarked(form: Form, rate: str, said: str | None):
    form.fields[RATE].value = rate

    told = form.outlook.partition("</style>")[2]
    assert ("The learning rate is" in told) == (said is not None)
    assert said is None or f"{said} " in told


def test_two_changes_that_are_only_valid_together_are_taken_together(form: Form):
    form.fields[GROUP].value = 10
    assert "not valid" in form.verdict

    form.fields[BATCH].value = 120

    assert (form.config.orchestrator.batch_size, form.config.orchestrator.rollouts_per_example) == (120, 10)


def test_comments_that_the_reader_wrote_are_kept(form: Form, outputs: Path):
    path = outputs / "reverse-text" / "config.toml"
    path.write_text("# mine\n" + path.read_text())

    form.fields["max_steps"].value = 5

    assert path.read_text().startswith("# mine\n")
    assert load_config(path).max_steps == 5


def test_what_was_written_into_the_file_while_the_form_was_open_is_kept_and_told(form: Form, outputs: Path):
    path = outputs / "reverse-text" / "config.toml"
    path.write_text("seed = 3  # mine\n")

    form.fields["max_steps"].value = 5

    kept = outputs / "reverse-text" / "earlier" / "config-1.toml"
    assert kept.read_text() == "seed = 3  # mine\n"
    assert str(kept) in form.verdict
    assert load_config("reverse-text") == form.config
    form.fields["max_steps"].value = 6
    assert "earlier" not in form.verdict


def test_a_form_for_other_values_than_the_file_has_keeps_those_too(outputs: Path):
    edit(from_preset("tiny").replace({"seed": 3}))

    form = edit(from_preset("guide"))

    assert load_config("reverse-text") == form.config == from_preset("guide")
    assert load_config(outputs / "reverse-text" / "earlier" / "config-1.toml").seed == 3


def test_a_run_that_was_launched_keeps_its_configuration(form: Form, outputs: Path):
    (outputs / "reverse-text" / "run.json").write_text("{}")

    form.fields["max_steps"].value = 5

    assert "not saved" in form.verdict
    assert load_config("reverse-text").max_steps == 20
    form.fields["max_steps"].value = 20
    assert "was launched with" in form.verdict
    assert "not saved" not in form.verdict


def test_a_folder_that_cannot_be_written_is_told_and_the_configuration_is_still_there(outputs: Path):
    outputs.write_text("a file where the folder should be")

    form = edit(from_preset("tiny"))

    assert "not saved" in form.verdict
    assert form.config == from_preset("tiny")


def test_the_whole_file_is_left_to_the_page_that_reads_it(form: Form):
    assert "[trainer.optim]" not in form._view()._repr_html_()


def test_the_form_without_a_notebook_is_a_text(form: Form):
    form.fields["max_steps"].value = 5

    steps = repr(form).splitlines()[1]
    assert steps.split() == ["Training", "steps", "(max_steps)", "20", "5", "changed"]


def test_without_widgets_a_table_shows_every_field_and_what_else_was_changed():
    form = edit(from_preset("tiny").replace({"run_name": "other", "seed": 3}))

    rows = {line[:42].strip(): line[42:].split() for line in repr(form).splitlines()[1:]}

    assert len(rows) == len(FIELDS) + 1
    assert rows["Learning rate (lr)"] == ["0.0003", "0.0003"]
    assert rows["Seed (seed)"] == ["0", "3", "changed"]
    assert rows["run_name"] == ["reverse-text", "other", "changed"]
