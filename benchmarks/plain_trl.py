"""What a user would write without us: the plain TRL script that benchmarks compare with.

    python plain_trl.py CHECKPOINT PROMPTS.txt --steps 20 --lr 3e-4 --seed 0

PROMPTS.txt holds one text to reverse a line. Prints one line a step (reward, mean completion length in tokens, seconds)
and the totals. Settings are TRL's defaults except for what is named below. CPU, float32.
"""

import argparse
import os
import re
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
STARTED = time.perf_counter()

from difflib import SequenceMatcher  # noqa: E402

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

SYSTEM = "Reverse the text character-by-character. Put your answer in <reversed_text> tags."
TAG = re.compile(r"<reversed_text>(.*?)</reversed_text>", re.DOTALL)


def similarity(completions, answer, **_):
    """Rewards in [0, 1], one a completion: difflib's ratio of the tagged answer to the true reversal."""
    rewards = []
    for completion, truth in zip(completions, answer, strict=True):
        found = TAG.search(completion[0]["content"])
        rewards.append(SequenceMatcher(None, found.group(1).strip() if found else "", truth).ratio())
    return rewards


class PrintSteps(TrainerCallback):
    def __init__(self):
        self.last = time.perf_counter()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "reward" in logs:
            now = time.perf_counter()
            print(
                f"step {state.global_step} reward {logs['reward']:.4f} "
                f"length {logs['completions/mean_length']:.1f} seconds {now - self.last:.2f}",
                flush=True,
            )
            self.last = now


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("prompts")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-completion-tokens", type=int, default=96)
    options = parser.parse_args()

    torch.set_num_threads(os.cpu_count())
    texts = [line for line in Path(options.prompts).read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [
        {"prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}], "answer": text[::-1]}
        for text in texts
    ]
    config = GRPOConfig(
        output_dir="plain-trl",
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=128,
        num_generations=16,
        max_completion_length=options.max_completion_tokens,
        learning_rate=options.lr,
        max_steps=options.steps,
        lr_scheduler_type="constant",
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=options.seed,
    )
    steps = PrintSteps()
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(options.checkpoint, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(options.checkpoint, padding_side="left"),
        reward_funcs=similarity,
        args=config,
        train_dataset=Dataset.from_list(rows),
        callbacks=[steps],
    )
    ready = time.perf_counter()
    steps.last = ready
    trainer.train()
    done = time.perf_counter()
    print(f"start-up {ready - STARTED:.1f} s, training {done - ready:.1f} s, total {done - STARTED:.1f} s")


if __name__ == "__main__":
    main()
