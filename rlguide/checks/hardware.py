"""Checks of the hardware: cores, memory, GPUs with their driver, and whether the processor is free."""

from collections.abc import Sequence
from pathlib import Path

from rlguide.asking import Finding
from rlguide.checks.memory import too_small
from rlguide.config import RunConfig
from rlguide.engines.prime_rl import ROLES, choose_gpus
from rlguide.engines.trl import choose_gpu
from rlguide.errors import Busy, ConfigError, LaunchError
from rlguide.gpus import cuda_name
from rlguide.records import Gpu, Machine, Status
from rlguide.slot import require_free_cpu
from rlguide.torch_build import look_at_build, torch_build, torch_folder


def look_at_cores(machine: Machine) -> Finding:
    status = Status.PASS if machine.cores >= 2 else Status.WARN
    return Finding(status, str(machine.cores), "training works but takes twice as long; give this machine more cores")


def look_at_gpus(machine: Machine, config: RunConfig) -> Finding:
    """Which GPUs there are, who is on them, and which one a run of `config` takes."""
    told = gpus_text(machine.gpus)
    try:
        choice = choose_gpu(config, machine)
    except ConfigError as error:
        return Finding(Status.FAIL, error.message, error.hint)
    if machine.gpu_problem:
        return Finding(Status.WARN, f"unknown: {machine.gpu_problem}", machine.gpu_fix)
    if machine.gpu_notice:
        return Finding(Status.WARN, f"{told} ({machine.gpu_notice})", machine.gpu_fix)
    if choice.gpu:
        return _judged([choice.gpu], f"{told}: a run takes {cuda_name(choice.gpu)}", config.model.name)
    if choice.refused:
        status = Status.WARN if choice.refused.status is Status.WARN else Status.PASS  # the driver's check tells more
        return Finding(status, f"{told}: a run takes none, because {choice.refused.seen}", choice.refused.fix)
    if not machine.gpus:
        return Finding(Status.PASS, told)
    fix = "wait until one is free, end what is yours on it, or take it with gpus = [0]; else a run uses the processor"
    if all(gpu.slices == () for gpu in machine.gpus):
        fix = "make slices (`nvidia-smi mig -cgi`), or switch the division off (`nvidia-smi -mig 0`)"
    return Finding(Status.WARN, f"{told}: none is free for certain", fix)


def look_at_two_gpus(machine: Machine, config: RunConfig) -> Finding:
    """Which whole GPUs a run with prime-rl takes, and whether somebody is on them."""
    told = gpus_text(machine.gpus) + (f" ({machine.gpu_notice})" if machine.gpu_notice else "")
    try:
        taken = choose_gpus(config, machine)
    except ConfigError as error:
        seen = f"unknown: {machine.gpu_problem}" if machine.gpu_problem else told
        return Finding(Status.FAIL, f"{seen}; {error.message}" if machine.gpus else seen, error.hint)
    shared = f"{told}: " + ", ".join(f"{role} on {gpu.index}" for role, gpu in zip(ROLES, taken, strict=True))
    found = _judged(taken, shared, config.model.name)
    return Finding(Status.WARN, shared, machine.gpu_fix) if machine.gpu_notice and not found.fix else found


def _judged(taken: Sequence[Gpu], seen: str, policy: str) -> Finding:
    """Whether those that a run takes are free, and the last of them, which trains, is large enough."""
    if busy := [gpu for gpu in taken if not gpu.is_free]:
        fix = "wait, end what is yours on it, or leave gpus out to choose"
        return Finding(Status.WARN, f"{seen}; {cuda_name(busy[0])} is not free for certain", fix)
    small = too_small(taken[-1], policy)
    return small._replace(seen=f"{seen}; {small.seen}") if small else Finding(Status.PASS, seen)


def gpus_text(gpus: Sequence[Gpu]) -> str:
    """All of them in words."""
    return "; ".join(map(gpu_text, gpus)) or "none"


def gpu_text(gpu: Gpu) -> str:
    """One GPU in words: memory and owners, and what of them is unknown."""
    memory = "memory unknown"
    if gpu.memory_gib is not None:
        free = "unknown" if gpu.free_gib is None else f"{gpu.free_gib:.0f}"
        memory = f"{free} of {gpu.memory_gib:.0f} GiB free"
    owners = "who is on it is unknown"
    if gpu.owners is not None:
        named = (f"{owner.who} (pid {owner.pid})" if owner.pid else owner.who for owner in gpu.owners)
        owners = ", ".join(named) or "nobody on it"
    if gpu.slices is None:
        return f"{cuda_name(gpu)} {gpu.name}, {memory}, {owners}"
    parts = f"{len(gpu.slices)} slices: {gpus_text(gpu.slices)}" if gpu.slices else "slices that are not told"
    return f"{gpu.index} {gpu.name}, divided into {parts}"


def look_at_driver(
    machine: Machine, *, python: Path | None = None, must: bool = False, install: str | None = None
) -> Finding:
    """Whether the driver can run the CUDA that the torch of this Python, or another, was built with.

    `must` is true where a run uses a GPU or fails; otherwise it uses the processor instead.
    """
    if machine.gpu_problem:
        return Finding(Status.SKIP, "not compared: the GPUs are unknown")
    if not machine.gpus:
        return Finding(Status.PASS, "no GPU here that needs one")
    build = torch_build(torch_folder(python))
    if build is None:
        return Finding(Status.SKIP, "torch is not installed")
    found = look_at_build(build, machine, install=install)
    return found if must or found.status is not Status.FAIL else found._replace(status=Status.WARN)


def look_at_slot() -> Finding:
    """Whether another run of ours computes on the processor."""
    try:
        require_free_cpu()
        return Finding(Status.PASS, "free")
    except Busy as error:
        return Finding(Status.WARN, error.message, error.hint)
    except LaunchError as error:
        return Finding(Status.FAIL, error.message, error.hint)
    except OSError as error:  # no folder for temporary files
        return Finding(Status.FAIL, f"its lock cannot be used: {error.strerror}", "set TMPDIR to a folder of yours")
