"""The stand-in for prime-rl's trainer: takes batches, tells of steps, broadcasts weights, saves checkpoints."""

import shutil
import sys
import time
from pathlib import Path
from random import Random

from prime_rl_stand_in import keys, wandb
from prime_rl_stand_in.behaviour import begin, die_at, hang_if_told, told
from prime_rl_stand_in.logger import Logger
from prime_rl_stand_in.policy import skill_after, write_config, write_tensors
from prime_rl_stand_in.settings import Settings, read

POLL_S = 0.01
MARKER = "STABLE"


def main() -> int:
    begin("trainer", "PRIME-RL::Trainer")
    import ring_flash_attn  # noqa: F401 — as the real one, whatever attention is asked for

    settings = read(sys.argv[1:], keys.TRAINER, "TrainerConfig")
    log = Logger(level=settings["log"]["level"], as_json=settings["log"]["json_logging"])
    try:
        Trainer(settings, log).train()
    except Exception:  # as the real one: told in the log, and exit code 1
        log.fatal("train")
        return 1
    return 0


class Trainer:
    """One training, from its first step or a checkpoint on."""

    def __init__(self, settings: Settings, log: Logger):
        self._settings = settings
        self._log = log
        self._output = Path(settings["output_dir"])
        self._run = self._output / "run_default"
        self._max_steps = settings.get("max_steps")
        self._interval = settings.get("ckpt", {}).get("interval")
        self._step = 0

    def train(self) -> None:
        self._begin()
        first = self._step
        while True:
            last = self._max_steps is not None and self._step >= self._max_steps
            if self._step > 0:
                self._broadcast()
            if self._interval and self._step % self._interval == 0 and self._step != first and not last:
                self._log.info(f"Saving checkpoint at step {self._step}")
                self._save_checkpoint()
                self._log.info(f"Saving weight checkpoint at step {self._step}")
                self._save_weights()
            if last:
                break
            self._do_step(is_first=self._step == first)
            self._step += 1
        if "ckpt" in self._settings:
            self._log.info("Writing final checkpoint")
            self._save_checkpoint()
            self._log.info("Writing final weight checkpoint")
            self._save_weights()
        self._log.info("Peak memory: 0.2 GiB")
        self._log.success("RL trainer finished!")
        wandb.finish(self._settings, self._output)
        die_at("trainer", "end")
        hang_if_told("trainer")

    def _begin(self) -> None:
        log, model = self._log, self._settings["model"]
        world = "World(world_size=1, rank=0, local_rank=0, local_world_size=1, num_nodes=1)"
        log.info(f"Starting RL trainer in {world} in {self._output}")
        log.info(f"Initializing monitor ({self._settings.get('wandb')})")
        wandb.start(self._settings, self._output)
        log.info(f"Initializing model (name={model['name']!r} attn={model['attn']!r})")
        time.sleep(told("trainer_start_s"))
        log.warning("Model uses tied word embeddings, so skipping the last-layer no-reshard optimization.")
        log.info(f"Initializing optimizer (lr={self._settings['optim']['lr']})")
        resume_step = self._settings.get("ckpt", {}).get("resume_step")
        if resume_step == -1:
            resume_step = newest_step(self._output / "checkpoints", log)
        if resume_step is not None:
            self._load(self._output / "checkpoints" / f"step_{resume_step}" / "trainer")
            log.info(f"Resuming training from checkpoint step {resume_step}")
            self._step = resume_step
        log.info(f"Starting from step {self._step} (total_tokens=0, total_samples=0)")
        log.info(f"Starting training loop (max_steps={self._max_steps or 'infinite'})")
        print("a compiler's warning, over\n  several lines", file=sys.stderr)
        die_at("trainer", "ready")

    def _load(self, checkpoint: Path) -> None:
        if not checkpoint.is_dir():
            raise FileNotFoundError(f"Checkpoint not found at {checkpoint}")
        (checkpoint / ".metadata").read_bytes()
        if (checkpoint / "__0_0.distcp").stat().st_size == 0:
            raise RuntimeError(f"CheckpointException: {checkpoint} cannot be read")

    def _do_step(self, *, is_first: bool) -> None:
        started = time.monotonic()
        batch = self._run / "rollouts" / f"step_{self._step}" / "train_rollouts.bin"
        while not batch.exists():
            time.sleep(POLL_S)
        packed = self._output / "rollouts" / f"step_{self._step}" / "rank_0.bin"
        packed.parent.mkdir(parents=True, exist_ok=True)
        packed.write_bytes(bytes(64))
        die_at("trainer", self._step)
        time.sleep(told("first_step_s" if is_first else "step_s"))
        seconds, chance = time.monotonic() - started, Random(self._step)
        said = {
            "Time": f"{seconds:.2f}s",
            "Loss": f"{chance.uniform(-0.002, 0.002):.4f}",
            "Entropy": f"{chance.uniform(0.04, 0.07):.4f}",
            "Mismatch KL": f"{chance.uniform(0.001, 0.02):.4f}",
            "Grad. Norm": f"{chance.uniform(0.04, 0.8):.4f}",
            "LR": f"{self._settings['optim']['lr']:.2e}",
            "Throughput": f"{chance.uniform(7000, 9000):.0f} tokens/s",
            "MFU": "0.1%",
            "Peak Mem.": "0.2 GiB",
        }
        self._log.success(" | ".join([f"Step {self._step}", *(f"{name}: {value}" for name, value in said.items())]))

    def _broadcast(self) -> None:
        folder = self._run / "broadcasts" / f"step_{self._step}"
        write_tensors(folder, self._skill())
        (folder / MARKER).touch()
        old = max(self._step - self._settings["max_async_level"] - 1, 0)
        if not (self._interval and old % self._interval == 0):
            shutil.rmtree(folder.with_name(f"step_{old}"), ignore_errors=True)

    def _save_checkpoint(self) -> None:
        folder = self._output / "checkpoints" / f"step_{self._step}" / "trainer"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__0_0.distcp").write_bytes(bytes(1024))
        time.sleep(told("save_s"))
        die_at("trainer", "checkpoint")
        (folder / ".metadata").write_bytes(b"stand-in")

    def _save_weights(self) -> None:
        folder = self._output / "weights" / f"step_{self._step}"
        write_tensors(folder, self._skill())
        time.sleep(told("save_s"))
        die_at("trainer", "weights")
        write_config(folder, self._settings["model"]["name"])
        if not told("unstable"):
            (folder / MARKER).touch()

    def _skill(self) -> float:
        return skill_after(self._step, self._max_steps or 20)


def steps_in(folder: Path) -> list[int]:
    """Numbers of the folders `step_N`, in order."""
    return sorted(int(path.name.rpartition("_")[2]) for path in folder.glob("step_*"))


def newest_step(checkpoints: Path, log: Logger) -> int | None:
    """The newest checkpoint by its name alone, complete or not."""
    if not (steps := steps_in(checkpoints)):
        log.warning(f"No checkpoints found in {checkpoints}. Starting from scratch.")
        return None
    log.info(f"Found latest checkpoint in {checkpoints}: {steps[-1]}")
    return steps[-1]
