"""The parts that prime-rl's launcher makes of one configuration: trainer, orchestrator, inference server."""

from pathlib import Path
from typing import Any

from prime_rl_stand_in.keys import REQUIRED
from prime_rl_stand_in.settings import Refused, Settings, merged

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
DEFAULT_URL = "http://localhost:8000/v1"
TRAINER: Settings = {
    "max_async_level": 1,
    "dist_timeout_seconds": 600,
    "model": {"name": DEFAULT_MODEL, "seq_len": 2048, "attn": "flash_attention_2", "impl": "auto"},
    "tokenizer": {"trust_remote_code": False},
    "loss": {"type": "default", "dppo_mask_low": 0.2, "dppo_mask_high": 0.2, "kl_tau": 0.001},
    "optim": {"lr": 1e-6, "weight_decay": 0.01, "max_norm": 1.0, "type": "adamw"},
    "scheduler": {"type": "constant"},
    "weight_broadcast": {"type": "filesystem"},
    "rollout_transport": {"type": "filesystem"},
    "log": {"level": "info", "json_logging": False, "ranks_filter": [0]},
}
ORCHESTRATOR: Settings = {
    "batch_size": 128,
    "rollouts_per_example": 1,
    "seq_len": 2048,
    "max_async_level": 1,
    "max_off_policy_steps": 8,
    "seed": 42,
    "train": {"num_workers": "auto", "sampling": {"temperature": 1.0, "min_tokens": 0}},
    "client": {"base_url": [DEFAULT_URL], "wait_for_ready_timeout": 1800, "api_key_var": "VLLM_API_KEY"},
    "model": {"name": DEFAULT_MODEL},
    "weight_broadcast": {"type": "filesystem"},
    "rollout_transport": {"type": "filesystem"},
    "log": {"level": "info", "vf_level": "info", "json_logging": False},
}
INFERENCE: Settings = {
    "gpu_memory_utilization": 0.9,
    "seed": 0,
    "server": {"port": 8000},
    "model": {"name": DEFAULT_MODEL, "dtype": "auto", "enforce_eager": False},
    "parallel": {"tp": 1, "dp": 1},
    "weight_broadcast": {"type": "filesystem"},
}
DEPLOYMENT: Settings = {"type": "single_node", "gpus_per_node": 8, "num_train_gpus": 1, "num_infer_gpus": 1}


def parts_of(given: Settings) -> dict[str, Settings]:
    """Trainer, orchestrator and, where there is one, inference server, each complete. Raises `Refused`."""
    _require(given)
    output = Path(given.get("output_dir", "outputs"))
    shared = _shared(given)
    trainer = merged(merged(TRAINER, shared["both"]), given["trainer"])
    orchestrator = merged(merged(ORCHESTRATOR, shared["both"]), given["orchestrator"])
    trainer |= {"output_dir": str(output)}
    orchestrator |= {"output_dir": str(output / "run_default")}
    trainer["model"] |= {"seq_len": given["trainer"].get("model", {}).get("seq_len", given.get("seq_len", 2048))}
    orchestrator["seq_len"] = given["orchestrator"].get("seq_len", given.get("seq_len", 2048))
    orchestrator["train"]["env"] = _environments(orchestrator)
    for part, suffix in ((trainer, "-trainer"), (orchestrator, "-orchestrator")):
        if wandb := given.get("wandb"):
            kept = {key: value for key, value in wandb.items() if key != "shared"}
            alone = {"name": f"{wandb['name']}{suffix}"} if "name" in wandb and not wandb.get("shared", True) else {}
            part["wandb"] = merged({"project": "prime-rl"}, kept | alone)
    parts = {"trainer": trainer, "orchestrator": orchestrator}
    if "inference" in given:
        parts["inference"] = merged(merged(INFERENCE, shared["model"]), given["inference"])
    _agree(parts, given)
    return parts


def _require(given: Settings) -> None:
    for name in REQUIRED:
        if name not in given:
            raise Refused(f"1 validation error for RLConfig\n{name}\n  Field required [type=missing, input_type=dict]")
    wandb = given.get("wandb", {})
    if wandb.get("offline") and wandb.get("shared", True):
        _refuse("wandb", "W&B shared mode requires server connectivity and is incompatible with offline mode")
    where = DEPLOYMENT | given.get("deployment", {})
    gpus = where["num_train_gpus"] + where["num_infer_gpus"]
    if gpus > where["gpus_per_node"]:
        _refuse("deployment", f"Total GPU count ({gpus}) exceeds gpus_per_node ({where['gpus_per_node']}).")


def _shared(given: Settings) -> dict[str, Settings]:
    both = {key: given[key] for key in ("max_steps", "max_async_level", "log", "ckpt", "tokenizer") if key in given}
    model = {"model": {"name": given["model"]["name"]}} if "name" in given.get("model", {}) else {}
    return {"both": both | model, "model": model}


def _environments(orchestrator: Settings) -> list[Settings]:
    sampling = orchestrator["train"]["sampling"]
    given = orchestrator["train"].get("env", [{"id": "reverse-text"}])
    default: dict[str, Any] = {"id": "reverse-text", "num_workers": 1, "args": {}, "sampling": sampling}
    return [merged(default, env) for env in given]


def _agree(parts: dict[str, Settings], given: Settings) -> None:
    orchestrator, trainer = parts["orchestrator"], parts["trainer"]
    if orchestrator["batch_size"] % orchestrator["rollouts_per_example"]:
        _refuse("orchestrator", "Batch size must be divisible by the number of samples per problem")
    if trainer["model"]["seq_len"] < orchestrator["seq_len"]:
        _refuse("", "Trainer model seq_len must be >= orchestrator seq_len")
    names = [env.get("name", env["id"]) for env in orchestrator["train"]["env"]]
    if len(set(names)) < len(names) or "all" in names:
        _refuse("orchestrator.train", f"Environment names must be unique, and none may be 'all': {names}")
    if given.get("weight_broadcast", {}).get("type") == "nccl" and trainer["max_async_level"] != 1:
        _refuse("", "max_async_level must be 1 for NCCL broadcast")


def _refuse(path: str, told: str) -> None:
    head = "Failed to validate config from 'merged config':\n1 validation error for RLConfig"
    raise Refused(f"{head}\n{path}\n  Value error, {told} [type=value_error, input_type=dict]")
