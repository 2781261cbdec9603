"""The stand-in for `torchrun`: one worker in a session of its own, whose output goes to files and is copied.

More than one worker is not started, whatever is asked for.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from prime_rl_stand_in.behaviour import begin, deaf, hear_again, hear_sigterm, told

POLL_S = 0.02
NOTICES_S = 0.1
"""How late torchrun notices that its worker has ended; who ends both has signalled torchrun before."""
PLACE = "torch/distributed/elastic"


class Copier:
    """Copies the whole lines of a growing file to one of torchrun's own outputs, with the worker's name before each."""

    def __init__(self, path: Path, descriptor: int):
        self._file = path.open("rb")
        self._descriptor = descriptor
        self._rest = b""

    def copy(self, *, all_of_it: bool = False) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        if all_of_it and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            os.write(self._descriptor, b"[trainer0]:" + line + b"\n")


def main() -> int:
    begin("torchrun", "torchrun")
    parser = argparse.ArgumentParser(prog="torchrun")
    for flag in ("--role", "--rdzv-endpoint", "--rdzv-id", "--log-dir", "--local-ranks-filter", "--redirects", "--tee"):
        parser.add_argument(flag)
    parser.add_argument("--nproc-per-node", type=int, default=1)
    parser.add_argument("-m", dest="module", required=True)
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    folder = Path(asked.log_dir) / f"{asked.rdzv_id}_{os.urandom(4).hex()}" / "attempt_0" / "0"
    folder.mkdir(parents=True)
    outputs = {name: folder / f"{name}.log" for name in ("stdout", "stderr")}
    argv = [sys.executable, "-u", "-m", asked.module, *asked.rest]
    env = os.environ | {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(asked.nproc_per_node)}
    with outputs["stdout"].open("wb") as out, outputs["stderr"].open("wb") as err, deaf():
        options = {"stdout": out, "stderr": err, "env": env, "preexec_fn": hear_again}
        worker = subprocess.Popen(argv, start_new_session=True, **options)
        hear_sigterm("torchrun", lambda: _end(worker))
    copiers = [Copier(outputs["stdout"], 1), Copier(outputs["stderr"], 2)]
    while worker.poll() is None:
        for copier in copiers:
            copier.copy()
        time.sleep(POLL_S)
    time.sleep(NOTICES_S)
    for copier in copiers:
        copier.copy(all_of_it=True)
    if worker.returncode:
        _tell_failure(worker, asked.module)
        return 1
    return 0


def _end(worker: subprocess.Popen) -> None:
    """What a SIGTERM leads to: the worker is ended, and torchrun with an exception."""
    _say("W", f"{PLACE}/agent/server/api.py:739", "Received 15 death signal, shutting down workers")
    if worker.poll() is None:
        _say("W", f"{PLACE}/multiprocessing/api.py:1012", f"Sending process {worker.pid} closing signal SIGTERM")
        os.killpg(worker.pid, signal.SIGTERM)
        try:
            worker.wait(timeout=told("worker_grace_s"))
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)
    print("Traceback (most recent call last):", file=sys.stderr)
    told_of = f"SignalException: Process {os.getpid()} got signal: 15"
    print(f"torch.distributed.elastic.multiprocessing.api.{told_of}", file=sys.stderr, flush=True)
    os._exit(1)


def _tell_failure(worker: subprocess.Popen, module: str) -> None:
    failed = f"failed (exitcode: {worker.returncode}) local_rank: 0 (pid: {worker.pid}) of binary: {sys.executable}"
    _say("E", f"{PLACE}/multiprocessing/api.py:984", failed)
    lines = (
        "Traceback (most recent call last):",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        f"{module} FAILED",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 0 (local_rank: 0)",
        f"  exitcode  : {worker.returncode} (pid: {worker.pid})",
        "=" * 60,
    )
    print("\n".join(lines), file=sys.stderr, flush=True)


def _say(level: str, place: str, message: str) -> None:
    when = time.strftime("%m%d %H:%M:%S.000000")
    print(f"{level}{when} {os.getpid()} {place}] {message}", file=sys.stderr, flush=True)
