"""What W&B's library would print and write when prime-rl reports to it. Nothing leaves the machine."""

import json
import os
from pathlib import Path
from time import strftime

from prime_rl_stand_in.settings import Settings

RUN_ID = os.urandom(4).hex()


def start(settings: Settings, folder: Path) -> None:
    """Begin a run of W&B. Raises `RuntimeError` without a key where one is needed."""
    asked = settings.get("wandb")
    if asked is None:
        return
    offline = bool(asked.get("offline"))
    if not offline and not _has_key():
        raise RuntimeError("wandb.errors.UsageError: No API key configured. Use `wandb login` to log in.")
    name = f"{'offline-' * offline}run-{strftime('%Y%m%d_%H%M%S')}-{RUN_ID}"
    (folder / "wandb" / name).mkdir(parents=True, exist_ok=True)
    (folder / "wandb" / name / f"run-{RUN_ID}.wandb").write_bytes(b":W&B\x00stand-in")
    print("wandb: Tracking run with wandb version 0.26.1")
    if offline:
        print("wandb: W&B syncing is set to `offline` in this directory.")
    else:
        host = os.environ.get("WANDB_BASE_URL", "https://wandb.ai")
        print(f"wandb: 🚀 View run at {host}/stand-in/{asked['project']}/runs/{RUN_ID}")
    print(f"wandb: Run data is saved locally in {folder / 'wandb' / name}", flush=True)


def finish(settings: Settings, folder: Path) -> None:
    """The summary, whose words look like metrics, and are none."""
    if "wandb" not in settings:
        return
    lines = ("", "Run history:", "   loss/mean ▂▂▁▁▂▄▄▆▃▆", "", "Run summary:", "   loss/mean -0.00015", "   reward 1")
    print("\n".join(f"wandb: {line}" for line in lines), flush=True)


def save_final_summary(settings: Settings, folder: Path) -> None:
    if "wandb" in settings:
        summary = folder / f"run-{RUN_ID}" / "final_summary.json"
        summary.parent.mkdir(parents=True, exist_ok=True)
        summary.write_text(json.dumps({"reward/all/mean": 1.0, "step": 19}))


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY", "").strip():
        return True
    from netrc import NetrcParseError, netrc  # only here: it takes as long to load as half of the rest

    try:
        return netrc(os.environ.get("NETRC")).authenticators("api.wandb.ai") is not None
    except (OSError, NetrcParseError):
        return False
