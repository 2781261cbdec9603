"""Secrets are taken out of text by what their variables are called."""

from pathlib import Path

import pytest

from rlguide.redact import looks_secret, redact_file, redacted


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
