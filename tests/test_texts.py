"""The frozen texts: what they are made of, that they never change, and that splits never mix."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlguide.environment import generator
from rlguide.environment.texts import TEXTS_SHA256, load_texts
from rlguide.errors import RlguideError

ROOT = Path(__file__).resolve().parents[1]


def pythons() -> list[str]:
    """This interpreter and every other supported one on the path that starts (a version manager leaves empty names)."""
    found = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13)]
    return [
        sys.executable,
        *(path for path in found if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0),
    ]


@pytest.mark.parametrize("python", pythons())
def test_every_python_makes_the_frozen_files_byte_for_byte(python: str) -> None:
    code = "from rlguide.environment import generator; print(*generator.frozen_files().values(), sep='', end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}

    made = subprocess.run([python, "-c", code], env=environment, capture_output=True, cwd=ROOT)

    assert made.stdout == b"".join(path.read_bytes() for path in generator.FILES.values()), made.stderr


def test_splits_have_their_stated_sizes_and_share_no_text() -> None:
    train, heldout = load_texts("train"), load_texts("heldout")

    assert (len(train), len(heldout)) == (1000, 256)
    assert len({*train, *heldout}) == 1256


def test_texts_are_short_printable_and_without_stray_blanks() -> None:
    for text in (*load_texts("train"), *load_texts("heldout")):
        assert 16 <= len(text) <= 56
        assert re.fullmatch(r"[!-~]+( [!-~]+)*", text)


def test_mean_length_is_about_36_because_it_decides_the_time_of_a_step() -> None:
    for split in ("train", "heldout"):
        texts = load_texts(split)
        assert 35 < sum(map(len, texts)) / len(texts) < 37.5


def test_guide_sentence_is_in_no_split() -> None:
    assert generator.GUIDE_SENTENCE not in (*load_texts("train"), *load_texts("heldout"))


def test_changed_file_is_refused_with_both_checksums(tmp_path: Path) -> None:
    changed = tmp_path / "texts.jsonl"
    changed.write_bytes(generator.FILES["heldout"].read_bytes() + b"\n")

    with pytest.raises(RlguideError, match=f"not {TEXTS_SHA256['heldout'][:12]}") as refusal:
        load_texts("heldout", changed)

    assert refusal.value.look == changed
    assert "generator" in str(refusal.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RlguideError, match=r"nowhere\.jsonl"):
        load_texts("train", tmp_path / "nowhere.jsonl")
