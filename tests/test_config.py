"""A configuration is typed, comes from known places in a known order, and survives its round trip through TOML."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlguide.config import (
    PARAMETERS,
    PRESETS,
    RunConfig,
    from_preset,
    known_keys,
    load_config,
    save_config,
    write_config,
)  # fmt: skip
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError
from rlguide.paths import RunFiles

GUIDE_FILE = """
max_steps = 20
seq_len = 2048
[model]
name = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
[wandb]
project = "reverse-text"
name = "reverse-text"
[orchestrator]
batch_size = 128
rollouts_per_example = 16
[orchestrator.train.sampling]
max_completion_tokens = 128
[[orchestrator.train.env]]
id = "reverse-text"
[trainer.optim]
lr = 3e-6
[ckpt]
[inference]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rl.toml"
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------- presets and order


def test_the_tiny_preset_is_the_default():
    assert load_config() == from_preset("tiny") == RunConfig()


def test_the_guide_preset_is_the_guides_file_key_for_key(tmp_path: Path):
    guide = from_preset("guide")

    asked = load_config(written(tmp_path, 'preset = "guide"\n' + GUIDE_FILE))

    assert asked == guide.replace({"wandb.name": guide.wandb_name})


@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_is_called_at_wandb_as_it_is_here_unless_told_otherwise(preset: str):
    here = load_config(preset, {"run_name": "here"})

    assert (here.wandb_name, here.replace({"wandb.name": "there"}).wandb_name) == ("here", "there")


def test_every_preset_names_itself():
    assert {name: from_preset(name).preset for name in PRESETS} == {name: name for name in PRESETS}


def test_a_file_wins_over_its_preset_and_an_override_over_the_file(tmp_path: Path):
    path = written(tmp_path, 'preset = "guide"\nmax_steps = 7\nseed = 1\n')

    config = load_config(path, {"seed": 2})

    assert (config.trainer.optim.lr, config.max_steps, config.seed) == (3e-6, 7, 2)


def test_overriding_the_preset_takes_all_of_its_values(tmp_path: Path):
    assert load_config("tiny", {"preset": "guide"}) == from_preset("guide")
    assert load_config(written(tmp_path, "seed = 0\n"), {"preset": "guide"}) == from_preset("guide")


def test_an_override_of_none_means_as_configured(tmp_path: Path):
    assert load_config(written(tmp_path, "max_steps = 7\n"), {"max_steps": None}).max_steps == 7


def test_a_run_is_found_by_its_name_and_by_its_folder(outputs: Path):
    (outputs / "one").mkdir(parents=True)
    write_config(from_preset("guide"), outputs / "one" / "config.toml")

    assert load_config("one") == load_config(outputs / "one") == from_preset("guide")


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_is_a_key_of_the_configuration(name: str):
    assert PARAMETERS[name] in set(known_keys())


def test_parameters_and_dotted_keys_change_the_same_things():
    changed = from_preset("tiny").replace({"wandb_mode": "offline", "trainer.optim.lr": 1e-4})

    assert (changed.wandb.mode, changed.trainer.optim.lr) == ("offline", 1e-4)


def test_the_difference_from_the_preset_names_both_values():
    changed = from_preset("tiny").replace({"max_steps": 2, "orchestrator.batch_size": 32})

    assert changed.difference() == [("max_steps", 20, 2), ("orchestrator.batch_size", 128, 32)]
    assert from_preset("guide").difference() == []


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        from_preset("tiny").max_steps = 3


# ------------------------------------------------------------------------------------------------------------- TOML


@pytest.mark.parametrize("preset", PRESETS)
def test_a_round_trip_through_toml_keeps_everything(tmp_path: Path, preset: str):
    config = from_preset(preset).replace({"gpus": [0, 2], "ckpt.interval": 5, "seed": 3})

    path = written(tmp_path, config.to_toml())

    assert load_config(path) == config


def test_a_new_file_explains_every_key_that_it_holds():
    lines = from_preset("tiny").to_toml().splitlines()

    unexplained = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"(# )?\w+ = ", line) and not before.startswith("# ")
    ]

    assert not unexplained


@pytest.mark.parametrize("preset", PRESETS)
def test_a_new_file_holds_every_key_and_as_a_comment_what_is_not_set(tmp_path: Path, preset: str):
    text = from_preset(preset).to_toml()

    everything = load_config(written(tmp_path, re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)))

    assert load_config(written(tmp_path, text)) == from_preset(preset)
    assert all(here is not None for _, _, here in everything.settings())
    assert everything.environment.args.dataset is not None
    assert all(there in (None, here) for _, there, here in everything.settings() if not isinstance(there, list))


@pytest.mark.parametrize("preset", PRESETS)
def test_who_can_reach_the_inference_server_is_told_truly_whatever_address_stands_there(preset: str):
    before, _, line = from_preset(preset).to_toml().partition("host = ")

    address = line.partition("\n")[0].strip('"')
    assert {"127.0.0.1": "this machine alone", "0.0.0.0": "other machines can"}[address] in before.splitlines()[-1]
    assert f"at `{address}`" in before.splitlines()[-1]


def test_writing_over_a_file_keeps_comments_order_and_spelling(tmp_path: Path):
    path = written(
        tmp_path,
        "# mine\nseed = 0x10  # a reason\n\nmax_steps = 5\n[trainer.optim] # the trainer\nlr = 3e-4 # as tried\n",
    )

    write_config(load_config(path).replace({"max_steps": 6}), path)

    text = path.read_text(encoding="utf-8")
    assert text.startswith("# mine\nseed = 0x10  # a reason\n\nmax_steps = 6\n")
    assert "[trainer.optim] # the trainer\nlr = 3e-4 # as tried\n" in text
    assert load_config(path).max_steps == 6


def test_changing_one_value_of_a_new_file_changes_one_line(tmp_path: Path):
    path = written(tmp_path, from_preset("guide").to_toml())
    before = path.read_text(encoding="utf-8").splitlines()

    write_config(load_config(path).replace({"seed": 7}), path)

    after = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in after if line not in before] == ["seed = 7"]
    assert len(after) == len(before)


@pytest.mark.parametrize(
    "env", ['env = [{ id = "reverse-text" }] # one', '[[orchestrator.train.env]]\nid = "reverse-text" # one']
)
def test_an_environment_that_is_written_otherwise_stays_as_it_stands(tmp_path: Path, env: str):
    path = written(tmp_path, f"[orchestrator.train]\n{env}\n")

    write_config(load_config(path).replace({"seed": 7}), path)

    assert env.splitlines()[-1] in path.read_text(encoding="utf-8")
    assert load_config(path).seed == 7


def test_unsetting_a_value_removes_it_from_the_file(tmp_path: Path):
    path = written(tmp_path, "gpus = [1]\n")

    write_config(from_preset("tiny"), path)

    assert "gpus" not in tomllib.loads(path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_stpes": 3}, "unknown key 'max_stpes'; did you mean 'max_steps'?"),
        ({"trainer.optim.learning": 1}, "unknown key 'trainer.optim.learning'"),
        ({"max_steps": "20"}, "max_steps = '20'; wanted: a whole number"),
        ({"max_steps": 2.5}, "max_steps = 2.5; wanted: a whole number"),
        ({"max_steps": True}, "max_steps = True"),
        ({"max_steps": 0}, "max_steps = 0; wanted: 1 or more"),
        ({"seed": -1}, "seed = -1"),
        ({"time_limit_s": float("nan")}, "time_limit_s = nan"),
        ({"trainer.optim.lr": 0}, "trainer.optim.lr = 0"),
        ({"wandb_mode": "on"}, "wandb.mode = 'on'; wanted: 'off', 'offline' or 'online'"),
        ({"engine": "jax"}, "engine = 'jax'; wanted: 'auto', 'trl', 'prime-rl' or 'replay'"),
        ({"run_name": "../up"}, "did you mean 'up'?"),
        ({"run_name": "my run/x"}, "wanted: letters, digits, . _ - only"),
        ({"run_name": "my run/x"}, "did you mean 'my-run-x'?"),
        ({"orchestrator.batch_size": 100}, "batch_size 100 is not divisible by rollouts_per_example 16; "
                                           "nearest valid batch_size: 96 or 112"),
        ({"orchestrator.batch_size": 8}, "nearest valid batch_size: 16"),
        ({"orchestrator.train.sampling.max_completion_tokens": 4096}, "leaves no room for a prompt in seq_len 2048"),
        ({"seq_len": 512}, "evaluation.max_tokens 1024 leaves no room for a prompt in seq_len 512"),
        ({"inference.port": 70000}, "inference.port = 70000"),
        ({"gpus": [0, 0]}, "gpus [0, 0] must be different indices"),
        ({"gpus": []}, "gpus [] must be"),
        ({"model": "tiny-qwen3"}, "model = 'tiny-qwen3'"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_the_value_seen_and_a_hint(changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        load_config("tiny", changes)

    assert said in caught.value.message
    assert caught.value.hint


HOSTILE = (True, 7, -1, 1e300, -1e300, 2.5, float("nan"), "", "x y", [], [0.5], [[]], [3, 4], {"zzz": 1}, [{"zzz": 1}])


@pytest.mark.parametrize("key", [*known_keys(), "wandb", "orchestrator.train"])
def test_no_refusal_speaks_in_the_words_of_a_library(key: str):
    said = [told for value in HOSTILE if (told := refusal(key, value))]

    assert said
    assert not [told for told in said if re.search(r"Input|should|validation|instance of|\^", told)]


def refusal(key: str, value: object) -> str | None:
    try:
        load_config("tiny", {key: value})
    except ConfigError as error:
        return error.message
    return None


def test_all_problems_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        load_config("tiny", {"seed": -1, "max_steps": 0})

    assert len(caught.value.message.splitlines()) == 2


def test_a_missing_file_is_refused_with_what_could_be_given(outputs: Path):
    with pytest.raises(ConfigError, match=r"no configuration at 'nowhere\.toml'") as caught:
        load_config("nowhere.toml")

    assert caught.value.look == outputs
    assert "tiny, guide" in caught.value.hint


@pytest.mark.parametrize("content", [b"max_steps = \n", b"= 3\n", b"\xff\xfe\x00", b"[a\n"])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: bytes):
    path = tmp_path / "rl.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    assert caught.value.look == path


def test_an_unknown_preset_in_a_file_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown preset 'huge'"):
        load_config(written(tmp_path, 'preset = "huge"\n'))


def test_a_value_where_a_table_belongs_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="trainer = 3"):
        load_config(written(tmp_path, "trainer = 3\n"))


@pytest.mark.parametrize(
    "toml",
    [
        "orchestrator.batch_size = 32\ntrainer.optim.lr = 1e-3\n",
        "orchestrator.train.sampling.temperature = 0.9\n",
        "orchestrator = {batch_size = 32, train = {sampling = {temperature = 0.9}}}\n",
        "[orchestrator]\ntrain.sampling.temperature = 0.9\n",
        "max_steps = 3\n[zzz]\na = 1\n",
        "model = 'x'\n",
    ],
)
def test_a_file_is_changed_well_or_not_at_all(tmp_path: Path, toml: str):
    """TOML can say the same in many ways, not all of which survive an edit in place."""
    path = tmp_path / "rl.toml"
    path.write_text(toml)
    wanted = from_preset("tiny").replace({"seed": 4})

    try:
        write_config(wanted, path)
        expected = wanted
    except ConfigError:
        expected = toml

    assert expected in (path.read_text(), load_config(path) if expected is wanted else None)


@pytest.mark.parametrize("where", ["missing/rl.toml", ".", "file/rl.toml"])
def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path, where: str):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError):
        write_config(from_preset("tiny"), tmp_path / where)


@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"not = = toml", b"x = " + b"[" * 5000, b"seed = " + b"1" * 5000])
def test_a_file_that_is_no_toml_is_neither_read_nor_overwritten(tmp_path: Path, content: bytes):
    path = tmp_path / "rl.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError):
        load_config(path)
    with pytest.raises(ConfigError):
        write_config(from_preset("tiny"), path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("preset", ["['tiny']", "{a = 1}", "3", "'huge'"])
def test_a_preset_must_be_the_name_of_one(tmp_path: Path, preset: str):
    path = tmp_path / "rl.toml"
    path.write_text(f"preset = {preset}\n")

    with pytest.raises(ConfigError, match="preset"):
        load_config(path)


@pytest.mark.parametrize("name", ["a" * 300, "nul\0byte"])
def test_an_impossible_name_is_not_found(name: str):
    with pytest.raises(ConfigError, match="no configuration"):
        load_config(name)


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluation.num_tasks": 257},
        {"evaluation.temperature": float("inf")},
        {"orchestrator.train.sampling.temperature": 1e-300},
        {"orchestrator.train.env": [{"id": "nosuch"}]},
        {"orchestrator.train.env": [{"id": "reverse-text", "args": {"dataset": "zzz"}}]},
        {"max_steps": 10**26},
        {"time_limit_s": float("nan")},
        {"preset": ["tiny"]},
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(changes: dict):
    with pytest.raises(ConfigError):
        from_preset("tiny").replace(changes)


def test_as_many_texts_may_be_evaluated_as_are_held_out():
    assert from_preset("tiny").replace({"evaluation.num_tasks": len(load_texts("heldout"))})


# ------------------------------------------------------------------------------------------- what somebody wrote there


def test_a_file_with_other_values_is_not_written_over(tmp_path: Path):
    path = written(tmp_path, "max_steps = 5  # mine\n")

    with pytest.raises(ConfigError, match="other values is there: max_steps = 5") as refused:
        write_config(from_preset("guide"), path, over=from_preset("guide"))

    assert path.read_text(encoding="utf-8") == "max_steps = 5  # mine\n"
    assert refused.value.look == path
    assert f"rlguide config {path} --set" in refused.value.hint


@pytest.mark.parametrize("held", ["", "seed = 4\n"], ids=["what was read there", "what is to be written"])
def test_a_file_that_holds_what_is_known_is_changed_in_place(tmp_path: Path, held: str):
    path = written(tmp_path, f"# mine\n{held}")

    write_config(load_config(path).replace({"seed": 4}), path, over=from_preset("tiny"))

    assert path.read_text(encoding="utf-8").startswith("# mine\n")
    assert load_config(path).seed == 4


def test_a_run_whose_configuration_was_edited_keeps_the_edit_in_a_copy(outputs: Path):
    files = RunFiles(outputs / "one")
    files.directory.mkdir(parents=True)
    kept = []
    for seed in (3, 4):
        files.config.write_text(f"seed = {seed}  # mine\n", encoding="utf-8")
        kept.append(save_config(from_preset("tiny"), files))

    assert [path.read_text(encoding="utf-8") for path in kept] == ["seed = 3  # mine\n", "seed = 4  # mine\n"]
    assert load_config("one") == from_preset("tiny")


def test_a_configuration_that_says_the_same_already_is_left_as_it_stands(outputs: Path):
    files = RunFiles(outputs / "one")
    files.directory.mkdir(parents=True)
    files.config.write_text("seed = 0  # mine\n", encoding="utf-8")

    assert save_config(from_preset("tiny"), files) is None
    assert files.config.read_text(encoding="utf-8") == "seed = 0  # mine\n"
