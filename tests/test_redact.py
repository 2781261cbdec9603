"""Secrets are taken out of text by what their variables are called."""

import os
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from rlguide.redact import BLOCK_BYTES, looks_secret, redact_file, redact_files, redacted


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "HF_TOKEN", "hf_token", "MY_SECRET", "DB_PASSWORD", "apikey"])
def test_a_secret_is_known_by_its_name(name: str):
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["max_steps", "TOKENIZERS_PARALLELISM", "KEYBOARD", "wandb_mode", "max_stepz"])
def test_other_names_are_no_secrets(name: str):
    assert not looks_secret(name)


def test_a_secret_is_replaced_by_its_name_wherever_it_stands():
    environment = {"HF_TOKEN": "hf_abcdefgh\n", "MAX_STEPS": "hf_abcdefgh0", "A_KEY": "true"}

    assert redacted("https://x:hf_abcdefgh@host is true", environment) == "https://x:[HF_TOKEN]@host is true"


def test_where_a_secret_is_kept_is_none():
    environment = {"HF_TOKEN_PATH": "/srv/people/ada/token", "WANDB_IDENTITY_TOKEN_FILE": "/srv/people/ada/identity"}

    assert redacted("from /srv/people/ada/token, /srv/people/ada/identity", environment).count("ada") == 2


def test_a_file_is_rewritten_only_when_it_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    holding, clean = tmp_path / "a", tmp_path / "b"
    holding.write_text("x hf_abcdefgh y")
    clean.write_text("x")
    before = clean.stat()

    redact_file(holding)
    redact_file(clean)
    redact_file(tmp_path / "absent")

    assert holding.read_text() == "x [HF_TOKEN]* y"
    assert clean.stat() == before
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("secret", "text", "clean"),
    [
        ('pass"w\\ord', r'{"a": "pass\"w\\ord"}', '{"a": "[A_KEY]"}'),
        ("pass'\\word", 'KeyError("pass\'\\\\word")', 'KeyError("[A_KEY]")'),
        ("pass<word>", "<p>pass&lt;word&gt;</p>", "<p>[A_KEY]</p>"),
        ("pass/word", "http://user:pass%2Fword@host", "http://user:[A_KEY]@host"),
        ("pass/word", "https://host/pass/word?a=1", "https://host/[A_KEY]?a=1"),
        ("pass word/", "https://host/pass%20word/x", "https://host/[A_KEY]x"),
        ("first line\nsecond line\n", "1: first line\n2: second line", "1: [A_KEY]\n2: [A_KEY]"),
        ("hf_abcdefgh", "x hf_abc\ndefgh y\n", "x [A_KEY]\n y\n"),
        ("hf_abcdefgh", "x hf_a  \r\n    bcdef\n\ngh y", "x [A_KEY]\n\n\n y"),
        ("hf_abcdefgh", "│ key hf_abc │\n│ defgh      │", "│ key [A_KEY]\n      │"),
        ("hf-2024-abcdefgh", "hf-\x1b[1;36m2024\x1b[0m-abcdefgh\x1b[0m", "[A_KEY]\x1b[0m"),
        ("hf_abcdefgh", " 5%|hf_abcd\refgh", " 5%|[A_KEY]"),
        ("hf_abcdefgh", "\ud800 hf_abcdefgh", "\ud800 [A_KEY]"),
    ],
)
def test_a_secret_is_found_as_other_formats_write_it(secret: str, text: str, clean: str):
    assert redacted(text, {"A_KEY": secret}) == clean


@pytest.mark.parametrize("before", ["", "a", "me", "api:", "user:"])
@pytest.mark.parametrize("after", ["", "\n", "&b", "&c="])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_secret_is_found_in_base64_wherever_it_stands(before: str, after: str, encode: Callable[[bytes], bytes]):
    secret = "pass?>word/~~~"
    header = encode(f"{before}{secret}{after}".encode()).decode()

    clean = redacted(f"Authorization: Basic {header}", {"A_KEY": secret})

    assert "[A_KEY]" in clean
    assert len(clean) - len("Authorization: Basic [A_KEY]") < 4 * (len(before) + len(after) + 3) / 3 + 3


def test_a_secret_that_another_begins_with_leaves_nothing_of_the_longer_one():
    assert redacted("abcdefgh-rest", {"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-rest"}) == "[B_KEY]"


def test_a_file_keeps_its_inode_and_every_other_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    log = tmp_path / "a.log"
    log.write_bytes(b"\r 5%\r\n\xff\0 hf_abcdefgh")

    with log.open("ab") as writer:
        redact_file(log)
        writer.write(b" goes on")

    assert log.read_bytes() == b"\r 5%\r\n\xff\0 [HF_TOKEN]* goes on"


@pytest.mark.parametrize("before_the_border", [0, 1, 5, 10, 11])
def test_a_secret_over_the_border_of_two_blocks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_the_border: int
):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    log = tmp_path / "a.log"
    before = b"y" * (BLOCK_BYTES - before_the_border)
    log.write_bytes(before + b"hf_abcd\nefgh" + before)

    redact_file(log)

    assert log.read_bytes() == before + b"*******\n****" + before


def test_a_large_file_is_cleaned_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        for _ in range(20):
            file.write(b"no secret\n" * (BLOCK_BYTES // 10))
        file.write(b"hf_abcdefgh")
    tracemalloc.start()

    redact_file(log)

    assert tracemalloc.get_traced_memory()[1] < 8 * BLOCK_BYTES
    tracemalloc.stop()
    with log.open("rb") as file:
        file.seek(-11, os.SEEK_END)
        assert file.read() == b"[HF_TOKEN]*"


@pytest.mark.parametrize(("secret", "covered"), [("hf_abcdefgh", "[HF_TOKEN]*"), ("hf_abcde", "********")])
def test_what_covers_a_secret_in_a_file_is_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str, covered: str
):
    monkeypatch.setenv("HF_TOKEN", secret)
    (tmp_path / "a").write_text(f"x {secret} y")

    redact_file(tmp_path / "a")

    assert (tmp_path / "a").read_text() == f"x {covered} y"


def test_a_folder_is_cleaned_save_files_that_are_no_text_and_what_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    for path in (elsewhere, deep / "text.jsonl", folder / "odd.log"):
        path.write_bytes(b"hf_abcdefgh\0" if path.suffix == ".log" else b"hf_abcdefgh")
    (folder / "weights.bin").write_bytes(b"\0hf_abcdefgh")
    (folder / "link").symlink_to(elsewhere)

    redact_files(folder)

    assert (deep / "text.jsonl").read_text() == "[HF_TOKEN]*"
    assert (folder / "odd.log").read_bytes() == b"[HF_TOKEN]*\0"
    assert (folder / "weights.bin").read_bytes() == b"\0hf_abcdefgh"
    assert elsewhere.read_text() == "hf_abcdefgh"
