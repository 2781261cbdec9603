"""Parameters of a notebook: unknown names and wrong types are refused, and running all cells twice works."""

import math

import pytest

from rlguide.config import load_config, write_config
from rlguide.errors import ConfigError
from rlguide.guard import check_parameters, parameters
from rlguide.paths import outputs_root
from rlguide.records import Parameters

IMPORTS = "import rlguide"
OWN = 'engine = "auto"  # training framework\nrun_name = "one"\nmax_steps: int | None = None\ngpus = None'
GUARD = "asked = rlguide.parameters(globals())\nasked"


def session(*cells: str) -> dict[str, object]:
    """The variables of a notebook in which these cells were run, the last one being run now."""
    namespace: dict[str, object] = {"In": ["", *cells], "Out": {}, "_": "", "exit": object()}
    for cell in cells:
        if cell not in (IMPORTS, GUARD):
            exec(cell, namespace)
    return namespace


# ----------------------------------------------------------------------------------------------- names and types


def test_what_is_not_given_is_as_configured():
    assert check_parameters({}).given == {}
    assert check_parameters({"max_steps": None, "seed": 3}).given == {"seed": 3}


@pytest.mark.parametrize(
    ("name", "value", "seen", "wanted"),
    [
        ("max_steps", 2.5, "2.5 is of type float", "int or None"),
        ("max_steps", "2", "'2' is of type str", "int or None"),
        ("max_steps", True, "True is of type bool", "int or None"),
        ("seed", [1], "[1] is of type list", "int or None"),
        ("time_limit_s", False, "False is of type bool", "float or None"),
        ("time_limit_s", math.nan, "nan is of type float", "float or None"),
        ("run_name", 7, "7 is of type int", "str or None"),
        ("gpus", 0, "0 is of type int", "list[int] or None"),
        ("gpus", "[0, 1]", "'[0, 1]' is of type str", "list[int] or None"),
        ("gpus", [0.5], "[0.5] is of type list", "list[int] or None"),
        ("sentence", 1, "1 is of type int", "str or None"),
    ],
)
def test_a_wrong_type_is_refused_with_the_value_seen_and_the_type_wanted(name, value, seen, wanted):
    with pytest.raises(ConfigError) as caught:
        check_parameters({name: value})

    assert caught.value.message == f"{name} = {seen}; wanted: {wanted}"


def test_seconds_may_be_a_whole_number():
    assert check_parameters({"time_limit_s": 60}).time_limit_s == 60.0


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_a_sentence_has_something_to_reverse(empty: str):
    with pytest.raises(ConfigError, match="nothing to reverse; type a sentence"):
        check_parameters({"sentence": empty})


def test_every_problem_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        check_parameters({"max_stepz": 2, "seed": "1", "colour": None})

    assert caught.value.message.splitlines() == [
        "unknown parameter 'max_stepz'; did you mean 'max_steps'?",
        "unknown parameter 'colour'",
        "seed = '1' is of type str; wanted: int or None",
    ]


@pytest.mark.parametrize("name", ["wandb_api_key", "HF_TOKEN", "my_password", "token"])
def test_a_secret_is_never_a_parameter_and_is_not_repeated(name: str):
    with pytest.raises(ConfigError, match=f"'{name}' is called like a secret") as caught:
        check_parameters({name: "SECRET123"})

    assert "SECRET123" not in str(caught.value)
    assert "did you mean" not in str(caught.value)
    assert "set it in the environment" in caught.value.hint


# ------------------------------------------------------------------------------------------------- in a notebook


def test_a_notebook_gives_the_names_of_its_parameters_cell():
    assert parameters(session(IMPORTS, OWN, GUARD)).given == {"engine": "auto", "run_name": "one"}


def test_what_papermill_adds_counts():
    assert parameters(session(IMPORTS, OWN, "# Parameters\nmax_steps = 2\n", GUARD)).max_steps == 2


def test_an_unknown_name_from_papermill_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'max_steps'"):
        parameters(session(IMPORTS, OWN, "# Parameters\nmax_stepz = 2\n", GUARD))


def test_running_all_cells_twice_works_although_later_cells_bind_plain_values():
    later = ('answer = "ecila"', "scores = [0.1, 0.9]")

    found = parameters(session(IMPORTS, OWN, GUARD, *later, IMPORTS, OWN, GUARD))

    assert found.given == {"engine": "auto", "run_name": "one"}


@pytest.mark.parametrize("between", [(), ('answer = "ecila"',), ("print(1)",)])
def test_running_the_guard_again_alone_works(between):
    found = parameters(session(IMPORTS, OWN, GUARD, *between, GUARD))

    assert found.given == {"engine": "auto", "run_name": "one"}


def test_a_name_that_was_mended_is_no_longer_held_against_the_reader():
    with pytest.raises(ConfigError):
        parameters(session(IMPORTS, "max_stepz = 2\nseed = 1", GUARD))

    assert parameters(session(IMPORTS, "max_stepz = 2\nseed = 1", GUARD, "max_steps = 2", GUARD)).max_steps == 2


def test_parameters_that_the_notebook_overwrites_are_refused():
    with pytest.raises(ConfigError, match="no effect: max_steps") as caught:
        parameters(session("# Parameters\nmax_steps = 2\n", IMPORTS, OWN, GUARD))

    assert "tag `parameters`" in caught.value.hint


def test_without_a_parameters_cell_what_papermill_adds_is_still_checked():
    namespace = session("# Parameters\nmax_stepz = 2\n", IMPORTS, GUARD)

    with pytest.raises(ConfigError, match="max_stepz"):
        parameters(namespace)


def test_outside_a_notebook_all_plain_data_counts():
    with pytest.raises(ConfigError, match="max_stepz"):
        parameters({"__name__": "x", "pytest": pytest, "_hidden": 1, "max_stepz": 2})

    assert parameters({"__name__": "x", "pytest": pytest, "max_steps": 2}).max_steps == 2


def test_a_real_shell_runs_all_cells_twice(fresh_python):
    pytest.importorskip("IPython")
    cells = [IMPORTS, OWN, GUARD, 'answer = "ecila"', "print(asked.given)"]
    code = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
for cell in {cells!r} * 2:
    shell.run_cell(cell, store_history=True).raise_error()
"""

    assert fresh_python(code).count("{'engine': 'auto', 'run_name': 'one'}") == 2


# ------------------------------------------------------------------------------------------- into a configuration


def test_parameters_change_the_preset_where_nothing_is_configured():
    found = load_config(Parameters(run_name="one", max_steps=3, wandb_mode="offline", sentence="a"))

    assert (found.run_name, found.max_steps, found.wandb.mode, found.preset) == ("one", 3, "offline", "tiny")


def configured(run_name: str, **changes: object) -> None:
    folder = outputs_root() / run_name
    folder.mkdir(parents=True)
    write_config(load_config("tiny", {"run_name": run_name, **changes}), folder / "config.toml")


def test_parameters_leave_what_the_form_has_saved():
    configured("one", seed=7, max_steps=9)

    found = load_config(Parameters(run_name="one", max_steps=3))

    assert (found.seed, found.max_steps) == (7, 3)


def test_another_preset_starts_anew():
    configured("one", seed=7)

    found = load_config(Parameters(run_name="one", preset="guide"))

    assert found == load_config("guide", {"run_name": "one"})
    assert load_config(Parameters(run_name="one", preset="tiny")).seed == 7


@pytest.mark.parametrize(("name", "value"), [("max_steps", 0), ("engine", "vllm"), ("run_name", "../x"), ("gpus", [])])
def test_a_value_that_fits_its_type_and_not_its_key_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        load_config(Parameters(**{name: value}))
