"""What prime-rl is at the run guide's release: its configuration file, and where it puts things."""

from pathlib import Path
from typing import Any

import tomlkit

from rlguide.config import RunConfig
from rlguide.records import Layout, MetricSource

DEFAULT_PORT = 8000
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


def rl_toml(config: RunConfig, policy: str) -> str:
    """The text of prime-rl's `rl.toml` for `config`, key by key as in the run guide; `policy` is a folder or Hub name.

    What `config` leaves at prime-rl's own default is not written.
    """
    orchestrator, sampling, port = config.orchestrator, config.orchestrator.train.sampling, config.inference.port
    samples: dict[str, Any] = {"max_completion_tokens": sampling.max_completion_tokens}
    if sampling.temperature != 1:
        samples["temperature"] = sampling.temperature
    sampler: dict[str, Any] = {
        "batch_size": orchestrator.batch_size,
        "rollouts_per_example": orchestrator.rollouts_per_example,
        "train": {"sampling": samples, "env": [{"id": config.environment.id}]},
    }
    if port != DEFAULT_PORT:
        sampler["client"] = {"base_url": [f"http://localhost:{port}/v1"]}
    return tomlkit.dumps(
        {
            "max_steps": config.max_steps,
            "seq_len": config.seq_len,
            "model": {"name": policy},
            **_wandb(config),
            "orchestrator": sampler,
            "trainer": {"optim": {"lr": config.trainer.optim.lr}},
            "ckpt": {} if config.ckpt.interval is None else {"interval": config.ckpt.interval},
            "inference": {} if port == DEFAULT_PORT else {"server": {"port": port}},
        }
    )


def _wandb(config: RunConfig) -> dict[str, Any]:
    """The table of W&B. Without one it is off; offline it must not be shared, which this release refuses."""
    if config.wandb.mode == "off":
        return {}
    offline = {"shared": False, "offline": True} if config.wandb.mode == "offline" else {}
    return {"wandb": {"project": config.wandb.project, "name": config.wandb.name} | offline}
