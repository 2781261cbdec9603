"""A folder that is no whole model is refused before anything starts, with what is wrong with it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlguide.engines.policy import find_policy
from rlguide.errors import ConfigError
from rlguide.paths import TINY_POLICY


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    "half a configuration": (lambda folder: cut(folder / "config.json"), "names no model_type"),
    "no model type": (lambda folder: (folder / "config.json").write_text("{}"), "names no model_type"),
    "a list": (lambda folder: (folder / "config.json").write_text("[]"), "names no model_type"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "there are no weights"),
    "cut weights": (lambda folder: cut(folder / "model.safetensors"), "model.safetensors is not whole"),
    "empty weights": (lambda folder: (folder / "model.safetensors").write_bytes(b""), "is not whole"),
    "rubbish for weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 32), "is not whole"),
    "half a header": (lambda folder: (folder / "model.safetensors").write_bytes(bytes(8) + b"{"), "is not whole"),
    "a pointer": (
        lambda folder: (folder / "model.safetensors").write_text("version of a pointer to a large file\n"),
        "is not whole",
    ),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "there is no tokenizer"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY_POLICY, tmp_path / "model"))


def test_a_whole_model_is_found(folder: Path):
    assert find_policy(str(folder)) == str(folder)


@pytest.mark.parametrize(("damage", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_model_is_named(folder: Path, damage: Callable[[Path], object], said: str):
    damage(folder)

    with pytest.raises(ConfigError, match=said) as refused:
        find_policy(str(folder))

    assert refused.value.look == folder
    assert refused.value.hint


@pytest.mark.parametrize("name", ["a" * 300, "./" + "a" * 300, "~nobody-of-that-name/x", "a\0b"])
def test_what_can_be_no_folder_is_refused_too(name: str):
    with pytest.raises(ConfigError):
        find_policy(name)
