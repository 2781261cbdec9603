"""How prime-rl's launcher watches its children and ends them, and how it finds GPUs."""

import json
import os
import signal
import subprocess
import time
from contextlib import nullcontext, suppress
from pathlib import Path

from prime_rl_stand_in.behaviour import deaf, hear_again, told
from prime_rl_stand_in.logger import Logger

POLL_S = 0.02


class Children:
    """The launcher's children in the order of their start; those that have a name are watched."""

    def __init__(self, log: Logger):
        self._log = log
        self._all: list[subprocess.Popen] = []
        self.named: dict[str, subprocess.Popen] = {}

    def start(self, name: str | None, argv: list[str] | str, output: Path | None, **env: str) -> None:
        """Start a program by its bare name, as `PATH` finds it, in the launcher's own session and process group."""
        with output.open("w") if output else nullcontext() as file, deaf():
            options = {"stdout": file, "stderr": file, "shell": isinstance(argv, str), "preexec_fn": hear_again}
            child = subprocess.Popen(argv, env=os.environ | env, **options)
            self._all.append(child)
            if name:
                self.named[name] = child

    def failed(self) -> tuple[str, int] | None:
        """The first child that ended with another exit code than 0."""
        codes = {name: child.poll() for name, child in self.named.items()}
        return next(((name, code) for name, code in codes.items() if code), None)

    def are_done(self, *names: str) -> bool:
        return all(self.named[name].poll() is not None for name in names)

    def end(self) -> None:
        """Wait a moment for each that lives, then end one after the other, with all below it."""
        for child in self.named.values():
            if child.poll() is None:
                time.sleep(told("join_s"))
        for child in self._all:
            if child.poll() is not None:
                continue  # what it has left behind is nobody's: as in reality
            _signal_tree(child.pid, signal.SIGTERM)
            try:
                child.wait(timeout=told("kill_after_s"))
            except subprocess.TimeoutExpired:
                _signal_tree(child.pid, signal.SIGKILL)
            self._log.debug(f"Cleaned up process {child.pid}")


def _signal_tree(pid: int, number: int) -> None:
    for each in (*descendants(pid), pid):
        with suppress(ProcessLookupError):
            os.kill(each, number)


def descendants(pid: int) -> list[int]:
    """All processes below one, by what `/proc` says now."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):  # gone meanwhile
            continue
    found, look = [], [pid]
    while look:
        children = [child for child, parent in parents.items() if parent in look]
        found, look = found + children, children
    return found


def physical_gpus() -> list[int]:
    """Those in CUDA_VISIBLE_DEVICES, which must be numbers, else all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(range(len(_pids_of_gpus())))
    return [int(token.strip()) for token in visible.split(",") if token.strip()]


def require_free(gpus: list[int]) -> None:
    """Raises `RuntimeError` when any process is on one of these GPUs."""
    found = _pids_of_gpus()
    busy = [(gpu, found[gpu]) for gpu in sorted(set(gpus)) if found[gpu]]
    if busy:
        lines = [f"  GPU {gpu}: PIDs {pids}" for gpu, pids in busy]
        last = "Kill these processes or use different GPUs."
        raise RuntimeError("\n".join(["Existing processes found on GPUs:", *lines, last]))


def _pids_of_gpus() -> list[list[int]]:
    """The processes on each GPU, as FAKE_NVML describes the machine, else as the stand-in is told."""
    if described := os.environ.get("FAKE_NVML"):
        return [(gpu or {}).get("pids") or [] for gpu in json.loads(described).get("gpus", [])]
    return [told("busy").get(str(gpu), []) for gpu in range(told("gpus"))]
