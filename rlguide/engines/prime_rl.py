"""What prime-rl is at the run guide's release: its configuration file, and where it puts things."""

from pathlib import Path
from typing import Any

import tomlkit

from rlguide.config import RunConfig
from rlguide.records import Layout, MetricSource

ENGINE = Path("engine")
LOGS = ENGINE / "logs"
LAYOUT = Layout(
    logs={name: LOGS / f"{name}.log" for name in ("launcher", "orchestrator", "trainer", "inference")},
    rollouts=ENGINE / "run_default" / "rollouts",
    rollouts_file="train_rollouts.jsonl",
    checkpoints=ENGINE / "checkpoints",
    weights=ENGINE / "weights",
    weights_marker="STABLE",
)
METRICS = tuple(
    MetricSource(component=name, path=LAYOUT.logs[name], dialect=f"prime-rl-0.5 {name}")
    for name in ("orchestrator", "trainer")
)


def rl_toml(config: RunConfig) -> str:
    """The text of prime-rl's `rl.toml` for `config`, in the order of the run guide's own.

    W&B that is off has no table; offline W&B is not shared, because that release refuses the two together.
    """
    orchestrator = config.orchestrator
    wandb: dict[str, Any] = {"project": config.wandb.project, "name": config.wandb.name}
    if config.wandb.mode == "offline":
        wandb |= {"shared": False, "offline": True}
    sampling: dict[str, Any] = {"max_completion_tokens": config.max_completion_tokens}
    if orchestrator.train.sampling.temperature != 1:
        sampling["temperature"] = orchestrator.train.sampling.temperature
    tables: dict[str, Any] = {
        "max_steps": config.max_steps,
        "seq_len": config.seq_len,
        "model": {"name": config.model.name},
        "wandb": wandb,
        "orchestrator": {
            "batch_size": orchestrator.batch_size,
            "rollouts_per_example": orchestrator.rollouts_per_example,
            "train": {"sampling": sampling, "env": [{"id": config.environment.id}]},
        },
        "trainer": {"optim": {"lr": config.trainer.optim.lr}},
        "ckpt": {} if config.ckpt.interval is None else {"interval": config.ckpt.interval},
        "inference": {},
    }
    if config.wandb.mode == "off":
        del tables["wandb"]
    return tomlkit.dumps(tables)
