"""How processes of ours start, and what their parent must know of children. Light: an engine waits for no more."""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlguide.environ import inherited
from rlguide.files import open_file

if TYPE_CHECKING:
    from rlguide.records import Process

SIGNALS = 4096
"""As many are noticed in one go; each is one byte in a pipe."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h

ASKING_TO_END = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU}
SUSPENDING = {signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT}
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}


def start(process: "Process", directory: Path) -> "subprocess.Popen[bytes]":
    """Start one planned process in `directory`, in its own session, with its output appended to its log file.

    On Linux the kernel sends it SIGTERM when the thread that called this function is gone, so that it saves and
    ends after its parent was killed. Raises `OSError` when the program or the log cannot be opened.
    """
    log = directory / process.log
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_file(log, "ab") as output:
        return subprocess.Popen(
            process.argv,
            cwd=directory,
            env=inherited() | process.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )


def end_with_parent(number: int = signal.SIGTERM) -> Callable[[], None] | None:
    """What a new process calls to be sent that signal when the thread that started it is gone; `None` but on Linux."""
    if sys.platform != "linux":
        return None
    prctl, parent = _prctl(), os.getpid()  # the library is loaded before the fork

    def ask_kernel() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent died between the fork and the line above
            os.kill(os.getpid(), number)

    return ask_kernel


def become_subreaper() -> bool:
    """From now on orphans among this process' descendants become its children (Linux only). True on success."""
    return sys.platform == "linux" and _prctl()(PR_SET_CHILD_SUBREAPER, 1) == 0


@cache
def _prctl() -> Callable[..., int]:
    return ctypes.CDLL(None).prctl


def heed_signals(asked_to_end: Callable[[int], object]) -> None:
    """Call `asked_to_end` with the number of a signal that asks this process to end, and outlive all that mean nothing
    to it, such as the SIGUSR1 with which some schedulers warn. Children hear them as ever. Main thread only.
    """

    def heed(number: int, _frame: object) -> None:
        if number in ASKING_TO_END:
            asked_to_end(number)

    for number in signal.valid_signals() - SUSPENDING - CRASHES:
        signal.signal(number, heed)  # never SIG_IGN: children would inherit that


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


def reap_orphans(ours: "Collection[subprocess.Popen[bytes]]") -> None:
    """Collect the exits of adopted children, and of `ours`, which keep their exit codes."""
    while sys.platform == "linux":
        living = {child.pid for child in ours if child.poll() is None}
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            if ended.si_pid in living:  # only now
                continue
            os.waitpid(ended.si_pid, 0)
        except ChildProcessError:
            return
