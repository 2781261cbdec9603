"""Makes the warm start as its options say: supervised fine-tuning from random weights.

Part of `rlguide.programs.warm_start`; the only one of its parts that loads torch.
"""

import json
import platform
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from types import SimpleNamespace

import datasets
import torch
from transformers import PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

from rlguide.environment.reward import prompt_messages
from rlguide.programs.behaviours import BEHAVIOURS, draw_behaviour, practice_text
from rlguide.programs.policy_measurement import measure
from rlguide.programs.shape import Shape
from rlguide.programs.tiny_policy import build_model, build_tokenizer, sampling_defaults

IGNORED = -100
"""The label of tokens that carry no loss, by torch's convention."""


def make(options: SimpleNamespace) -> None:
    """Train unless a finished checkpoint is named, then measure."""
    if options.measure_only is None:
        train(options)
    folder = options.measure_only or options.output
    report = measure(folder, seed=options.seed, samples_per_text=options.samples, limit=options.texts)
    write_json(folder / "measured.json", report)
    print(json.dumps(report, indent=2), flush=True)


def train(options: SimpleNamespace) -> None:
    """Trains from random weights and writes checkpoint, tokenizer and `trained.json` to `options.output`."""
    set_seed(options.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, Shape(**{size: getattr(options, size) for size in vars(Shape())}))
    weights = model.num_parameters()
    print(f"{weights:,} weights, {options.steps} steps of {options.batch_size} examples", flush=True)
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
    write_json(options.output / "trained.json", provenance(options, weights, seconds) | end_losses(trainer))


def trainer_settings(options: SimpleNamespace) -> SFTConfig:
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


def practice_dataset(tokenizer: PreTrainedTokenizerFast, options: SimpleNamespace) -> datasets.Dataset:
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


def provenance(options: SimpleNamespace, weights: int, seconds: float) -> dict[str, object]:
    """What a model card needs to say how the checkpoint was made."""
    return {
        "options": {name: value for name, value in vars(options).items() if not isinstance(value, Path | None)},
        "weights": weights,
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
