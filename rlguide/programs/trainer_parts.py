"""What the training program adds to TRL's trainer: rewards from the environment, files, saving and stopping.

Part of `rlguide.programs.train_trl`; starts nothing itself.
"""

import asyncio
import json
import logging
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import trl
import verifiers
from transformers import TrainerCallback

from rlguide.environment.reward import right_form

CHECKPOINT = "checkpoint-"  # what transformers calls a folder it is still writing to
MARKER = "STABLE"


class Scorer:
    """TRL's reward function: the environment's own rubric, one group at a time; keeps every rollout in a file."""

    __name__ = "reward"

    def __init__(self, rubric: verifiers.Rubric, group_size: int, folder: Path):
        self.rubric = rubric
        self.group_size = group_size
        self.folder = folder
        self.right_form = 0.0
        self.errors = CountErrors()
        logging.getLogger("verifiers").addHandler(
            self.errors
        )  # a rubric turns an exception into reward 0 and a log line

    def __call__(
        self, *, prompts: list[Any], completions: list[Any], answer: list[str], trainer_state: Any, **_: Any
    ) -> list[float]:
        """Rewards, one a completion, shape (batch,); completions of one group stand side by side."""
        states = [
            verifiers.State(prompt=prompt, completion=completion, answer=truth, trajectory=[], timing={}, info={})
            for prompt, completion, truth in zip(prompts, completions, answer, strict=True)
        ]
        asyncio.run(self._score(states))
        texts = [completion[0]["content"] for completion in completions]
        self.right_form = sum(map(right_form, texts)) / len(texts)
        rewards = [state["reward"] for state in states]
        self._write(trainer_state.global_step, prompts, texts, rewards)
        return rewards

    async def _score(self, states: list[verifiers.State]) -> None:
        for start in range(0, len(states), self.group_size):
            await self.rubric.score_group(states[start : start + self.group_size])

    def _write(self, step: int, prompts: list[Any], completions: list[str], rewards: list[float]) -> None:
        folder = self.folder / f"step_{step}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {"step": step, "text": prompt[-1]["content"], "completion": text, "reward": reward, "advantage": advantage}
            for prompt, text, reward, advantage in zip(
                prompts, completions, rewards, self._advantages(rewards), strict=True
            )
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "train_rollouts.jsonl").write_text(lines, encoding="utf-8")

    def _advantages(self, rewards: list[float]) -> list[float]:
        """Reward minus the mean of its group: what the trainer computes with `scale_rewards="none"`."""
        groups = (rewards[start : start + self.group_size] for start in range(0, len(rewards), self.group_size))
        return [reward - sum(group) / len(group) for group in groups for reward in group]


class CountErrors(logging.Handler):
    """Counts the errors that a logger is given."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1

    def take(self) -> int:
        """The number since the last call."""
        count, self.count = self.count, 0
        return count


class Reporter(TrainerCallback):
    """Writes one line of metrics a step, for the supervisor, and one a reader understands, for the log."""

    def __init__(self, path: Path, scorer: Scorer):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.scorer = scorer
        self.started = 0.0
        self.tokens = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        if "reward" not in logs:  # the summary at the end of training
            return
        seconds = time.perf_counter() - self.started
        row = self._row(state.global_step, logs, seconds)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"step {row['step']:>3}  reward {row['reward']:.4f}  right form {row['right_form']:.0%}  "
            f"completion {row['completion_tokens']:.0f} tokens  {seconds:.1f} s",
            flush=True,
        )

    def _row(self, updates: int, logs: dict[str, Any], seconds: float) -> dict[str, Any]:
        new_tokens = logs["num_tokens"] - self.tokens
        self.tokens = logs["num_tokens"]
        return {
            "step": updates - 1,
            "completed_updates": updates,
            "seconds": seconds,
            "reward": logs["reward"],
            "reward_std": logs["reward_std"],
            "right_form": self.scorer.right_form,
            "degenerate_groups": logs["frac_reward_zero_std"],
            "reward_errors": self.scorer.errors.take(),
            "completion_tokens": logs["completions/mean_length"],
            "truncated": logs["completions/clipped_ratio"],
            "loss": logs["loss"],
            "entropy": logs["entropy"],
            "grad_norm": logs["grad_norm"],
            "lr": logs["learning_rate"],
            "tokens_per_s": new_tokens / seconds,
            "peak_memory_gib": peak_memory_gib(),
        }


class Stopper(TrainerCallback):
    """Ends training after the step under way when asked by SIGTERM, or when the supervisor is gone; saves first."""

    def __init__(self) -> None:
        self.asked = False
        self.parent = os.getppid()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        # Not earlier: before training there is nothing to save, and loading an environment sets verifiers' own handler.
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: Any) -> None:
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        last = state.global_step >= state.max_steps
        stop = self.asked or os.getppid() != self.parent
        if stop and not last:
            print(f"asked to stop after {state.global_step} updates: saving", flush=True)
            control.should_training_stop = True
        if stop or last:
            control.should_save = True


class Saver(TrainerCallback):
    """After each checkpoint: gives it its final name, and exports servable weights beside it."""

    def __init__(self, trainer: trl.GRPOTrainer, output_dir: Path):
        self.trainer = trainer
        self.output_dir = output_dir

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = f"step_{state.global_step}"
        checkpoints = self.output_dir / "checkpoints"
        replace_folder(checkpoints / f"{CHECKPOINT}{state.global_step}", checkpoints / step)
        weights = self.output_dir / "weights" / step
        shutil.rmtree(weights, ignore_errors=True)
        self.trainer.accelerator.unwrap_model(self.trainer.model).save_pretrained(weights)
        self.trainer.processing_class.save_pretrained(weights)
        (weights / MARKER).touch()


def replace_folder(source: Path, target: Path) -> None:
    """Put `source` where `target` is; the name `target` never stands for something half-written."""
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)


def peak_memory_gib() -> float:
    """Most memory used so far: on the GPU when there is one in use, else resident."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
