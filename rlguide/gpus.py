"""The GPUs of this machine: asks NVIDIA's library in a child process, and `nvidia-smi` where that cannot answer.

Never imports torch and never opens a CUDA context: some trainers refuse a GPU on which any process has one.
"Could not look" is never reported as "none", and a number that was not told is never 0.
"""

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rlguide.child import Answer, answer_of
from rlguide.cuda_devices import FIX, VARIABLE, visible
from rlguide.owners import NOT_VISIBLE, owner_of
from rlguide.paths import PACKAGE
from rlguide.records import Gpu, GpuOwner

PROGRAM = PACKAGE / "programs" / "nvml_gpus.py"
LIMIT_S = 10.0
"""Seconds for all questions; waking eight GPUs that sleep takes some of them."""
HIDDEN_GIB = 1.5
"""More memory than a GPU takes for itself: in use, with nobody to be seen on it, somebody is elsewhere."""
GPU_DEVICE = Path("/dev/nvidiactl")
"""Made by NVIDIA's driver on Linux."""
PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Where Linux lists what is built in, with or without a driver."""
QUERY = ("index", "uuid", "name", "memory.total", "memory.free", "driver_version", "compute_cap", "mig.mode.current")
OLD_QUERY = QUERY[:6]
"""All that drivers before 510 know."""
NUMBERED = re.compile(r"[0-9]{1,6}, *(GPU-|\[[A-Z])")  # after the number a UUID, or words in brackets
UNKNOWN = "unknown GPU"
CSV = "--format=csv,noheader,nounits"

NO_DRIVER, NO_LIBRARY, MISMATCH = 9, 12, 18  # codes of NVML, which are also exit codes of nvidia-smi
NO_PACKAGE = "absent"
IN_CONTAINER = "start the container with its GPUs (docker run --gpus all)"
SEE = "see what `nvidia-smi` says"
PROBLEMS = {
    NO_DRIVER: ("NVIDIA's driver is not loaded ({told})", f"sudo modprobe nvidia; or {IN_CONTAINER}"),
    MISMATCH: (
        "NVIDIA's driver was renewed while the old one is loaded ({told})",
        "restart this machine, so that the new driver is loaded",
    ),
    "late": ("NVIDIA's library did not answer within {told} s", "look for `Xid` in `sudo dmesg`; a restart may help"),
    "hangs": ("nvidia-smi did not answer within {told} s", "look for `Xid` in `sudo dmesg`; a restart may help"),
    "unasked": (
        "no program can be started to ask NVIDIA's library ({told})",
        "look at the disk for temporary files, and at how many processes and files are allowed (ulimit -a)",
    ),
    "full": ("{told}, so that no program can answer", "free some space, or set TMPDIR to a folder on another disk"),
    "crashed": ("NVIDIA's library crashed ({told})", SEE),
    "refused": ("NVIDIA's library refused to look ({told})", SEE),
    "unstartable": ("nvidia-smi cannot be started: {told}", "fix or remove that file; `type nvidia-smi` says where"),
    "unreadable": ("nvidia-smi gave an answer that cannot be read: {told}", SEE),
    "failed": ("nvidia-smi failed ({told})", SEE),
    "no tools": (
        f"{GPU_DEVICE} exists, but neither NVIDIA's library nor nvidia-smi can be used",
        f"install NVIDIA's driver anew; or {IN_CONTAINER}",
    ),
    "no driver": (
        "an NVIDIA GPU is built in, but no driver for it is to be seen",
        f"install NVIDIA's driver; or {IN_CONTAINER}",
    ),
}
"""Kind of failure → what is said, and what to do."""


class Listing(NamedTuple):
    """All that was found out about GPUs; see `rlguide.records.Machine` for what each part means."""

    gpus: tuple[Gpu, ...] = ()
    gpu_problem: str | None = None
    gpu_notice: str | None = None
    gpu_fix: str | None = None
    driver: str | None = None
    cuda: tuple[int, int] | None = None


def find_gpus(*, device: Path = GPU_DEVICE, built_in: Path = PCI_DEVICES) -> Listing:
    """The GPUs that this process may use, or why they could not be listed. No GPU at all is an empty listing.

    `device` and `built_in` say where the system shows a driver and a GPU.
    """
    if sys.platform == "darwin":
        return Listing()  # NVIDIA makes no driver for it
    deadline = time.monotonic() + LIMIT_S
    library, is_sure = _from_library(deadline)
    found = library if is_sure else _from_nvidia_smi(deadline) or library
    found = found or _from_the_system(device, built_in)
    if found.gpu_problem:
        return found
    left = visible(found.gpus, os.environ.get(VARIABLE))
    return found._replace(
        gpus=left.gpus,
        gpu_problem=left.problem,
        gpu_notice=left.notice or found.gpu_notice,
        gpu_fix=FIX if left.problem or left.notice else found.gpu_fix,
    )


def free_gpus(gpus: Iterable[Gpu], *, slices: bool = False) -> list[Gpu]:
    """Those that a run may take, the one with the most free memory first; with `slices`, parts of divided ones too.

    A slice has no number of its own: `cuda_name` is what CUDA calls it.
    """
    offered = (gpu for gpu in devices(gpus) if gpu.is_free and (slices or not is_slice(gpu)))
    return sorted(offered, key=lambda gpu: (-(gpu.free_gib or 0), gpu.index))


def devices(gpus: Iterable[Gpu]) -> list[Gpu]:
    """The GPUs, and the slices (MIG) of those that are divided."""
    return [part for gpu in gpus for part in (gpu, *(gpu.slices or ()))]


def is_slice(gpu: Gpu) -> bool:
    """True for a part (MIG) of a divided GPU."""
    return (gpu.uuid or "").startswith("MIG-")


def cuda_name(gpu: Gpu) -> int | str:
    """What `CUDA_VISIBLE_DEVICES` calls it: the UUID of a slice, else the number, which prime-rl needs."""
    return str(gpu.uuid) if is_slice(gpu) else gpu.index


def _problem(kind: int | str, told: object = "") -> Listing:
    message, fix = PROBLEMS[kind]
    return Listing(gpu_problem=message.format(told=told), gpu_fix=fix)


# ------------------------------------------------------------------------------------------------ NVIDIA's library


def _from_library(deadline: float) -> tuple[Listing | None, bool]:
    """What NVML says, `None` when it is not installed; and whether `nvidia-smi`, which uses it, need not be asked."""
    try:
        answer = answer_of((sys.executable, "-P", PROGRAM), limit_s=_left(deadline))
    except OSError as error:
        return _problem("full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "unasked", error.strerror), True
    if answer.code is None:
        return _problem("late", f"{LIMIT_S:.0f}"), True
    told = _told(answer.out)
    if told is None:
        return _problem("crashed", f"exit code {answer.code}: {answer.said}"), False
    kind = told.get("problem")
    if kind in {NO_PACKAGE, NO_LIBRARY}:
        return None, False
    if kind is not None:
        return _problem(kind if kind in PROBLEMS else "refused", told["told"]), kind in PROBLEMS
    highest = told["cuda"] and (told["cuda"] // 1000, told["cuda"] % 1000 // 10)
    return Listing(gpus=tuple(map(_gpu, told["gpus"])), driver=told["driver"], cuda=highest), True


def _told(out: str) -> dict[str, Any] | None:
    """The answer of the program: what Python loads at its start and its end may print more."""
    for line in reversed(out.splitlines()):
        with suppress(ValueError, RecursionError):
            told = json.loads(line)
            if isinstance(told, dict) and told.keys() & {"gpus", "problem"}:
                return told
    return None


def _gpu(told: dict[str, Any]) -> Gpu:
    memory = {
        f"{name}_gib": None if not told.get("total") or told.get(key) is None else round(told[key] / 2**30, 1)
        for name, key in (("memory", "total"), ("free", "free"))
    }
    parts = tuple(_gpu({**part, "index": told["index"]}) for part in told.get("slices", ()))
    gpu = Gpu(
        index=told["index"],
        name=told.get("name") or UNKNOWN,
        uuid=told.get("uuid"),
        compute_capability=told.get("capability"),
        owners=_owners(told.get("pids")),
        slices=parts if told.get("divided") else None,
        **memory,
    )
    used_gib = (gpu.memory_gib or 0) - (gpu.free_gib or 0)
    known = gpu.memory_gib is not None and gpu.free_gib is not None
    if known and gpu.owners == () and told["graphics"] == [] and used_gib > HIDDEN_GIB:
        return gpu.model_copy(update={"owners": (GpuOwner(who=NOT_VISIBLE),)})
    return gpu


# ------------------------------------------------------------------------------------------------------ nvidia-smi


def _from_nvidia_smi(deadline: float) -> Listing | None:
    """What `nvidia-smi` says; `None` without one."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", mode=os.F_OK)
    if program is None:
        return None

    def ask(*options: str) -> Answer:
        return answer_of((program, *options), limit_s=_left(deadline))

    try:
        fields, answer = QUERY, ask(f"--query-gpu={','.join(QUERY)}", CSV)
        if "not a valid field" in answer.said:
            fields, answer = OLD_QUERY, ask(f"--query-gpu={','.join(OLD_QUERY)}", CSV)
        if answer.code is None:
            return _problem("hangs", f"{LIMIT_S:.0f}")
        rows = [_row(line, len(fields)) for line in answer.out.splitlines() if NUMBERED.match(line)]
        if not rows:
            return _without_rows(answer)
        owners, header = ask("--query-compute-apps=gpu_uuid,pid", CSV), ask()
    except OSError as error:
        return _problem("unstartable", f"{program}: {error.strerror}")
    version = re.search(r"CUDA[\w ]* Version *: *(\d+)\.(\d+)", header.out)
    return Listing(
        gpus=tuple(_listed(row, owners) for row in rows),
        gpu_notice=f"nvidia-smi said: {answer.said}" if answer.code else None,
        gpu_fix=SEE if answer.code else None,
        driver=rows[0][5] if rows[0][5][:1].isdecimal() else None,
        cuda=version and (int(version[1]), int(version[2])),
    )


def _without_rows(answer: Answer) -> Listing:
    """What an answer without any GPU means. A version mismatch is told on standard output, with exit code 18."""
    said = answer.said.lower()
    if "no devices were found" in said:
        return Listing()
    if answer.code == MISMATCH or "version mismatch" in said:
        return _problem(MISMATCH, answer.said)
    if answer.code == NO_DRIVER or "communicate with the nvidia driver" in said:
        return _problem(NO_DRIVER, answer.said)
    if answer.code in {126, 127}:
        return _problem("unstartable", answer.said)
    return _problem("failed", f"{answer.code}: {answer.said}") if answer.code else _problem("unreadable", answer.said)


def _row(line: str, columns: int) -> list[str]:
    """The fields of a line: a comma in the name of a GPU is not quoted, and what was left out is empty."""
    fields = [field.strip() for field in line.split(",")]
    name_ends = 3 + max(0, len(fields) - columns)
    absent = [""] * (len(QUERY) - len(fields))
    return [*fields[:2], ", ".join(fields[2:name_ends]), *fields[name_ends:], *absent]


def _listed(row: list[str], owners: Answer) -> Gpu:
    """A GPU in an answer of `nvidia-smi`; a field that is no number, such as `[N/A]`, is unknown."""
    uuid = row[1] if row[1].startswith("GPU-") else None
    lines, pids = [line for line in owners.out.splitlines() if line.strip() and not line.startswith("WARNING")], None
    if owners.code == 0 and uuid and all(line.startswith("GPU-") for line in lines):  # else some are not told
        pids = [_number(line.partition(",")[2]) for line in lines if line.startswith(uuid)]
    major, minor = map(_number, row[6].partition(".")[::2])
    return Gpu(
        index=int(row[0]),
        name=row[2] or UNKNOWN,
        uuid=uuid,
        memory_gib=_gib(row[3]) or None,  # none in all is none that was told
        free_gib=_gib(row[4]),
        compute_capability=None if major is None or minor is None else (major, minor),
        owners=_owners(pids),
        slices=() if row[7] == "Enabled" else None,
    )


def _gib(mebibytes: str) -> float | None:
    number = _number(mebibytes.removesuffix("MiB"))
    return None if number is None else round(number / 1024, 1)


def _number(word: str) -> int | None:
    return int(word) if re.fullmatch(r" *[0-9]{1,15} *", word) else None


# ------------------------------------------------------------------------------------------------- neither of them


def _from_the_system(device: Path, built_in: Path) -> Listing:
    """Without any of NVIDIA's tools: whether there is a driver or a GPU nevertheless."""
    if device.exists():
        return _problem("no tools")
    return _problem("no driver") if any(_is_nvidia(folder) for folder in built_in.glob("*")) else Listing()


def _is_nvidia(folder: Path) -> bool:
    """True for a display or 3D controller (PCI class 03) of NVIDIA (PCI vendor 10de)."""
    try:
        vendor, kind = (folder / "vendor").read_text(), (folder / "class").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return vendor.strip().lower() == "0x10de" and kind.startswith("0x03")


def _owners(pids: Sequence[int | None] | None) -> tuple[GpuOwner, ...] | None:
    return None if pids is None else tuple(map(owner_of, pids))


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
