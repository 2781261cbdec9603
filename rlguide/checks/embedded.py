"""What the embedded engine needs: the processor or one GPU, and the packages beside rlguide."""

import sys
from functools import partial
from pathlib import Path

from rlguide.asking import Finding, Question, once
from rlguide.checks import hardware
from rlguide.checks.common import About, Needs, of_the_machine, packages, questions
from rlguide.checks.disk import Room
from rlguide.checks.memory import TINY_GIB, look_at_memory
from rlguide.config import TINY
from rlguide.engines import ENGINES
from rlguide.engines.trl import choose_gpu
from rlguide.import_trial import ImportTrial, accepted_versions, is_there, slowness
from rlguide.paths import PACKAGE
from rlguide.records import Status

IMPORTS = (
    ("torch", "accelerate", "fastapi", "uvicorn"),
    (
        "transformers:AutoModelForCausalLM,AutoTokenizer,PrinterCallback,TrainerCallback",
        "trl:GRPOConfig,GRPOTrainer",
        *("safetensors", "tokenizers", "datasets", "verifiers:.legacy", "reverse_text"),
    ),
)
"""What training, evaluation and transformers' server load, one child process a group: they end together on two cores.
Only what is named is looked up, because all of it takes three seconds more: of a fault inside TRL's trainer or
verifiers' clients of services, the metadata tell what is missing or of another version, and a run the rest."""
BESIDE = (
    *("peft", "trackio", "mlflow", "comet_ml", "weave", "bitsandbytes", "torchvision", "torchaudio", "soundfile"),
    *("sentencepiece", "scipy", "hqq", "torchao", "tabulate", "lz4", "zstandard", "torch_xla", "torch_npu"),
)
"""TRL's trainer imports these where they are installed, wanted or not: then it is tried itself. And vLLM and wandb."""
PACKAGES_GIB = 2.0
OURS = {"reverse_text": (PACKAGE / "environment" / "reverse_text", PACKAGE.parent / "reverse_text")}
"""Where the environment is in a checkout, and where in an installation; others are called like it."""


def needs(about: About) -> Needs:
    """What a run of the embedded engine needs."""
    config = about.config
    venv = Room("venv-disk", "the virtual environment", lambda: Path(sys.prefix),
                lambda: PACKAGES_GIB if ENGINES["trl"].missing(config) else 0,
                why_none="nothing is written: its packages are installed")  # fmt: skip
    accepted = once(accepted_versions)
    tracking = ["wandb"] if config.wandb.mode == "offline" or is_there("wandb") else []
    trials = [
        ImportTrial([*needed, *last], homes=OURS, accepted=accepted)
        for needed, last in zip(IMPORTS, (tracking, [f"trl.trainer.grpo_trainer?{','.join(BESIDE)}"]), strict=True)
    ]
    trials += [ImportTrial(["vllm"], accepted=accepted)] if is_there("vllm") else []
    for_gpus = [ImportTrial(["flash_attn"], accepted=accepted)] if is_there("flash_attn") else []
    imported = [*packages(trials), *packages(for_gpus, partial(_without_gpu, about))]
    return Needs(questions(about, venv, [*_hardware(about), *imported]), lambda: slowness(trials[0]))


def _hardware(about: About) -> list[Question]:
    config = about.config
    wanted = f"{TINY_GIB} GiB available" + ("" if config.model.name == TINY else ", and 16 bytes for every weight")
    no_processor = Finding(Status.PASS, "not needed: a run takes a GPU")
    return [
        of_the_machine("cores", "processor cores", "2 or more", about, hardware.look_at_cores),
        of_the_machine("memory", "memory", wanted, about,
                       lambda machine: look_at_memory(machine, config.model.name, on_gpu=_takes_gpu(about))),
        of_the_machine("processor", "processor for training", "not in use by another run", about,
                       lambda _: no_processor if _takes_gpu(about) else hardware.look_at_slot()),
        of_the_machine("gpus", "GPUs", "none needed; one that is free is used", about,
                       partial(hardware.look_at_gpus, config=config)),
        of_the_machine("driver", "driver for the GPUs", "the CUDA that torch needs", about,
                       partial(hardware.look_at_driver, must=bool(config.gpus))),
    ]  # fmt: skip


def _takes_gpu(about: About) -> bool:
    """False for a run that uses the processor; GPUs that the configuration names are taken, or it is refused."""
    return bool(about.config.gpus) or choose_gpu(about.config, about.machine()).gpu is not None


def _without_gpu(about: About) -> Finding | None:
    return None if _takes_gpu(about) else Finding(Status.SKIP, "not tried: it is used on a GPU only")
