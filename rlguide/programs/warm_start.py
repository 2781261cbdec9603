"""Makes the tiny policy's warm start: supervised fine-tuning from random weights on a mixture of behaviours.

    python -m rlguide.programs.warm_start --output FOLDER [--steps N --hidden N …]
    python -m rlguide.programs.warm_start --measure-only FOLDER

The same on a CPU and on a GPU, in float32. Writes the checkpoint, `trained.json` (what was asked, on what hardware, how
long it took) and `measured.json` (what the policy does on held-out texts). Does no reinforcement learning.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is loaded from the Hub, so never ask it

import datasets
import torch
from transformers import PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

from rlguide.environment.reward import prompt_messages
from rlguide.programs.behaviours import BEHAVIOURS, draw_behaviour, practice_text
from rlguide.programs.policy_measurement import measure
from rlguide.programs.tiny_policy import Shape, build_model, build_tokenizer, sampling_defaults

IGNORED = -100
"""The label of tokens that carry no loss, by torch's convention."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.measure_only is None:
        train(options)
    folder = options.measure_only or options.output
    report = measure(folder, seed=options.seed, samples_per_text=options.samples)
    write_json(folder / "measured.json", report)
    print(json.dumps(report, indent=2), flush=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--output", type=Path, help="folder for the checkpoint")
    goal.add_argument(
        "--measure-only", type=Path, metavar="FOLDER", help="measure a finished checkpoint, train nothing"
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=256, help="examples a step")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--warmup-steps", type=int, default=400, help="steps until the peak; a cosine to 0 follows")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the practice texts")
    parser.add_argument("--samples", type=int, default=4, help="completions of each held-out text to measure with")
    parser.add_argument("--workers", type=int, default=min(8, (os.cpu_count() or 2) - 1), help="data processes")
    for size, default in vars(Shape()).items():
        parser.add_argument(f"--{size.replace('_', '-')}", type=int, default=default)
    for name, behaviour in BEHAVIOURS.items():
        help_text = f"weight of '{name}' (default {behaviour.share})"
        parser.add_argument(f"--{name.replace(' ', '-')}", type=float, default=behaviour.share, help=help_text)
    return parser.parse_args(arguments)


def train(options: argparse.Namespace) -> None:
    """Trains from random weights and writes checkpoint, tokenizer and `trained.json` to `options.output`."""
    set_seed(options.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, Shape(**{size: getattr(options, size) for size in vars(Shape())}))
    parameters = model.num_parameters()
    print(f"{parameters:,} parameters, {options.steps} steps of {options.batch_size} examples", flush=True)
    trainer = SFTTrainer(
        model=model,
        args=trainer_settings(options),
        processing_class=tokenizer,
        train_dataset=practice_dataset(tokenizer, options),
    )
    started = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - started
    model.config.use_cache = True  # the trainer turns it off
    model.generation_config = sampling_defaults(tokenizer)  # and adapts this to what it trained with
    model.save_pretrained(options.output)
    tokenizer.save_pretrained(options.output)
    write_json(options.output / "trained.json", provenance(options, parameters, seconds) | end_losses(trainer))


def trainer_settings(options: argparse.Namespace) -> SFTConfig:
    on_gpu = torch.cuda.is_available()
    return SFTConfig(
        output_dir=str(options.output),
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        learning_rate=options.lr,
        warmup_steps=options.warmup_steps,
        lr_scheduler_type="cosine",
        weight_decay=options.weight_decay,
        adam_beta1=0.9,
        adam_beta2=0.98,  # forgets old gradients sooner than 0.999: a short run from random weights
        max_grad_norm=1.0,
        seed=options.seed,
        use_cpu=not on_gpu,
        bf16=False,
        tf32=True if on_gpu else None,
        gradient_checkpointing=False,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},  # rows are made of tokens already
        remove_unused_columns=False,  # a row is only a number until it is looked up
        dataloader_num_workers=options.workers,
        dataloader_persistent_workers=options.workers > 0,
        dataloader_prefetch_factor=8 if options.workers > 0 else None,
        logging_steps=max(1, min(100, options.steps // 20)),
        disable_tqdm=True,
        save_strategy="no",
        report_to=[],
    )


def practice_dataset(tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> datasets.Dataset:
    """One row an example, made when it is looked up and fixed by the seed and the row's number.

    So no example comes twice, whatever the number of data processes, and none is stored.
    """
    mixture = {name: getattr(options, name.replace(" ", "_")) for name in BEHAVIOURS}
    numbers = range(options.steps * options.batch_size)
    make = partial(practice_examples, tokenizer=tokenizer, mixture=mixture, seed=options.seed)
    return datasets.Dataset.from_dict({"number": numbers}).with_transform(make)


def practice_examples(
    rows: dict[str, list[int]], tokenizer: PreTrainedTokenizerFast, mixture: dict[str, float], seed: int
) -> dict[str, list[list[int]]]:
    """Token ids of prompt and completion, and labels with loss on the completion only."""
    texts, completions = [], []
    for number in rows["number"]:
        rng = Random(seed << 40 | number)
        texts.append(practice_text(rng))
        completions.append(BEHAVIOURS[draw_behaviour(rng, mixture)].completion(texts[-1]) + tokenizer.eos_token)
    chats = tokenizer.apply_chat_template(
        [prompt_messages(text) for text in texts], tokenize=False, add_generation_prompt=True
    )
    prompts, answers = (tokenizer(strings, add_special_tokens=False)["input_ids"] for strings in (chats, completions))
    return {
        "input_ids": [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)],
        "labels": [[IGNORED] * len(prompt) + answer for prompt, answer in zip(prompts, answers, strict=True)],
    }


def provenance(options: argparse.Namespace, parameters: int, seconds: float) -> dict[str, object]:
    """What a model card needs to say how the checkpoint was made."""
    return {
        "options": {name: value for name, value in vars(options).items() if not isinstance(value, Path | None)},
        "parameters": parameters,
        "training_seconds": round(seconds, 1),
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})",
        "versions": {name: version(name) for name in ("torch", "transformers", "trl")},
        "python": platform.python_version(),
    }


def end_losses(trainer: SFTTrainer) -> dict[str, float]:
    """First and last logged loss, nats a completion token."""
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    return {"first_loss": losses[0], "last_loss": losses[-1]}


def write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
