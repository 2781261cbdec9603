"""The form checks every change, keeps the last valid configuration, and saves it where the next notebook looks."""

from pathlib import Path

import pytest

from rlguide.config import from_preset, load_config
from rlguide.display import edit
from rlguide.view.form import FIELDS, Form

GROUP, BATCH = "orchestrator.rollouts_per_example", "orchestrator.batch_size"


@pytest.fixture
def form() -> Form:
    return edit(from_preset("tiny"))


def test_the_form_has_the_six_fields_with_the_configured_values(form: Form):
    assert [form.fields[key].value for key in FIELDS] == [20, 3e-4, 128, 16, 128, 0]
    assert all(field.description for field in form.fields.values())


@pytest.mark.parametrize("preset", ["tiny", "guide"])
def test_an_untouched_form_leaves_the_configuration_as_it_is(preset: str):
    config = from_preset(preset).replace({"run_name": "other", "time_limit_s": 30.0})

    assert edit(config).config == config
    assert load_config("other") == config


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_steps", 3), ("trainer.optim.lr", 1e-4), (BATCH, 64), (GROUP, 8), ("seed", 7),
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
    [(BATCH, 130, "128 or 144"), ("max_steps", 0, "greater than or equal to 1"),
     ("trainer.optim.lr", 0.0, "greater than 0"),
     ("orchestrator.train.sampling.max_completion_tokens", 4000, "seq_len 2048"), ("seed", -1, "-1")],
)  # fmt: skip
def test_a_value_that_is_not_valid_says_what_would_be_and_changes_nothing(
    form: Form, key: str, value: float, said: str
):
    form.fields[key].value = value

    assert "✗ not valid" in form.verdict
    assert said in form.verdict
    assert form.config == from_preset("tiny") == load_config("reverse-text")


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
