"""The `trl` engine: TRL's GRPO trainer in one child process, on a CPU or on one GPU.

It plans; `rlguide.programs.train_trl` does the work.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tomlkit

from rlguide import probe
from rlguide.asking import Finding
from rlguide.child import program
from rlguide.config import TINY, RunConfig
from rlguide.engines.base import GPU_CONCURRENCY, MODERN, VLLM_READY_S, Tools, fingerprint
from rlguide.engines.policy import find_policy
from rlguide.environ import HOST
from rlguide.environment.texts import load_texts
from rlguide.errors import ConfigError
from rlguide.gpus import cuda_name, free_gpus
from rlguide.import_trial import is_there
from rlguide.paths import install_command
from rlguide.records import Gpu, Layout, Machine, MetricSource, Plan, Process, Status
from rlguide.torch_build import TorchBuild, look_at_build, too_old, torch_build, torch_folder

NEEDS = ("torch", "transformers", "trl", "verifiers", "datasets")
PROGRAM = "rlguide.programs.train_trl"
ENGINE = Path("engine")
LAYOUT = Layout(
    logs={"trainer": ENGINE / "logs" / "trainer.log"},
    rollouts=ENGINE / "rollouts",
    rollouts_file="train_rollouts.jsonl",
    checkpoints=ENGINE / "checkpoints",
    weights=ENGINE / "weights",
    weights_marker="STABLE",
)
METRICS = ENGINE / "logs" / "metrics.jsonl"

GRACE_S = 60.0
"""A step on a slow processor must end before the checkpoint is saved."""
READY_S = {"transformers": 120.0, "vllm": VLLM_READY_S}
"""The first is several times the 6 s of `transformers serve` with a small model."""
SMALL_POLICY_MIB = 64
"""Weights below this size answer one request at a time fastest on one thread: the two evaluations of the tiny policy
take 38 s with one and 43 s with two, on two cores."""
START_UP_S = 10.0
ROLLOUT_CORE_S = 0.0235
"""Start-up with the exit, and core-seconds a rollout of the tiny policy: measured on two cores of a Zen 4 AMD EPYC."""


class Trl:
    """TRL's `GRPOTrainer` with the guide's vocabulary."""

    name = "trl"

    def missing(self, config: RunConfig) -> str | None:
        absent = [module for module in NEEDS if not is_there(module)]
        return f"not installed: {', '.join(absent)}; install with: {install_command()}" if absent else None

    def require_ready(self, plan: Plan) -> None:
        """Nothing: the trainer is a child of this very Python, and its imports take as long as a look at them."""

    def tools(self, plan: Plan) -> Tools:
        return local_tools(plan.gpus)

    def plan(self, config: RunConfig, directory: Path, *, machine: Machine) -> Plan:
        policy = find_policy(config.model.name)
        _require_texts(config)
        choice = choose_gpu(config, machine)
        hardware = _hardware(choice.gpu, machine.cores)
        found = next(metadata.distributions(name="trl"), None)
        release = f"trl {found.version if found else '(version unknown)'}"
        text = _engine_config(config, policy, hardware)
        return Plan(
            engine=self.name,
            release=release,
            policy=policy,
            directory=directory,
            processes=(_trainer(config, directory, policy, hardware),),
            resume_args=("--resume",),
            files={"rl.toml": text},
            metrics=(MetricSource(component="trainer", path=METRICS, dialect="trl"),),
            layout=LAYOUT,
            max_steps=config.max_steps,
            batch_size=config.orchestrator.batch_size,
            time_limit_s=config.time_limit_s,
            grace_s=GRACE_S,
            exclusive_cpu=not hardware["gpus"],
            gpus=hardware["gpus"],
            precision=hardware["precision"],
            attention=hardware["attention"],
            threads=hardware["threads"],
            estimate_s=_estimate_s(config, hardware),
            notes=_notes(config, hardware, choice.refused),
            fingerprint=fingerprint(engine=self.name, release=release, config=text),
        )


def _require_texts(config: RunConfig) -> None:
    """Raises `ConfigError` when a step wants more prompts than there are: TRL then trains not a single step."""
    prompts = config.orchestrator.batch_size // config.orchestrator.rollouts_per_example
    there = len(load_texts("train"))
    if config.environment.args.dataset != "hub" and prompts > there:
        hint = "lower orchestrator.batch_size, or raise orchestrator.rollouts_per_example"
        raise ConfigError(f"a step of {prompts} prompts: there are {there} texts to train on", hint=hint)


class Choice(NamedTuple):
    """What a run computes on."""

    gpu: Gpu | None
    """`None`: the processor."""
    refused: Finding | None = None
    """Why not a GPU, though one is free: a failure where torch can use none here, a doubt where this one is too old."""


def choose_gpu(config: RunConfig, machine: Machine) -> Choice:
    """The GPU that a run takes: the one that `config` names, else a free one where the installed torch can use it.

    Raises `ConfigError` where one is named, and cannot be taken.
    """
    offered = free_gpus(machine.gpus, slices=True) if config.gpus is None else _named(config.gpus, machine)
    refused, build = None, _installed_build() if offered else None
    for gpu in offered:
        refused = _problem_of_torch(gpu, build, machine)
        if refused is None:
            return Choice(gpu)
    if refused and config.gpus:
        hint = f"{refused.fix}; or leave gpus out, to train on the processor"
        raise ConfigError(f"gpus = {config.gpus}: {refused.seen}", hint=hint)
    return Choice(None, refused)


def _named(gpus: Sequence[int], machine: Machine) -> list[Gpu]:
    """The GPU of that index, whoever is on it; of one that is divided, its free slices come first."""
    if len(gpus) > 1:
        raise ConfigError(f"gpus = {gpus}: the trl engine uses one GPU", hint="name one, or leave gpus out")
    there = [gpu for gpu in machine.gpus if gpu.index == gpus[0]]
    if not there:
        seen = machine.gpu_problem or ", ".join(str(gpu.index) for gpu in machine.gpus) or "none"
        hint = machine.gpu_fix or "leave gpus out to choose"
        raise ConfigError(f"gpus = {gpus}: no such GPU here (seen: {seen})", hint=hint)
    return [*free_gpus(there, slices=True), *there]


def _installed_build() -> TorchBuild | None:
    """How the installed torch was built; `None` where that cannot be told."""
    with suppress(OSError, ValueError, SyntaxError):
        return torch_build(torch_folder())


def _problem_of_torch(gpu: Gpu, build: TorchBuild | None, machine: Machine) -> Finding | None:
    """What keeps a torch of that build from a GPU; `None` where nothing is known to, which a run then tries."""
    if build is None:
        return None
    found = look_at_build(build, machine)
    return found if found.status is Status.FAIL else too_old(gpu, build)


def _hardware(gpu: Gpu | None, cores: int) -> dict[str, Any]:
    """Device, precision and threads: on `gpu`, or without one on the processor."""
    if gpu is None:
        return {"threads": cores, "gpus": (), "precision": "float32", "attention": "sdpa", "vllm": False}
    modern = (gpu.compute_capability or (0, 0)) >= MODERN
    flash = modern and is_there("flash_attn")
    return {
        "threads": cores,
        "gpus": (cuda_name(gpu),),
        "precision": "bfloat16" if modern else "float32",
        "attention": "flash_attention_2" if flash else "sdpa",
        "vllm": is_there("vllm"),
    }


def _engine_config(config: RunConfig, policy: str, hardware: dict[str, Any]) -> str:
    """The engine's own `rl.toml`: the guide's tables, and `[trl]` with what the plan chose for this machine."""
    keys = {"max_steps", "seq_len", "seed", "wandb", "orchestrator", "trainer", "ckpt"}
    data = config.model_dump(include=keys, exclude={"wandb": {"expected_user"}}, exclude_none=True)
    data["model"] = {"name": policy}
    data["wandb"]["name"] = config.wandb_name
    data["trl"] = hardware | {"gpus": list(hardware["gpus"])}
    return tomlkit.dumps(data)


def _trainer(config: RunConfig, directory: Path, policy: str, hardware: dict[str, Any]) -> Process:
    argv = (sys.executable, "-P", "-m", PROGRAM, "@", str(directory / "rl.toml"))
    argv += ("--output-dir", str(directory / ENGINE))
    return Process(
        name="trainer",
        argv=argv,
        env=torch_environment(hardware["threads"], hardware["gpus"], offline=Path(policy).is_absolute())
        | {"WANDB_PROJECT": config.wandb.project, "WANDB_DIR": str(directory / ENGINE)}
        | ({"WANDB_MODE": config.wandb.mode} if config.wandb.mode != "off" else {}),
        log=LAYOUT.logs["trainer"],
    )


def torch_environment(threads: int, gpus: tuple[int | str, ...], *, offline: bool) -> dict[str, str]:
    """Variables for a child process that runs torch.

    A thread that waits for the others looks 1,500 times before it sleeps. For the tiny policy on two cores, seconds a
    step alone and beside a busy process: 0 looks 2.1 and 2.4; 2,000 looks 1.6 and 3.0; 5,000 looks 1.5 and 3.9;
    100,000 looks 1.5 and 18. glibc keeps what a step frees for the next one, which saves some 4 % of a step.
    """
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "1500",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
    }
    return environment | ({"HF_HUB_OFFLINE": "1"} if offline else {})


def server(kind: Literal["transformers", "vllm"], policy: str, port: int, seed: int, *, device: str) -> tuple[str, ...]:
    """Command of an OpenAI-compatible server. Both are given the policy at the start and refuse every other name.

    No continuous batching in transformers: it keeps the first request's temperature for all, and took 9 GB of memory
    and 6 s for its first completion, more than it saves on a hundred. Raises `EngineMissing`.
    """
    address = ("--host", HOST, "--port", str(port))
    if kind == "vllm":
        return *program("vllm"), "serve", policy, *address, "--seed", str(seed)
    return *program("transformers"), "serve", policy, *address, "--default-seed", str(seed), "--device", device


def local_tools(gpus: tuple[int | str, ...] = ()) -> Tools:
    """The programs of this very Python: vLLM on a GPU where it is installed, else transformers."""
    kind = "vllm" if gpus and is_there("vllm") else "transformers"
    device = "auto" if gpus else "cpu"
    return Tools(
        server=partial(server, kind, device=device),
        ready_s=READY_S[kind],
        vf_eval=lambda: program("vf-eval"),
        python=sys.executable,
        environment=lambda policy: _serving_environment(policy, gpus),
        concurrency=GPU_CONCURRENCY if gpus else 1,
        exclusive_cpu=not gpus,
    )


def _serving_environment(policy: str, gpus: tuple[int | str, ...]) -> dict[str, str]:
    """Variables of a child process that only generates: threads for the size of the policy, the Hub only if needed."""
    weights_mib = sum(file.stat().st_size for file in Path(policy).glob("*.safetensors")) / 2**20
    threads = 1 if 0 < weights_mib < SMALL_POLICY_MIB else probe.machine().cores
    return torch_environment(threads, gpus, offline=Path(policy).is_dir())


def _estimate_s(config: RunConfig, hardware: dict[str, Any]) -> float | None:
    """Expected seconds of a run; only the tiny policy on a CPU has been measured on enough machines to say."""
    if hardware["gpus"] or config.model.name != TINY:
        return None
    rollouts = config.max_steps * config.orchestrator.batch_size
    return START_UP_S + rollouts * ROLLOUT_CORE_S / min(hardware["threads"], 4)


def _notes(config: RunConfig, hardware: dict[str, Any], refused: Finding | None) -> tuple[str, ...]:
    notes = []
    if refused:
        notes.append(f"A GPU is free, but {refused.seen}: this trains on the processor. To change that, {refused.fix}.")
    if not hardware["gpus"] and config.model.name != TINY:
        notes.append("This policy trains on the processor only: expect hours unless it is very small.")
    if hardware["gpus"] and not hardware["vllm"]:
        notes.append("vLLM is not installed: completions come from transformers, several times slower.")
    if hardware["attention"] == "sdpa" and hardware["gpus"]:
        notes.append("flash-attn is not used: attention is torch's own (sdpa); the result is the same, more slowly.")
    return tuple(notes)
