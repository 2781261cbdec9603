"""Child program of the `trl` engine: GRPO with TRL, told what to do by a file in the guide's vocabulary.

    python -m rlguide.programs.train_trl @ rl.toml --output-dir DIR [--resume]

Writes below DIR: `logs/metrics.jsonl`, `rollouts/step_N/train_rollouts.jsonl`, `checkpoints/step_N/` and
`weights/step_N/` with the marker `STABLE` written last. Steps count from 0, as in the guide: step N samples with
the policy after N updates, and `weights/step_20` are the weights after 20 updates. SIGTERM saves and ends with 0.
"""

import argparse
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
import verifiers
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

from rlguide.programs.trainer_parts import Reporter, Saver, Scorer, Stopper


def main() -> None:
    options = _parse(sys.argv[1:])
    settings = tomllib.loads(options.config.read_text(encoding="utf-8"))
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)  # TRL's own
    datasets.disable_progress_bars()
    torch.set_num_threads(settings["trl"]["threads"])
    trainer = build_trainer(settings, options.output_dir)
    last = latest_checkpoint(options.output_dir / "checkpoints") if options.resume else None
    print(f"training {settings['model']['name']}" + (f", going on from {last.name}" if last else ""), flush=True)
    trainer.train(resume_from_checkpoint=str(last) if last else None)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train_trl", description="GRPO with TRL.")
    parser.add_argument("at", choices=["@"], help="as in the guide: `@ FILE`")
    parser.add_argument("config", type=Path)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--resume", action="store_true", help="go on from the last complete checkpoint")
    return parser.parse_args(arguments)


def build_trainer(settings: dict[str, Any], output_dir: Path) -> trl.GRPOTrainer:
    """TRL's trainer with the environment's prompts and rewards and our files."""
    policy = settings["model"]["name"]
    environment = settings["orchestrator"]["train"]["env"][0]
    env = verifiers.load_environment(environment["id"], **environment.get("args", {}))
    scorer = Scorer(env.rubric, settings["orchestrator"]["rollouts_per_example"], output_dir / "rollouts")
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(
            policy, dtype=torch.float32, attn_implementation=settings["trl"]["attention"]
        ),
        processing_class=AutoTokenizer.from_pretrained(policy, padding_side="left"),
        reward_funcs=scorer,
        args=grpo_config(settings, output_dir),
        train_dataset=env.get_dataset().select_columns(["prompt", "answer"]),
        callbacks=[Reporter(output_dir / "logs" / "metrics.jsonl", scorer), Stopper()],
    )
    trainer.add_callback(Saver(trainer, output_dir))
    trainer.remove_callback(PrinterCallback)  # `Reporter` prints what a reader wants to know
    return trainer


def grpo_config(settings: dict[str, Any], output_dir: Path) -> trl.GRPOConfig:
    """The guide's settings as TRL's. Advantages are centred but not divided by the spread, as in the guide's release
    of prime-rl; the learning rate is constant; there is no divergence term.
    """
    orchestrator, hardware = settings["orchestrator"], settings["trl"]
    sampling = orchestrator["train"]["sampling"]
    interval = settings["ckpt"].get("interval")
    on_gpu = bool(hardware["gpus"])
    vllm = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_max_model_length": settings["seq_len"],
    }
    return trl.GRPOConfig(
        output_dir=str(output_dir / "checkpoints"),
        max_steps=settings["max_steps"],
        per_device_train_batch_size=orchestrator["batch_size"],
        num_generations=orchestrator["rollouts_per_example"],
        max_completion_length=sampling["max_completion_tokens"],
        temperature=sampling["temperature"],
        learning_rate=settings["trainer"]["optim"]["lr"],
        lr_scheduler_type="constant",
        scale_rewards="none",
        beta=0.0,
        use_cpu=not on_gpu,
        bf16=hardware["precision"] == "bfloat16",
        dataloader_pin_memory=on_gpu,
        gradient_checkpointing=False,
        seed=settings["seed"],
        logging_steps=1,
        disable_tqdm=True,
        save_strategy="steps" if interval else "no",
        save_steps=interval or settings["max_steps"],
        report_to=[] if settings["wandb"]["mode"] == "off" else ["wandb"],
        run_name=settings["wandb"]["name"],
        **(vllm if hardware["vllm"] else {}),
    )


def latest_checkpoint(folder: Path) -> Path | None:
    """The complete checkpoint with the most updates; an unfinished one still has its old name."""
    return max(folder.glob("step_*"), key=lambda path: int(path.name.removeprefix("step_")), default=None)


if __name__ == "__main__":
    main()
