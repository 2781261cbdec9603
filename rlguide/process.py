"""Processes of ours: who they are, how they start, and how their exits are collected.

A pid alone is never trusted: it is reused.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import psutil

from rlguide.environ import inherited
from rlguide.records import Process, ProcessIdentity

MARK = "RLGUIDE_RUN"
"""Environment variable that every process of a run inherits; its value is the run's own."""
START_TOLERANCE_S = 0.02
"""Start times are multiples of 0.01 s on Linux; sums of floats differ by less."""
SIGNALS = 4096
"""As many are noticed in one go; each is one byte in a pipe."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


# ------------------------------------------------------------------------------------------------------- identity


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
    now = identity_of(identity.pid)
    if now is None or (now.host, now.boot_id) != (identity.host, identity.boot_id):
        return None
    if abs(now.start_time - identity.start_time) > START_TOLERANCE_S:
        return None
    try:
        return psutil.Process(identity.pid)
    except psutil.NoSuchProcess:
        return None


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


# ------------------------------------------------------------------------------------------------------- starting


def start(process: Process, directory: Path) -> "subprocess.Popen[bytes]":
    """Start one planned process in `directory`, in its own session, with its output appended to its log file.

    On Linux the kernel sends it SIGTERM when the thread that called this function is gone, so that it saves and
    ends after its parent was killed. Raises `OSError` when the program or the log cannot be opened.
    """
    log = directory / process.log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            process.argv,
            cwd=directory,
            env=inherited() | process.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )


def _end_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl, parent = _prctl(), os.getpid()  # the library is loaded before the fork

    def ask_kernel() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died between the fork and the line above
            os.kill(os.getpid(), signal.SIGTERM)

    return ask_kernel


def become_subreaper() -> bool:
    """From now on orphans among this process' descendants become its children (Linux only). True on success."""
    return sys.platform == "linux" and _prctl()(PR_SET_CHILD_SUBREAPER, 1) == 0


@cache
def _prctl() -> Callable[..., int]:
    return ctypes.CDLL(None).prctl


def wake_on_signals() -> Callable[[float], None]:
    """A sleep that ends early when a child of this process ends or another handled signal comes. Main thread only."""
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def sleep(limit_s: float) -> None:
        if select.select([woken], [], [], limit_s)[0]:
            os.read(woken, SIGNALS)

    return sleep


def reap_orphans(ours: Collection[int]) -> None:
    """Collect the exits of adopted children. Pids in `ours` are left to whoever started them."""
    while sys.platform == "linux":
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in ours:
                return
            os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            return
