"""Processes of ours: who they are, how they start, and how a whole tree of them ends.

Knows nothing of runs, and signals only processes that it is given by identity, their descendants, and those that
carry the mark of the run. A pid alone is never trusted: it is reused.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path

import psutil

from rlguide.environ import inherited
from rlguide.records import Process, ProcessIdentity

MARK = "RLGUIDE_RUN"
"""Environment variable that every process of a run inherits; its value is the run's own."""
POLL_S = 0.1
ORPHAN_GRACE_S = 5.0
"""Seconds for processes whose parent is already gone: nobody is left whose work they could finish."""
KILL_LIMIT_S = 10.0
"""Seconds after the first SIGKILL until a process counts as one that cannot be killed."""
START_TOLERANCE_S = 0.02
"""Start times are multiples of 0.01 s on Linux; sums of floats differ by less."""
SIGNALS = 4096
"""As many are noticed in one go; each is one byte in a pipe."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


# ------------------------------------------------------------------------------------------------------- identity


def own_identity() -> ProcessIdentity:
    """Identity of this process."""
    return _identity(psutil.Process())


def identity_of(pid: int) -> ProcessIdentity | None:
    """Identity of the live process with that pid; `None` when there is none, or only a zombie."""
    try:
        process = psutil.Process(pid)
        return _identity(process) if _lives(process) else None
    except (psutil.NoSuchProcess, ValueError):  # ValueError: a negative pid
        return None


def is_alive(identity: ProcessIdentity) -> bool:
    """True when exactly that process still runs here: pid, start time, host and boot match, and it is no zombie."""
    return _find(identity) is not None


def _find(identity: ProcessIdentity) -> psutil.Process | None:
    now = identity_of(identity.pid)
    if now is None or (now.host, now.boot_id) != (identity.host, identity.boot_id):
        return None
    if abs(now.start_time - identity.start_time) > START_TOLERANCE_S:
        return None
    try:
        return psutil.Process(identity.pid)
    except psutil.NoSuchProcess:
        return None


def _identity(process: psutil.Process) -> ProcessIdentity:
    return ProcessIdentity(pid=process.pid, start_time=_start_time(process), host=host(), boot_id=boot_id())


def _start_time(process: psutil.Process) -> float:
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


def _lives(process: psutil.Process) -> bool:
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


# --------------------------------------------------------------------------------------------------------- ending


def descendants(roots: Iterable[psutil.Process]) -> set[psutil.Process]:
    """All live processes below `roots`, without the roots."""
    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        try:
            children.setdefault(process.ppid(), []).append(process)
        except psutil.Error:  # gone meanwhile, or hidden from us
            continue
    found: set[psutil.Process] = set()
    below = [root for root in roots if root.is_running()]
    while below:
        new = [child for child in children.get(below.pop().pid, ()) if child not in found]
        found.update(new)
        below += new
    return {process for process in found if _lives(process)}


def marked(mark: str) -> set[psutil.Process]:
    """All live processes whose environment carries that mark, whoever their parent is; never this process itself."""
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.pid != os.getpid() and _lives(process):
                found.add(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end_tree(
    roots: Iterable[ProcessIdentity],
    *,
    grace_s: float,
    mark: str | None = None,
    at_once: bool = False,
    while_waiting: Callable[[], object] | None = None,
) -> tuple[ProcessIdentity, ...]:
    """End `roots`, all their descendants and every process that carries `mark`.

    The roots get SIGTERM and `grace_s` seconds, in which they look after their own children, or, with `at_once`, the
    children are told together with them. What then remains gets SIGTERM and a short while, then SIGKILL. The tree is
    walked before the first signal and again at every look, and remembered. This process itself may be a root: its
    descendants end, it does not. `while_waiting` is called at every look. Returns those that could not be killed
    within `KILL_LIMIT_S`.
    """
    family = _Family(roots, mark, while_waiting or (lambda: None))
    family.signal(signal.SIGTERM, family.living() if at_once else family.heads)
    if family.wait(lambda: not (family.heads & family.living()), grace_s):
        orphans_s = min(grace_s, ORPHAN_GRACE_S)
        family.wait(lambda: not family.signal(signal.SIGTERM, family.living(search=True)), orphans_s)
    family.wait(lambda: not family.signal(signal.SIGKILL, family.living(search=True), again=True), KILL_LIMIT_S)
    return tuple(_identity(process) for process in family.living(search=True))


class _Family:
    """The processes that `end_tree` ends. psutil refuses to signal a pid that was reused meanwhile."""

    def __init__(self, roots: Iterable[ProcessIdentity], mark: str | None, while_waiting: Callable[[], object]):
        self._roots = {process for root in roots if (process := _find(root)) is not None}
        self.heads = {process for process in self._roots if process.pid != os.getpid()}
        self._mark = mark
        self._while_waiting = while_waiting
        self._known = set(self.heads)
        self._signalled: set[psutil.Process] = set()
        self.living(search=True)

    def living(self, *, search: bool = False) -> set[psutil.Process]:
        """Who is still there. `search` also looks for the mark among all processes, which costs more."""
        if search and self._mark:
            self._known |= marked(self._mark)
        self._known |= descendants(self._roots | self._known)
        self._known = {process for process in self._known if process.pid != os.getpid() and _lives(process)}
        return set(self._known)

    def signal(
        self, number: signal.Signals, processes: set[psutil.Process], *, again: bool = False
    ) -> set[psutil.Process]:
        """Signal each of them, once unless `again`, and wake it: a suspended one would not see it. Returns them all."""
        for process in processes if again else processes - self._signalled:
            try:
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone meanwhile; or not ours to signal, and then reported as left over
        self._signalled |= processes
        return processes

    def wait(self, done: Callable[[], bool], limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() >= deadline:
                return False
            self._while_waiting()
            time.sleep(POLL_S)
        return True
