"""Secrets are taken out of text by what their variables are called."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from rlguide.redact import looks_secret, redact_file, redact_files, redacted


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "HF_TOKEN", "hf_token", "MY_SECRET", "DB_PASSWORD", "apikey"])
def test_a_secret_is_known_by_its_name(name: str):
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["max_steps", "TOKENIZERS_PARALLELISM", "KEYBOARD", "wandb_mode", "max_stepz"])
def test_other_names_are_no_secrets(name: str):
    assert not looks_secret(name)


def test_a_secret_is_replaced_by_its_name_wherever_it_stands():
    environment = {"HF_TOKEN": "hf_abcdefgh\n", "MAX_STEPS": "hf_abcdefgh0", "A_KEY": "true"}

    assert redacted("https://x:hf_abcdefgh@host is true", environment) == "https://x:[HF_TOKEN]@host is true"


def test_a_file_is_rewritten_only_when_it_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh")
    holding, clean = tmp_path / "a", tmp_path / "b"
    holding.write_text("x hf_abcdefgh y")
    clean.write_text("x")
    before = clean.stat()

    redact_file(holding)
    redact_file(clean)
    redact_file(tmp_path / "absent")

    assert holding.read_text() == "x [HF_TOKEN] y"
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

    assert log.read_bytes() == b"\r 5%\r\n\xff\0 [HF_TOKEN] goes on"


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

    assert (deep / "text.jsonl").read_text() == "[HF_TOKEN]"
    assert (folder / "odd.log").read_bytes() == b"[HF_TOKEN]\0"
    assert (folder / "weights.bin").read_bytes() == b"\0hf_abcdefgh"
    assert elsewhere.read_text() == "hf_abcdefgh"
