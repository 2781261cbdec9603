"""The stand-in for `rl`: checks, writes the parts' configurations, starts the parts, and ends them all together."""

import os
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from prime_rl_stand_in import keys
from prime_rl_stand_in.behaviour import begin, die_at, hang_if_told, hear_sigterm
from prime_rl_stand_in.logger import Logger
from prime_rl_stand_in.parts import DEPLOYMENT, parts_of
from prime_rl_stand_in.processes import POLL_S, Children, physical_gpus, require_free
from prime_rl_stand_in.settings import Refused, Settings, read, refuse, to_toml
from prime_rl_stand_in.trainer import newest_step, steps_in

STEP_FOLDERS = ("rollouts", "run_default/rollouts", "run_default/broadcasts")
FOLLOW = "tail -F '{}' | sed -u 's/^\\[trainer[0-9]*\\]://'"


def main() -> int:
    begin("rl", "PRIME-RL::Launcher")
    given = read(sys.argv[1:], keys.RL, "RLConfig")
    try:
        parts = parts_of(given)
    except Refused as error:
        refuse(error)
    shared = given.get("log", {})
    log = Logger(level=shared.get("level", "info"), as_json=shared.get("json_logging", False))
    output = Path(parts["trainer"]["output_dir"])
    _prepare(output, given, log)
    if not given.get("dry_run"):
        _find_model(parts["trainer"]["model"]["name"], log)
    configs = output / "configs"
    configs.mkdir(exist_ok=True)
    for name, part in parts.items():
        (configs / f"{name}.toml").write_text(to_toml(part))
    log.info(f"Wrote subconfigs to {configs}")
    if given.get("dry_run"):
        log.success("Dry run complete. To start an RL run locally, remove --dry-run from your command.")
        return 0
    gpus = _divide_gpus(given, log)
    log.info("Starting RL run")
    require_free([gpu for part in gpus.values() for gpu in part])
    _require_one_port(parts)
    die_at("rl", "ready")
    return _run(parts, gpus, output, log)


def _prepare(output: Path, given: Settings, log: Logger) -> None:
    """Refuse a folder with checkpoints of another run, or empty it, and remove what lies beyond the first step."""
    resume_step = given.get("ckpt", {}).get("resume_step")
    checkpoints = output / "checkpoints"
    if resume_step is None and given.get("clean_output_dir") and not os.environ.get("NEVER_CLEAN_OUTPUT_DIR"):
        log.warning(f"Cleaning existing directory: {output}")
        shutil.rmtree(output, ignore_errors=True)
    elif resume_step is None and checkpoints.is_dir() and any(checkpoints.iterdir()):
        raise FileExistsError(
            f"Directory '{output}' holds checkpoints of a previous run: resume it with ckpt.resume_step=-1 "
            "(--ckpt.resume-step -1), delete it with clean_output_dir=true (--clean-output-dir), or use another one."
        )
    output.mkdir(parents=True, exist_ok=True)
    last = newest_step(checkpoints, log) if resume_step == -1 else resume_step
    if last is None:
        log.info("Training from scratch, cleaning any stale rollouts and broadcasts")
    else:
        log.info(f"Resuming from step {last}, cleaning future rollouts and broadcasts")
    for folder in (output / name for name in STEP_FOLDERS):
        for step in steps_in(folder):
            if step > (-1 if last is None else last):
                shutil.rmtree(folder / f"step_{step}")


def _find_model(name: str, log: Logger) -> None:
    if Path(name).exists():
        log.info(f"Model {name} found at local path, skipping download")
        return
    log.info(f"Pre-downloading model {name}")
    cache = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser() / "hub"
    if os.environ.get("HF_HUB_OFFLINE") == "1" and not (cache / f"models--{name.replace('/', '--')}").is_dir():
        raise FileNotFoundError(f"Cannot find an appropriate cached snapshot folder for {name} (offline mode)")


def _divide_gpus(given: Settings, log: Logger) -> dict[str, list[int]]:
    deployment = DEPLOYMENT | given.get("deployment", {})
    number = deployment["num_infer_gpus"] if "inference" in given else 0
    wanted = number + deployment["num_train_gpus"]
    gpus = physical_gpus()
    if wanted > len(gpus):
        there = f"{len(gpus)} physical GPU(s) are available: {gpus}"
        raise ValueError(f"Requested {wanted} GPUs via deployment settings, but only {there}")
    log.info(f"Using local->physical GPU mapping: {dict(enumerate(gpus[:wanted]))}")
    return {"inference": gpus[:number], "trainer": gpus[number:wanted]}


def _require_one_port(parts: dict[str, Settings]) -> None:
    if "inference" not in parts:
        return
    asked = urlsplit(parts["orchestrator"]["client"]["base_url"][0]).port
    served = parts["inference"]["server"]["port"]
    if asked != served:
        raise ValueError(
            f"orchestrator.client.base_url port ({asked}) does not match inference.server.port ({served})."
        )


def _run(parts: dict[str, Settings], gpus: dict[str, list[int]], output: Path, log: Logger) -> int:
    children = Children(log)

    def give_up() -> None:
        log.warning("Received SIGTERM, terminating all processes...")
        children.end()
        os._exit(1)

    (output / "logs").mkdir(exist_ok=True)
    hear_sigterm("rl", give_up)
    try:
        _start_all(children, parts, gpus, output, log)
        return _watch(children, log)
    except KeyboardInterrupt:
        log.warning("Received interrupt signal, terminating all processes...")
        children.end()
        return 1
    except Exception as error:
        log.error(f"Error occurred: {error}")
        children.end()
        raise


def _start_all(
    children: Children, parts: dict[str, Settings], gpus: dict[str, list[int]], output: Path, log: Logger
) -> None:
    configs, logs = output / "configs", output / "logs"
    visible = {part: ",".join(map(str, numbers)) for part, numbers in gpus.items()}
    told = {name: " ".join(map(str, numbers)) for name, numbers in gpus.items()}
    if "inference" in parts:
        log.info(f"Starting inference on GPU(s) {told['inference']}")
        argv = ["inference", "@", str(configs / "inference.toml")]
        children.start("inference", argv, logs / "inference.log", CUDA_VISIBLE_DEVICES=visible["inference"])
    else:
        log.warning("No inference config specified, skipping starting inference server.")
    log.info("Starting orchestrator process")
    argv = ["orchestrator", "@", str(configs / "orchestrator.toml")]
    children.start("orchestrator", argv, logs / "orchestrator.log", LOGURU_FORCE_COLORS="1")
    log.info(f"Starting trainer on GPU(s) {told['trainer']}")
    argv = [
        "torchrun", "--role=trainer", "--rdzv-endpoint=localhost:0", f"--rdzv-id={os.urandom(16).hex()}",
        f"--log-dir={logs / 'trainer' / 'torchrun'}", "--local-ranks-filter=0", "--redirect=3", "--tee=3",
        f"--nproc-per-node={len(gpus['trainer'])}", "-m", "prime_rl.trainer.rl.train",
        "@", str(configs / "trainer.toml"),
    ]  # fmt: skip
    env = {"CUDA_VISIBLE_DEVICES": visible["trainer"], "PYTHONUNBUFFERED": "1", "LOGURU_FORCE_COLORS": "1"}
    children.start("trainer", argv, logs / "trainer.log", **env)
    log.success("Startup complete. Showing trainer logs...")
    children.start(None, FOLLOW.format(logs / "trainer.log"), None)


def _watch(children: Children, log: Logger) -> int:
    while not children.are_done("orchestrator", "trainer"):
        if failed := children.failed():
            name, code = failed
            log.error(f"Error: {name.capitalize()} failed with exit code {code}")
            log.error("Terminating all processes...")
            children.end()
            return 1
        time.sleep(POLL_S)
    for name in ("orchestrator", "trainer"):
        if code := children.named[name].returncode:
            log.error(f"{name.capitalize()} failed with exit code {code}")
            children.end()
            return 1
    log.success("RL training finished!")
    die_at("rl", "end")
    hang_if_told("rl")
    children.end()
    return 0
