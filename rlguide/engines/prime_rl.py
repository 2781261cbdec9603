"""The `prime-rl` engine: prime-rl at the run guide's release, on two GPUs of one machine. It plans; prime-rl's own
launcher does the work.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit

from rlguide.checkout import (
    GUIDE_RELEASE,
    absent_programs,
    checkout_place,
    find_checkout,
    release_of,
    require_supported,
    venv_bin,
)
from rlguide.config import TINY, RunConfig
from rlguide.engines.base import GPU_CONCURRENCY, MODERN, VLLM_READY_S, Tools, fingerprint
from rlguide.engines.policy import find_policy
from rlguide.environ import HOST
from rlguide.environment.generator import FOLDER as TEXTS
from rlguide.errors import ConfigError, EngineMissing
from rlguide.gpus import free_gpus
from rlguide.ports import free_port
from rlguide.readiness import require_ready
from rlguide.records import Gpu, Layout, Machine, MetricSource, Plan, Process
from rlguide.view.written import gpu_names

DEFAULT_PORT = 8000
EVERYWHERE = "0.0.0.0"
"""Where vLLM listens when it is not told."""
ROLES = ("inference", "trainer")
"""Who gets the first and the second GPU: the launcher deals them out in this order."""
ENGINE = Path("engine")
LOGS = ENGINE / "logs"
LAYOUT = Layout(
    logs={name: LOGS / f"{name}.log" for name in ("launcher", "orchestrator", "trainer", "inference")},
    rollouts=ENGINE / "run_default" / "rollouts",
    rollouts_file="train_rollouts.jsonl",
    checkpoints=ENGINE / "checkpoints",
    checkpoint_markers=(
        "engine/checkpoints/step_{step}/trainer/.metadata",
        "engine/run_default/checkpoints/step_{step}/orchestrator/buffer/rollout_buffer.jsonl",  # written last
        "engine/run_default/broadcasts/step_{step}/STABLE",
    ),
    weights=ENGINE / "weights",
    weights_marker="STABLE",
)


def _logs(*components: str) -> tuple[MetricSource, ...]:
    """Logs of components, each in its own dialect of this release."""
    return tuple(
        MetricSource(component=name, path=LAYOUT.logs[name], dialect=f"prime-rl-0.5 {name}") for name in components
    )


METRICS = _logs("orchestrator", "trainer")
ALARMS = _logs("inference", "launcher")
"""In this order: what the server tells is the cause of what follows."""

GRACE_S = 260.0
"""prime-rl's launcher ends its four children one after the other and gives each 60 s; before that it waits up to 5 s
for each of three threads: https://github.com/PrimeIntellect-ai/prime-rl, utils/process.py at 024abb204."""
TOOK_S = {True: (80.0, 0.011, 6.0), False: (110.0, 0.027, 65.0)}
"""Boot with the first step, seconds a rollout, and the checkpoint: of the tiny policy on two H200, and of any other as
in the guide's run of a 0.6 B policy on two H100."""


class PrimeRl:
    """prime-rl's launcher with its own virtual environment."""

    name = "prime-rl"

    def missing(self, config: RunConfig) -> str | None:
        try:
            checkout = find_checkout(config.prime_rl.checkout)
            if checkout is None:
                return "there is no checkout of prime-rl here; make one with: rlguide install --engine prime-rl"
            require_supported(checkout)
        except (ConfigError, EngineMissing) as error:
            return f"{error.message}; {error.hint}"
        absent = absent_programs(checkout)
        told = f"{checkout} is not installed: {absent}; install with: rlguide install --engine prime-rl"
        return told if absent else None

    def require_ready(self, plan: Plan) -> None:
        """What is imported first may have been removed meanwhile: `uv sync` takes away all that it did not install."""
        require_ready(_programs(plan).parent.parent)

    def tools(self, plan: Plan) -> Tools:
        programs = _programs(plan)
        return Tools(
            server=partial(server, programs),
            ready_s=VLLM_READY_S,
            vf_eval=lambda: (str(programs / "vf-eval"),),
            python=str(programs / "python"),
            environment=lambda policy: _environment(programs, plan.gpus[:1], offline=Path(policy).is_dir()),
            arguments=_texts("test"),
            concurrency=GPU_CONCURRENCY,
            exclusive_cpu=False,
        )

    def plan(self, config: RunConfig, directory: Path, *, machine: Machine) -> Plan:
        checkout, policy = checkout_place(config.prime_rl.checkout), find_policy(config.model.name)
        found = release_of(checkout)
        found = found if found.is_supported else GUIDE_RELEASE  # no other is driven; `missing` tells what is there
        release = f"{found.name}, {found.revision[:9] if found.revision else 'revision unknown'}"
        gpus, port = tuple(gpu.index for gpu in choose_gpus(config, machine)), free_port(config.inference.port)
        return Plan(
            engine=self.name,
            release=release,
            policy=policy,
            directory=directory,
            processes=(_launcher(config, directory, checkout, policy, gpus),),
            resume_args=("--ckpt.resume-step", "{step}"),
            files={"rl.toml": rl_toml(config.replace({"inference.port": port}), policy)},
            metrics=METRICS,
            alarms=ALARMS,
            layout=LAYOUT,
            max_steps=config.max_steps,
            batch_size=config.orchestrator.batch_size,
            time_limit_s=config.time_limit_s,
            grace_s=GRACE_S,
            exclusive_cpu=False,
            gpus=gpus,
            ports={"inference": port},
            precision="bfloat16",
            attention=config.trainer.model.attn or "flash_attention_2",
            estimate_s=_estimate_s(config),
            notes=_notes(config, checkout, gpus, port),
            fingerprint=fingerprint(engine=self.name, release=release, config=rl_toml(config, policy)),
        )


def as_wanted(config: RunConfig, machine: Machine) -> tuple[RunConfig, Machine, str]:
    """`config` and `machine` as if the GPUs that are wanted were there, and one sentence about what is assumed."""
    gpus = config.gpus or list(range(len(ROLES)))
    wanted = machine.model_copy(update={"gpus": tuple(Gpu(index=index, name="assumed") for index in gpus)})
    checkout = f"prime-rl, {GUIDE_RELEASE}, installed in {checkout_place(config.prime_rl.checkout)}"
    told = f"Assumed, whatever is here: {checkout}; and {gpu_names(gpus)}, free."
    return config.replace({"gpus": gpus}), wanted, told


def _estimate_s(config: RunConfig) -> float:
    start_up_s, rollout_s, save_s = TOOK_S[config.model.name == TINY]
    return start_up_s + config.max_steps * config.orchestrator.batch_size * rollout_s + save_s


def _programs(plan: Plan) -> Path:
    """Folder of the programs of the checkout that a plan was made for."""
    return Path(plan.processes[0].argv[0]).parent


def choose_gpus(config: RunConfig, machine: Machine) -> list[Gpu]:
    """A GPU for each of `ROLES`, in that order: those that `config` names, whoever is on them, or the first free ones.

    Raises `ConfigError` where these are not there, or too old.
    """
    there = {gpu.index: gpu for gpu in machine.gpus}
    old = [index for index, gpu in there.items() if (gpu.compute_capability or MODERN) < MODERN]
    seen = f"seen: {machine.gpu_problem or gpu_names([*there])}" + (
        f"; with a compute capability below 8.0: {gpu_names(old)}" if old else ""
    )
    if config.gpus is None:
        free = [gpu.index for gpu in free_gpus(machine.gpus) if gpu.index not in old]
        if len(free) < len(ROLES):
            others = "end what is yours on the others" if len(there) > len(free) + len(old) else None
            hint = "; or ".join(
                filter(None, [machine.gpu_fix or others, "use engine = trl, which needs one GPU or none"])
            )
            told = f"the prime-rl engine needs {len(ROLES)} free GPUs ({seen}; free: {gpu_names(free)})"
            raise ConfigError(told, hint=hint)
        return [there[index] for index in sorted(free[: len(ROLES)])]
    if len(config.gpus) != len(ROLES):
        hint = "name two, the first for the inference server, the second for the trainer"
        raise ConfigError(f"gpus = {config.gpus}: the prime-rl engine uses {len(ROLES)} GPUs", hint=hint)
    if unfit := [index for index in config.gpus if index not in there or index in old]:
        raise ConfigError(f"gpus = {config.gpus}: no GPU {unfit[0]} for it here ({seen})", hint="leave gpus out")
    return [there[index] for index in config.gpus]


def _launcher(config: RunConfig, directory: Path, checkout: Path, policy: str, gpus: Sequence[int]) -> Process:
    offline = Path(policy).is_absolute() and _has_our_texts(config)
    return Process(
        name="launcher",
        argv=(str(venv_bin(checkout) / "rl"), "@", str(directory / "rl.toml"), "--output-dir", str(directory / ENGINE)),
        env=_environment(venv_bin(checkout), gpus, offline=offline),
        log=LAYOUT.logs["launcher"],
    )


def _environment(programs: Path, gpus: Sequence[int], *, offline: bool) -> dict[str, str]:
    """Variables for prime-rl's programs: they find each other by name, and count GPUs as the bus does.

    A notebook's kernel names a backend of matplotlib that another Python may not have.
    """
    return {
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        "VIRTUAL_ENV": str(programs.parent),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
        "MPLBACKEND": "agg",
        "PYTHONUNBUFFERED": "1",
    } | ({"HF_HUB_OFFLINE": "1"} if offline else {})


def server(programs: Path, policy: str, port: int, seed: int) -> tuple[str, ...]:
    """Command of prime-rl's inference server for one policy."""
    address = ("--server.host", HOST, "--server.port", str(port))
    return str(programs / "inference"), "--model.name", policy, *address, "--seed", str(seed)


def _notes(config: RunConfig, checkout: Path, gpus: Sequence[int], port: int) -> tuple[str, ...]:
    texts = "those of rlguide" if _has_our_texts(config) else "the Hub's, as in the run guide"
    open_to_all = "The inference server listens to other machines too, as in the run guide; see inference.host."
    wanted = config.inference.port
    return (
        f"GPU {gpus[0]} serves the policy (inference), GPU {gpus[1]} updates it (trainer).",
        *([] if port == wanted else [f"Port {wanted} is taken here; the inference server gets {port}."]),
        *([open_to_all] if config.inference.host == EVERYWHERE else []),
        f"Programs: {venv_bin(checkout)}; texts to train on: {texts}.",
        "Sampling runs ahead of the trainer, so that two runs of one seed differ a little.",
        "A run that is stopped before a checkpoint keeps no weights: prime-rl saves nothing when it is ended.",
    )


def rl_toml(config: RunConfig, policy: str) -> str:
    """The text of prime-rl's `rl.toml` for `config`, key by key as in the run guide; `policy` is a folder or Hub name.

    What `config` leaves at prime-rl's own default is not written.
    """
    return tomlkit.dumps(
        {
            "max_steps": config.max_steps,
            "seq_len": config.seq_len,
            "model": {"name": policy},
            **_wandb(config),
            "orchestrator": _orchestrator(config),
            "trainer": _given(model=_given(attn=config.trainer.model.attn))
            | {"optim": {"lr": config.trainer.optim.lr}},
            "ckpt": _given(interval=config.ckpt.interval),
            "inference": _inference(config),
        }
    )


def _texts(split: str) -> dict[str, str]:
    """Arguments with which the Hub's environment reads the packaged texts instead of its own."""
    return {"dataset_name": str(TEXTS), "dataset_split": split}


def _has_our_texts(config: RunConfig) -> bool:
    """True when the packaged texts are trained on; the tiny policy can spell no others."""
    asked = config.environment.args.dataset
    return asked == "rlguide" or (asked is None and config.model.name == TINY)


def _given(**table: Any) -> dict[str, Any]:
    """What of a table is set."""
    return {key: value for key, value in table.items() if value not in (None, {})}


def _orchestrator(config: RunConfig) -> dict[str, Any]:
    orchestrator, port = config.orchestrator, config.inference.port
    sampling = orchestrator.train.sampling
    temperature = None if sampling.temperature == 1 else sampling.temperature
    samples = _given(max_completion_tokens=sampling.max_completion_tokens, temperature=temperature)
    ours = _texts("train") if _has_our_texts(config) else {}
    return {
        "batch_size": orchestrator.batch_size,
        "rollouts_per_example": orchestrator.rollouts_per_example,
        "train": {"sampling": samples, "env": [{"id": config.environment.id} | _given(args=ours)]},
        **_given(seed=config.seed or None),
        **({} if port == DEFAULT_PORT else {"client": {"base_url": [f"http://localhost:{port}/v1"]}}),
    }


def _inference(config: RunConfig) -> dict[str, Any]:
    port, share = config.inference.port, config.inference.gpu_memory_utilization
    host = None if config.inference.host == EVERYWHERE else config.inference.host
    server = _given(server=_given(host=host, port=None if port == DEFAULT_PORT else port))
    return server | _given(gpu_memory_utilization=share, seed=config.seed or None)


def _wandb(config: RunConfig) -> dict[str, Any]:
    """The table of W&B. Without one it is off; offline it must not be shared, which this release refuses."""
    if config.wandb.mode == "off":
        return {}
    offline = {"shared": False, "offline": True} if config.wandb.mode == "offline" else {}
    return {"wandb": {"project": config.wandb.project, "name": config.wandb_name} | offline}
