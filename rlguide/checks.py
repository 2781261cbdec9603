"""Tests what an engine needs of this machine and judges it: one verdict, and a fix for whatever is missing.

A check looks and never changes anything, never raises, and has a deadline; what could not be found out is a warning.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rlguide import engines, probe
from rlguide.accounts import ANY, expected_account
from rlguide.asking import Finding, Question, ask
from rlguide.config import Wandb, from_preset
from rlguide.errors import Busy, ConfigError, EngineMissing
from rlguide.paths import PACKAGE, TINY_POLICY, outputs_root
from rlguide.records import Check, Machine, MachineReport, Status
from rlguide.slot import cpu_slot

IMPORTS = (("torch", "transformers", "trl"), ("datasets", "verifiers", "reverse_text"))
"""Packages to import, one child process a group: two take half the time on two cores."""
IMPORT_DEADLINE_S = 60.0
"""A cold disk can take this long to read torch and its libraries."""
WANDB_DEADLINE_S = 10.0
"""W&B answers within 3 s; when nobody answers it takes 9 s to tell why."""
CHECKPOINT_FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json")

# A run with its evaluation needs these.
RUN_DISK_GIB = 0.5
TEMPORARY_DISK_GIB = 0.2
TRAINING_MEMORY_GIB = 2.5


def check_machine(engine: str = "auto", *, only: Sequence[str] = (), wandb: Wandb | None = None) -> MachineReport:
    """Test what `engine` needs here, or `only` the named of it: one verdict, and every check. Changes nothing.

    `wandb` is that part of a configuration; with mode `online` W&B is asked whose key is here. Unset, it is `off`.
    """
    try:
        name = engines.find_engine(engines.AUTO if engine == "auto" else engine).name
    except EngineMissing as error:
        absent = Check(
            id="engine", title="engine", status=Status.FAIL, seen=error.message, wanted="an engine", fix=error.hint
        )
        return _report(engine, (absent,), None)
    machine = probe.machine()
    asked = [q for q in questions(machine, wandb or Wandb()) if not only or {q.id, q.id.split(".")[0]} & {*only}]
    if unknown := {*only} - {name for q in asked for name in (q.id, q.id.split(".")[0])}:
        raise ConfigError(f"there is no check {', '.join(sorted(unknown))}", hint="rlguide doctor --all lists them")
    return _report(name, ask(asked), None if only else machine)


def require(*names: str, engine: str = "auto") -> MachineReport:
    """Stop with a hint unless the named checks (none: all) do not fail; the others are not made.

    A name is a check's id or the part before its dot: `"packages"` stands for `"packages.torch"` and the others.
    Raises `EngineMissing`, and `ConfigError` for a name that no check has.
    """
    report = check_machine(engine, only=names)
    if failed := [check for check in report.checks if check.status is Status.FAIL]:
        message = "\n".join(f"{check.title}: {check.seen} (wanted: {check.wanted})" for check in failed)
        raise EngineMissing(message, hint=failed[0].fix)
    return report


def _report(engine: str, checks: tuple[Check, ...], machine: Machine | None) -> MachineReport:
    failed = [check.title for check in checks if check.status is Status.FAIL]
    doubtful = [check.title for check in checks if check.status is Status.WARN]
    if failed:
        verdict = f"The {engine} engine cannot run here yet: {', '.join(failed)}."
    elif machine is None:
        verdict = f"Nothing is missing of what was asked: {', '.join(check.title for check in checks)}."
    else:
        took = engines.plan(from_preset("tiny"), machine=machine).estimate_s
        steps = f"20 steps of the tiny policy take about {took:.0f} s." if took else "No estimate of the time."
        verdict = f"The {engine} engine runs here. {steps}"
    if doubtful and not failed:
        verdict += f" In doubt: {', '.join(doubtful)}."
    return MachineReport(engine=engine, checks=checks, verdict=verdict)


def questions(machine: Machine, wandb: Wandb) -> list[Question]:
    """What the embedded engine needs."""
    root = outputs_root()
    trials = [ImportTrial(modules) for modules in IMPORTS]
    return [
        Question("python", "Python", "3.11 to 3.13", look_at_python),
        Question("cores", "processor cores", "2 or more", partial(look_at_cores, machine)),
        Question("memory", "memory", f"{TRAINING_MEMORY_GIB} GiB available", partial(look_at_memory, machine)),
        Question("gpus", "GPUs", "none needed", partial(look_at_gpus, machine)),
        Question("outputs", "outputs folder", "writable", partial(look_at_outputs, root)),
        Question("disk", "disk for outputs", f"{RUN_DISK_GIB} GiB free", partial(look_at_disk, root, RUN_DISK_GIB)),
        Question(
            "temporary-disk",
            "disk for temporary files",
            f"{TEMPORARY_DISK_GIB} GiB free",
            partial(look_at_disk, Path(tempfile.gettempdir()), TEMPORARY_DISK_GIB),
        ),
        *(
            Question(f"packages.{name}", name, "imports", partial(trial.find, name), IMPORT_DEADLINE_S + 5)
            for trial in trials
            for name in trial.modules
        ),
        Question("warm-start", "tiny policy", "complete", partial(look_at_checkpoint, TINY_POLICY)),
        Question("loopback", "connections to this machine", "work, without a proxy", look_at_loopback),
        Question("processor", "processor for training", "not in use by another run", look_at_slot),
        Question("wandb", "W&B account", "yours, in mode online", partial(look_at_wandb, wandb), WANDB_DEADLINE_S),
    ]


def look_at_python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    seen = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding(Status.PASS if good else Status.WARN, seen, "make the virtual environment with Python 3.11 to 3.13")


def look_at_cores(machine: Machine) -> Finding:
    status = Status.PASS if machine.cores >= 2 else Status.WARN
    return Finding(status, str(machine.cores), "training works but takes twice as long; give this machine more cores")


def look_at_memory(machine: Machine) -> Finding:
    status = Status.PASS if machine.memory_gib >= TRAINING_MEMORY_GIB else Status.FAIL
    return Finding(status, f"{machine.memory_gib:.1f} GiB available", "close other programs, or raise the memory limit")


def look_at_gpus(machine: Machine) -> Finding:
    if machine.gpu_problem:
        return Finding(Status.WARN, f"unknown: {machine.gpu_problem}", "see what `nvidia-smi` says")
    return Finding(Status.PASS, ", ".join(f"{gpu.index} {gpu.name}" for gpu in machine.gpus) or "none")


def look_at_outputs(root: Path) -> Finding:
    folder = _nearest(root)
    usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    fix = "set RLGUIDE_OUTPUTS to a folder that you may write to"
    return Finding(Status.PASS if usable else Status.FAIL, f"{root} ({'' if usable else 'not '}writable)", fix)


def look_at_disk(folder: Path, wanted_gib: float) -> Finding:
    free_gib = shutil.disk_usage(_nearest(folder)).free / probe.GIB
    status = Status.PASS if free_gib >= wanted_gib else Status.FAIL
    return Finding(status, f"{free_gib:.1f} GiB free at {folder}", "free some space, or use a folder on another disk")


def _nearest(path: Path) -> Path:
    """`path`, or the folder above it that exists."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def look_at_checkpoint(folder: Path) -> Finding:
    """The files of a policy are there and its weights are as long as their header says."""
    fix = "install rlguide again, or make the policy anew with `rlguide warm-start`"
    absent = [name for name in CHECKPOINT_FILES if not (folder / name).is_file()]
    if absent:
        return Finding(Status.FAIL, f"missing in {folder}: {', '.join(absent)}", fix)
    weights = folder / "model.safetensors"
    wanted, found = safetensors_length(weights), weights.stat().st_size
    if wanted != found:
        return Finding(Status.FAIL, f"{weights} has {found} bytes, not {wanted}", fix)
    return Finding(Status.PASS, f"{found / 1e6:.1f} MB at {folder}")


def safetensors_length(path: Path) -> int:
    """Length in bytes that the header of a safetensors file promises: 8 bytes, header, tensors.

    The format: https://github.com/huggingface/safetensors#format
    """
    with path.open("rb") as file:
        (header_length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_length))
    return 8 + header_length + max(entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__")


def look_at_loopback() -> Finding:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(2)
        with socket.create_connection(server.getsockname(), timeout=2) as client:
            server.accept()[0].close()
            client.recv(1)
    proxy = urllib.request.getproxies().get("http")
    if proxy and not urllib.request.proxy_bypass("127.0.0.1"):
        return Finding(Status.WARN, f"work, but would go through the proxy {_host(proxy)}", "export NO_PROXY=127.0.0.1")
    return Finding(Status.PASS, "work")


def _host(url: str) -> str:
    """A proxy's address without the password that it may hold."""
    return url.rsplit("@", 1)[-1]


def look_at_slot() -> Finding:
    try:
        with cpu_slot("rlguide doctor"):
            return Finding(Status.PASS, "free")
    except Busy as error:
        return Finding(Status.WARN, error.message, error.hint)


def look_at_wandb(wandb: Wandb) -> Finding:
    """Whose W&B account a run would report to."""
    if wandb.mode != "online":
        return Finding(Status.PASS, f"none is needed: the mode is {wandb.mode}")
    try:
        return Finding(Status.PASS, expected_account(wandb.expected_user or ANY).told)
    except ConfigError as error:
        return Finding(Status.FAIL, error.message, error.hint)


class ImportTrial:
    """Imports packages in one child process; a crash there is a finding, not a crash here."""

    def __init__(self, modules: Sequence[str], *, python: Path = Path(sys.executable)):
        self.modules = tuple(modules)
        self.python = python
        self._lock = threading.Lock()
        self._found: dict[str, Finding] = {}

    def find(self, module: str) -> Finding:
        """How importing `module` went. The first caller runs the child, the others wait for it."""
        with self._lock:
            if not self._found:
                self._found = self._run()
        return self._found[module]

    def _run(self) -> dict[str, Finding]:
        argv = [self.python, "-P", PACKAGE / "programs" / "try_imports.py", *self.modules]
        quiet = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}  # no CUDA context, no network
        try:
            child = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=IMPORT_DEADLINE_S,
                env=os.environ | quiet,
                check=False,
            )
            output, end = child.stdout, f"Python ended with exit code {child.returncode}"
        except subprocess.TimeoutExpired as error:
            output, end = error.stdout or b"", f"still importing after {IMPORT_DEADLINE_S:.0f} s"
        told: dict[str, dict[str, str]] = {}
        for line in output.decode(errors="replace").splitlines():
            answer = json.loads(line)
            told[answer["module"]] = answer
        return {module: self._judge(told.get(module), end) for module in self.modules}

    def _judge(self, answer: dict[str, str] | None, end: str) -> Finding:
        if answer and answer.get("file"):
            return Finding(Status.PASS, f"{answer['version']} from {answer['file']}".strip())
        if answer is None:
            return Finding(Status.SKIP, f"not tried: {end} before")
        seen = f"{answer.get('error', f'{end} while importing it')} ({self.python})"
        return Finding(Status.FAIL, seen, f"{self.python} -m pip install 'rlguide[local]'")
