"""What this machine offers: processor cores, memory and GPUs. Looks only; judging is `checks`' business.

Never imports torch and never opens a CUDA context: some trainers refuse a GPU on which any process has one.
"""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from rlguide.records import Gpu, Machine

GIB = 2**30
NVIDIA_SMI_TIMEOUT_S = 5.0
GPU_DEVICE = Path("/dev/nvidiactl")
"""Made by NVIDIA's driver on Linux; there without `nvidia-smi`, GPUs exist that we cannot describe."""


def machine(*, cgroups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> Machine:
    """What a run may use here. `cgroups` and `membership` say where Linux keeps its limits; other systems have none."""
    folders = list(_limit_folders(cgroups, membership))
    gpus, problem = find_gpus()
    return Machine(
        cores=_cores(folders),
        memory_gib=round(_memory_bytes(folders) / GIB, 2),
        gpus=gpus,
        gpu_problem=problem,
    )


def _cores(folders: list[Path]) -> int:
    """Whole cores: the affinity mask (where the system has one) and every quota above this process count."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else psutil.cpu_count() or 1
    quotas = [quota for folder in folders if (quota := _quota_cores(folder)) is not None]
    return max(1, int(min([allowed, *quotas])))


def _quota_cores(folder: Path) -> float | None:
    words = _words(folder / "cpu.max") or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # `max`, -1 or no such file: no quota here
    return int(words[0]) / int(words[1])


def _memory_bytes(folders: list[Path]) -> int:
    """Bytes for new programs: what the system has left, and what every memory limit above this process leaves."""
    return min([psutil.virtual_memory().available, *(left for f in folders if (left := _room_bytes(f)) is not None)])


def _room_bytes(folder: Path) -> int | None:
    for limit_name, used_name, cache_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, used = _words(folder / limit_name), _words(folder / used_name)
        if limit and limit[0].isdecimal():
            statistics = _words(folder / "memory.stat")
            pairs = dict(zip(statistics[::2], statistics[1::2], strict=False))
            # File cache counts as used, yet the kernel gives it up before it refuses memory.
            return max(0, int(limit[0]) - int(used[0] if used else 0) + int(pairs.get(cache_name, 0)))
    return None


def _limit_folders(cgroups: Path, membership: Path) -> Iterator[Path]:
    """Folders with the limits of this process, its own control group first; version 1 has one tree a controller.

    In a container the path of the membership file may not exist inside the mount; the root then holds the limits.
    psutil knows no control groups, so these two places are read directly.
    """
    lines = membership.read_text().splitlines() if membership.is_file() else []
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        tree = cgroups / controllers if controllers else cgroups
        if not controllers or {"cpu", "memory"} & set(controllers.split(",")):
            own = tree / path.lstrip("/")
            yield own
            yield from (folder for folder in own.parents if folder.is_relative_to(tree))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # not in this version of control groups, or hidden from this container
        return []


def find_gpus() -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that this process may use, and why they could not be listed (`None` when they could).

    No GPU at all is `((), None)`; "could not look" is never reported as "none".
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), f"{GPU_DEVICE} exists but nvidia-smi is not on PATH" if GPU_DEVICE.exists() else None
    query = "--query-gpu=index,name,memory.total,memory.free,compute_cap"
    try:
        answer = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return (), f"nvidia-smi did not answer within {NVIDIA_SMI_TIMEOUT_S:.0f} s"
    except OSError as error:
        return (), f"nvidia-smi cannot be started: {error}"
    said = (answer.stderr or answer.stdout).strip()  # a version mismatch is told on stdout
    if "no devices were found" in said.lower():
        return (), None
    if answer.returncode != 0:
        return (), f"nvidia-smi failed ({answer.returncode}): {said[:200]}"
    return visible(parse_gpus(answer.stdout), os.environ.get("CUDA_VISIBLE_DEVICES"))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """GPUs in the answer of `nvidia-smi`; a field that is no number is unknown."""
    rows = [[field.strip() for field in row] for row in csv.reader(text.splitlines())]
    return tuple(
        Gpu(
            index=int(row[0]),
            name=row[1],
            memory_gib=_gib(row[2]),
            free_gib=_gib(row[3]),
            compute_capability=_capability(row[4]),
        )
        for row in rows
        if len(row) == 5 and row[0].isdecimal()
    )


def visible(gpus: tuple[Gpu, ...], variable: str | None) -> tuple[tuple[Gpu, ...], str | None]:
    """The GPUs that `CUDA_VISIBLE_DEVICES` leaves; CUDA ends the list at the first index that does not exist."""
    if variable is None:
        return gpus, None
    by_index = {str(gpu.index): gpu for gpu in gpus}
    chosen = []
    for token in (word.strip() for word in variable.split(",")):
        if token and not token.lstrip("-").isdecimal():
            return (), f"CUDA_VISIBLE_DEVICES={variable!r} is not a list of GPU indices"
        if token not in by_index:
            break
        chosen.append(by_index[token])
    return tuple(chosen), None


def _gib(mebibytes: str) -> float | None:
    number = mebibytes.removesuffix("MiB").strip()
    return round(int(number) / 1024, 1) if number.isdecimal() else None


def _capability(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
