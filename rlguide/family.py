"""Whole trees of processes: who belongs to one, and how all of them end.

Knows nothing of runs, and signals only processes that are below this one or carry the mark of the run, never on the
word of a file alone.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable

import psutil

from rlguide.process import MARK, find, identity_of, lives
from rlguide.records import ProcessIdentity

POLL_S = 0.1
ORPHAN_GRACE_S = 5.0
"""Seconds for processes whose parent is already gone: nobody is left whose work they could finish."""
KILL_LIMIT_S = 10.0
"""Seconds after the first SIGKILL until a process counts as one that cannot be killed."""


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
    return {process for process in found if lives(process)}


def all_pids() -> set[int]:
    """Of all processes; empty where the system shows none."""
    try:
        return {*psutil.pids()}
    except (OSError, IndexError):  # IndexError: psutil's own, for an empty /proc
        return set()


def marked(mark: str, *, but: Collection[int] = ()) -> set[psutil.Process]:
    """All live processes whose environment carries that mark, whoever their parent is; never this process itself.

    Those with the pids `but` are not looked at, which takes longer than to list them.
    """
    found = set()
    for pid in all_pids() - {*but}:
        try:
            process = psutil.Process(pid)
            if process.environ().get(MARK) == mark and process.pid != os.getpid() and lives(process):
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
    """End `roots`, all their descendants, and every process that carries `mark`.

    The roots get SIGTERM and `grace_s` seconds, in which they look after their own children, or, with `at_once`, the
    children are told together with them. What then remains gets SIGTERM and a short while, then SIGKILL. The tree is
    walked before the first signal and again at every look, and remembered. A root that neither is below this process
    nor carries the mark is left alone, whoever named it. This process itself may be a root: its descendants end, it
    does not. `while_waiting` is called at every look. Returns those that could not be killed within `KILL_LIMIT_S`.
    """
    family = _Family(roots, mark, while_waiting or (lambda: None))
    if not family.living(search=True):
        return ()
    family.signal(signal.SIGTERM, family.living() if at_once else family.heads)
    if family.wait(lambda: not (family.heads & family.living()), grace_s):
        orphans_s = min(grace_s, ORPHAN_GRACE_S)
        family.wait(lambda: not family.signal(signal.SIGTERM, family.living(search=True)), orphans_s)
    # Nobody at two looks in a row: one look misses a process that begins while its parent ends.
    family.wait(lambda: not (family.kill() or family.kill()), KILL_LIMIT_S)
    return tuple(filter(None, (identity_of(process.pid) for process in family.living(search=True))))


def left_over(processes: Collection[ProcessIdentity]) -> str | None:
    """A sentence about those that could not be killed; `None` where there are none."""
    pids = ", ".join(str(identity.pid) for identity in processes)
    return f"could not be killed, probably stuck in a driver: pid {pids}" if pids else None


class _Family:
    """The processes that `end_tree` ends. psutil refuses to signal a pid that was reused meanwhile.

    Whoever this process descends from is never among them: the shell of the reader, whatever a record says.
    """

    def __init__(self, roots: Iterable[ProcessIdentity], mark: str | None, while_waiting: Callable[[], object]):
        me = psutil.Process()
        self._spared = {me.pid, *(parent.pid for parent in me.parents())}
        ours = {me} | descendants([me]) | (marked(mark) if mark else set())
        self._roots = ours & {find(root) for root in roots}
        self.heads = {process for process in self._roots if process.pid not in self._spared}
        self._mark = mark
        self._while_waiting = while_waiting
        self._known = set(self.heads)
        self._signalled: set[psutil.Process] = set()

    def living(self, *, search: bool = False) -> set[psutil.Process]:
        """Who is still there. `search` also looks for the mark among all processes, which costs more."""
        if search and self._mark:
            self._known |= {process for process in marked(self._mark) if process.pid not in self._spared}
        self._known |= descendants(self._roots | self._known)
        self._known = {process for process in self._known if process.pid not in self._spared and lives(process)}
        return set(self._known)

    def signal(self, number: signal.Signals, processes: set[psutil.Process]) -> set[psutil.Process]:
        """Signal each of them once, and wake it: a suspended one would not see it. Returns them all."""
        for process in processes - self._signalled:
            try:
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # gone meanwhile; or not ours to signal, and then reported as left over
        self._signalled |= processes
        return processes

    def kill(self) -> set[psutil.Process]:
        """Kill whoever is found; returns them."""
        self._signalled.clear()
        return self.signal(signal.SIGKILL, self.living(search=True))

    def wait(self, done: Callable[[], bool], limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() >= deadline:
                return False
            self._while_waiting()
            time.sleep(POLL_S)
        return True
