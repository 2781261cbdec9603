"""Checks of the hardware: cores, memory, GPUs with their driver, and disk."""

import os
import shutil
from pathlib import Path

from rlguide import probe
from rlguide.asking import Finding
from rlguide.checks.torch_build import TorchBuild
from rlguide.errors import Busy
from rlguide.gpus import free_gpus
from rlguide.paths import absolute
from rlguide.records import Gpu, Machine, Status
from rlguide.slot import cpu_slot

TRAINING_MEMORY_GIB = 2.5
"""A run of the tiny policy with its evaluation needs so much."""


def look_at_cores(machine: Machine) -> Finding:
    status = Status.PASS if machine.cores >= 2 else Status.WARN
    return Finding(status, str(machine.cores), "training works but takes twice as long; give this machine more cores")


def look_at_memory(machine: Machine) -> Finding:
    status = Status.PASS if machine.memory_gib >= TRAINING_MEMORY_GIB else Status.FAIL
    return Finding(status, f"{machine.memory_gib:.1f} GiB available", "close other programs, or raise the memory limit")


def look_at_gpus(machine: Machine) -> Finding:
    """Which GPUs there are, who is on them, and which one a run would take."""
    if machine.gpu_problem:
        return Finding(Status.WARN, f"unknown: {machine.gpu_problem}", machine.gpu_fix)
    told = "; ".join(map(gpu_text, machine.gpus)) or "none"
    if machine.gpu_notice:
        return Finding(Status.WARN, f"{told} ({machine.gpu_notice})", machine.gpu_fix)
    if not machine.gpus:
        return Finding(Status.PASS, told)
    free = free_gpus(machine.gpus)
    if not free:
        fix = "wait until one is free, or end what is yours on it; until then a run uses the processor"
        return Finding(Status.WARN, f"{told}: none is free for certain", fix)
    return Finding(Status.PASS, f"{told}: a run takes {free[0].index}")


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
    divided = "" if gpu.slices is None else f", divided into {len(gpu.slices)} slices"
    return f"{gpu.index} {gpu.name}{divided}, {memory}, {owners}"


def look_at_driver(machine: Machine, build: TorchBuild | None) -> Finding:
    """Whether the driver can run the CUDA that the installed torch was built with: a figure such as 535+ does not say.

    Within one major version NVIDIA promises that a newer CUDA runs, save code that is compiled while it runs.
    """
    if machine.gpu_problem:
        return Finding(Status.SKIP, "not compared: the GPUs are unknown")
    if not machine.gpus:
        return Finding(Status.PASS, "no GPU here that needs one")
    if build is None:
        return Finding(Status.SKIP, "torch is not installed")
    too_bad = Status.FAIL if free_gpus(machine.gpus) else Status.WARN  # without a free one the processor trains
    if build.cuda is None:
        made_for = "AMD's GPUs" if build.hip else "processors only"
        fix = "install torch for CUDA (pip install 'rlguide[gpu]'), or set CUDA_VISIBLE_DEVICES= to use the processor"
        return Finding(too_bad, f"torch {build.version} is made for {made_for}, and there is a GPU", fix)
    if machine.cuda is None:
        seen = f"torch {build.version} needs CUDA {_dotted(build.cuda)}; which one the driver can run is unknown"
        return Finding(Status.WARN, seen, "compare with the CUDA version in the heading of `nvidia-smi`")
    seen = f"driver {machine.driver or '(version unknown)'} runs CUDA up to {_dotted(machine.cuda)}, "
    seen += f"torch {build.version} is made for {_dotted(build.cuda)}"
    fix = f"renew NVIDIA's driver, or install a torch made for CUDA {_dotted(machine.cuda)} or earlier"
    if machine.cuda >= build.cuda:
        return Finding(Status.PASS, seen)
    if machine.cuda[0] == build.cuda[0]:
        return Finding(Status.WARN, f"{seen}: works in most cases", fix)
    return Finding(too_bad, seen, fix)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def look_at_outputs(root: Path) -> Finding:
    folder = _nearest(root)
    usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    fix = "set RLGUIDE_OUTPUTS to a folder that you may write to"
    return Finding(Status.PASS if usable else Status.FAIL, f"{root} ({'' if usable else 'not '}writable)", fix)


def look_at_disk(folder: Path, wanted_gib: float) -> Finding:
    free_gib = shutil.disk_usage(_nearest(folder)).free / probe.GIB
    status = Status.PASS if free_gib >= wanted_gib else Status.FAIL
    return Finding(status, f"{free_gib:.1f} GiB free at {folder}", "free some space, or use a folder on another disk")


def look_at_hub_cache(folder: Path, wanted_gib: float) -> Finding:
    """Where downloads from the Hub go; the tiny policy needs none, so that nothing here is worse than a doubt."""
    nearest = _nearest(folder)
    fix = "set HF_HOME to a folder on a disk with room that you may write to"
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return Finding(Status.WARN, f"{folder} (not writable)", fix)
    finding = look_at_disk(folder, wanted_gib)
    return finding if finding.status is Status.PASS else Finding(Status.WARN, finding.seen, fix)


def hub_cache() -> Path:
    """Folder of downloads from the Hub, as `huggingface_hub` finds it."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return absolute(Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")))


def _nearest(path: Path) -> Path:
    """`path`, or the folder above it that exists."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def look_at_slot() -> Finding:
    try:
        with cpu_slot("rlguide doctor"):
            return Finding(Status.PASS, "free")
    except Busy as error:
        return Finding(Status.WARN, error.message, error.hint)
