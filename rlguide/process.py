"""Who a process is. A pid alone is never trusted: it is reused."""

import socket
import subprocess
from functools import cache
from pathlib import Path

import psutil

from rlguide.records import ProcessIdentity

MARK = "RLGUIDE_RUN"
"""Environment variable that every process of a run inherits; its value is the run's own."""
START_TOLERANCE_S = 0.02
"""Start times are multiples of 0.01 s on Linux; sums of floats differ by less."""


def own_identity() -> ProcessIdentity:
    """Identity of this process."""
    return identity_from(psutil.Process())


def identity_of(pid: int) -> ProcessIdentity | None:
    """Identity of the live process with that pid; `None` when there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        return identity_from(process) if lives(process) else None
    except (psutil.NoSuchProcess, ValueError):  # ValueError: a negative pid
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    """True when exactly that process still runs here: pid, start time, host and boot match, and it is no zombie."""
    return find(identity) is not None


def find(identity: ProcessIdentity) -> psutil.Process | None:
    """Exactly that process, when it still runs here."""
    try:
        process = psutil.Process(identity.pid)
        now = identity_from(process)
    except (psutil.NoSuchProcess, ValueError):
        return None
    is_here = (now.host, now.boot_id) == (identity.host, identity.boot_id)
    is_it = is_here and abs(now.start_time - identity.start_time) <= START_TOLERANCE_S
    return process if is_it and lives(process) else None


def identity_from(process: psutil.Process) -> ProcessIdentity:
    """Identity of a process that was found otherwise. Raises `psutil.NoSuchProcess`."""
    return ProcessIdentity(pid=process.pid, start_time=start_time(process), host=host(), boot_id=boot_id())


def start_time(process: psutil.Process) -> float:
    """psutil adds the boot time on Linux, which moves whenever the clock is set; without it the value never moves."""
    since_epoch = process.create_time()
    return round(since_epoch - psutil.boot_time(), 2) if psutil.LINUX else since_epoch


@cache
def host() -> str:
    """Name of this machine; kept, because joining another network may change it while a run is watched."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """The system's own name for this boot. psutil has only the boot time, which moves when the clock is set."""
    if psutil.MACOS:
        command = ("sysctl", "-n", "kern.bootsessionuuid")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        return Path(psutil.PROCFS_PATH, "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


def lives(process: psutil.Process) -> bool:
    """True when it still runs and is no zombie; its pid may be another's by now."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
