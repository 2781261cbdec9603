import tomllib
from typing import Any

import pytest
from test_config import GUIDE_FILE

from rlguide.config import load_config
from rlguide.engines.prime_rl import rl_toml


def written(**changes: Any) -> dict[str, Any]:
    config = load_config("guide", {key.replace("__", "."): value for key, value in changes.items()})
    return tomllib.loads(rl_toml(config, config.model.name))


def test_the_guide_preset_is_the_guides_own_file_key_for_key():
    text = rl_toml(load_config("guide", {"wandb_mode": "online"}), "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT")

    assert tomllib.loads(text) == tomllib.loads(GUIDE_FILE)
    assert list(tomllib.loads(text)) == list(tomllib.loads(GUIDE_FILE))


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("off", None),
        ("online", {"project": "p", "name": "n"}),
        ("offline", {"project": "p", "name": "n", "shared": False, "offline": True}),
    ],
)
def test_wandb_is_off_without_a_table_and_not_shared_when_offline(mode: str, wanted: dict[str, Any] | None):
    assert written(wandb_mode=mode, wandb__project="p", wandb__name="n").get("wandb") == wanted


def test_the_name_at_wandb_follows_the_runs():
    assert written(wandb_mode="online", run_name="second")["wandb"]["name"] == "second"


def test_another_port_is_told_to_server_and_orchestrator():
    found = written(inference__port=8123)

    assert found["inference"] == {"server": {"port": 8123}}
    assert found["orchestrator"]["client"] == {"base_url": ["http://localhost:8123/v1"]}


def test_what_the_reader_changes_is_in_the_file():
    found = written(
        max_steps=3, seq_len=512, orchestrator__batch_size=32, trainer__optim__lr=3e-4, ckpt__interval=2,
        orchestrator__train__sampling__temperature=0.7, orchestrator__train__sampling__max_completion_tokens=96,
        evaluation__max_tokens=256,
    )  # fmt: skip

    assert (found["max_steps"], found["seq_len"], found["orchestrator"]["batch_size"]) == (3, 512, 32)
    assert found["orchestrator"]["train"]["sampling"] == {"max_completion_tokens": 96, "temperature": 0.7}
    assert (found["trainer"]["optim"]["lr"], found["ckpt"]) == (3e-4, {"interval": 2})
