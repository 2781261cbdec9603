"""Machines as they should not be, with the verdict that each deserves: `python tests/hostile_machines.py` counts them.

The kinds are those of the checks' own promises; `why` says what is hostile about an input.
"""

import json
import os
import shutil
import socket
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from checkouts import AUGUST, MIDDLE
from disks import full
from hostile_world import ANNA, GIB, H100, OTHER, PART, POLICY, RUN, TOKEN, World

from rlguide.ports import free_port
from rlguide.process import MARK
from rlguide.records import Status

PASS, WARN, FAIL, SKIP = Status


class Case(NamedTuple):
    """One machine, and what must be said of it."""

    kind: str
    why: str
    check: str
    status: Status
    said: str
    """Part of what was seen."""
    build: Callable[[World], object]
    engine: str = "trl"
    network: bool = False
    helps: str = ""
    """Part of the fix."""


def without(told: dict[str, Any], name: str) -> dict[str, Any]:
    """`told`, and nothing of that name."""
    return {key: value for key, value in told.items() if key != name}


def listed(why: str, status: Status, said: str, build: Callable[[World], object], check: str = "gpus") -> Case:
    return Case("GPUs through NVIDIA's library", why, check, status, said, build)


LIBRARY = (
    listed("one that is well", PASS, "79 of 80 GiB free, nobody on it: a run takes 0", lambda w: w.nvml(H100)),
    listed("no GPU at all", PASS, "none", lambda w: w.nvml()),
    listed("the driver is not loaded", WARN, "unknown: NVIDIA's driver is not loaded", lambda w: w.nvml(init=9)),
    listed("driver and library differ", WARN, "unknown: NVIDIA's driver was renewed", lambda w: w.nvml(init=18)),
    listed("no permission", WARN, "unknown: NVIDIA's library refused", lambda w: w.nvml(init=4)),
    listed("an error without a name", WARN, "unknown: NVIDIA's library refused", lambda w: w.nvml(init=999)),
    listed("a crash", WARN, "unknown: NVIDIA's library crashed", lambda w: w.nvml(H100, does="crash")),
    listed("words on standard output", PASS, "a run takes 0", lambda w: w.nvml(H100, does="talk")),
    listed("a GPU that was lost", PASS, "0 unknown GPU, memory unknown", lambda w: w.nvml(None, OTHER)),
    listed("all GPUs were lost", WARN, "none is free for certain", lambda w: w.nvml(None, None)),
    listed("memory is not told", WARN, "memory unknown", lambda w: w.nvml(without(H100, "total"))),
    listed("processes are not told", WARN, "who is on it is unknown", lambda w: w.nvml(without(H100, "pids"))),
    listed("memory is in use, by nobody that is seen", WARN, "not visible from this container",
           lambda w: w.nvml(H100 | {"free": 40 * GIB})),
    Case("GPUs through NVIDIA's library", "divided, and without slices", "gpus", WARN, "slices that are not told",
         lambda w: w.nvml(H100 | {"slices": []}), helps="nvidia-smi mig -cgi"),
    listed("half of it is in use by a desktop", WARN, "40 of 80 GiB free",
           lambda w: w.nvml(H100 | {"free": 40 * GIB, "graphics": [1]})),
)  # fmt: skip


def no_room(world: World) -> None:
    """The disk for temporary files is full."""
    place = world.disk("size=64k")
    temporary(world, place)
    world.stack.enter_context(full(place))


FULL = (
    listed("nowhere to write the answer", WARN, "unknown: nothing more can be written to",
           lambda w: [w.nvml(H100), no_room(w)]),
    Case("disks", "nowhere to write what an import says", "packages.torch", WARN,
         "nothing more can be written to", no_room),
)  # fmt: skip


def tool(why: str, status: Status, said: str, script: str | bytes, *, mode: int = 0o755) -> Case:
    build = lambda w: w.program("nvidia-smi", script, mode=mode)  # noqa: E731
    return Case("GPUs through nvidia-smi", why, "gpus", status, said, build)


def rows(*lines: str, end: str = "") -> str:
    """An `nvidia-smi` that lists these."""
    told = "".join(f"echo '{line}'\n" for line in lines)
    return (
        f'case "$*" in\n*query-gpu*)\n{told};;\n*query-compute-apps*) ;;\n*) echo "CUDA Version: 12.8" ;;\nesac\n{end}'
    )


WELL = "0, GPU-aaa, NVIDIA H100, 81559, 81079, 570.86, 9.0, Disabled"
SMI = (
    tool("one that is well", PASS, "79 of 80 GiB free, nobody on it", rows(WELL)),
    tool("a warning before, a blank line after", PASS, "a run takes 0", rows("WARNING: infoROM corrupted", WELL, "")),
    tool("every number in brackets", WARN, "memory unknown", rows("0, GPU-a, X, [N/A], [N/A], [N/A], [N/A], [N/A]")),
    tool("no permission to see memory", WARN, "memory unknown",
         rows("0, GPU-a, X, [Insufficient Permissions], 10, 535.1, [Not Supported], [N/A]")),
    tool("units behind the numbers", PASS, "79 of 80 GiB free",
         rows("0, GPU-a, X, 81559 MiB, 81079 MiB, 535.1, 8.0, [N/A]")),
    tool("errors in place of numbers", WARN, "memory unknown",
         rows("0, GPU-a, X, ERR!, [Unknown Error], [Not Supported], 8.x, ERR!")),
    tool("a divided GPU", WARN, "divided into slices that are not told",
         rows("0, GPU-a, X, 81559, 81079, 535.1, 9.0, Enabled")),
    tool("one is lost, the other is listed", WARN, "1 X", rows("1, GPU-b, X, 81559, 81079, 535.1, 9.0, [N/A]",
         end="echo 'Unable to determine the device handle: GPU is lost'; exit 15")),
    tool("library mismatch on standard output, exit 18", WARN, "unknown: NVIDIA's driver was renewed",
         "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"),
    tool("library mismatch, exit 0", WARN, "unknown: NVIDIA's driver was renewed",
         "echo 'Failed to initialize NVML: Driver/library version mismatch'"),
    tool("no driver", WARN, "unknown: NVIDIA's driver is not loaded",
         'echo "couldn\'t communicate with the NVIDIA driver" >&2; exit 9'),
    tool("no devices", PASS, "none", "echo 'No devices were found'; exit 6"),
    tool("it fails", WARN, "unknown: nvidia-smi failed (1: broken)", "echo broken >&2; exit 1"),
    tool("it crashes", WARN, "unknown: nvidia-smi failed (-11", "kill -SEGV $$"),
    tool("it says nothing", WARN, "cannot be read", "exit 0"),
    tool("a page of a web server", WARN, "cannot be read", "echo '<html>'"),
    tool("binary junk", WARN, "unknown: nvidia-smi", "printf '\\377\\000\\033[2J'; exit 1"),
    tool("not executable", WARN, "nvidia-smi: Permission denied", "exit 0", mode=0o644),
    tool("no program", WARN, "cannot be started", b"\x7fELF not a program"),
    tool("an interpreter that is not there", WARN, "cannot be started", b"#!/no/such/shell\n"),
)  # fmt: skip


def variable(text: str, status: Status, said: str) -> Case:
    def build(world: World) -> None:
        world.nvml(H100, OTHER, H100 | {"uuid": "GPU-ccc", "slices": [PART]})
        world.set(CUDA_VISIBLE_DEVICES=text)

    return Case("CUDA_VISIBLE_DEVICES", repr(text), "gpus", status, said, build)


VARIABLE = (
    variable("0", PASS, "a run takes 0"),
    variable("1,0", PASS, "a run takes 0"),
    variable(" 1 ,", PASS, "a run takes 1"),
    variable("01", PASS, "a run takes 1"),
    variable("GPU-bbb", PASS, "a run takes 1"),
    variable("GPU-b", PASS, "a run takes 1"),
    variable("MIG-1", PASS, "a run takes MIG-1"),
    variable("2", PASS, "a run takes MIG-1"),
    variable("", WARN, "hides all 3"),
    variable("-1", WARN, "hides all 3"),
    variable("NoDevFiles", WARN, "hides all 3"),
    variable("0,9", WARN, "names 9, which CUDA does not reach"),
    variable("99999999999999999999", WARN, "names 99999999999999999999"),
    variable("GPU-zzz", WARN, "names GPU-zzz"),
    variable("MIG-11111111-2222-3333-4444-555555555555", WARN, "which CUDA does not reach"),
    variable("GPU-", WARN, "is ambiguous: GPU- begins the UUIDs of 3 GPUs"),
    variable("0,0", WARN, "names 0 twice"),
    variable("0,GPU-bbb", WARN, "mixes UUIDs and indices"),
    variable("MIG-1,GPU-aaa", WARN, "mixes UUIDs and slices"),
    variable("all", WARN, "is not a list"),
    variable("none", WARN, "is not a list"),
    variable('"0,1"', WARN, "is not a list"),
    variable("0 1", WARN, "is not a list"),
    variable("0;1", WARN, "is not a list"),
    variable("cuda:0", WARN, "is not a list"),
    variable("0-1", WARN, "is not a list"),
    variable("0x1", WARN, "is not a list"),
    variable("²", WARN, "is not a list"),
    variable("0\n1", WARN, "is not a list"),
    variable("\x1b[31m0", WARN, "is not a list"),
)


def two(why: str, status: Status, said: str, build: Callable[[World], object]) -> Case:
    return Case("two GPUs for prime-rl", why, "gpus", status, said, build, engine="prime-rl")


def eight(world: World, visible: str) -> None:
    world.nvml(*(H100 | {"uuid": f"GPU-{n}"} for n in range(8)))
    world.set(CUDA_VISIBLE_DEVICES=visible)


def configured(world: World, gpus: list[int], *told: object) -> None:
    world.nvml(*told)
    world.configure(gpus=gpus)


TWO = (
    two("two that are free", PASS, "inference on 0, trainer on 1", lambda w: w.nvml(H100, OTHER)),
    two("two of eight by number", PASS, "inference on 4, trainer on 7", lambda w: eight(w, "4,7")),
    two("two of eight by UUID", PASS, "inference on 4, trainer on 7", lambda w: eight(w, "GPU-4,GPU-7")),
    two("in the order that was configured", PASS, "inference on 1, trainer on 0",
        lambda w: configured(w, [1, 0], H100, OTHER)),
    two("one configured that is busy", WARN, "inference on 0, trainer on 1; 1 is not free for certain",
        lambda w: configured(w, [0, 1], H100, OTHER | {"pids": [2**22 + 1]})),
    two("one configured that is not there", FAIL, "no GPU 5 for it here", lambda w: configured(w, [0, 5], H100, OTHER)),
    two("three configured", FAIL, "gpus = [0, 1, 2]: the prime-rl engine uses 2 GPUs",
        lambda w: configured(w, [0, 1, 2], H100, OTHER)),
    two("one configured that is too old", FAIL, "here (seen: GPUs 0 and 1; with a compute capability below",
        lambda w: configured(w, [0, 1], H100, OTHER | {"capability": [7, 5]})),
    two("one only", FAIL, "needs 2 free GPUs (seen: GPU 0; free: GPU 0)", lambda w: w.nvml(H100)),
    two("none", FAIL, "none", lambda w: w.nvml()),
    two("one of two is busy", FAIL, "(seen: GPUs 0 and 1; free: GPU 0)",
        lambda w: w.nvml(H100, OTHER | {"pids": [2**22 + 1]})),
    two("two of three, the first is busy", PASS, "inference on 1, trainer on 2",
        lambda w: w.nvml(H100 | {"pids": [2**22 + 1]}, OTHER, OTHER | {"uuid": "GPU-c"})),
    two("slices are no GPUs to it", FAIL, "(seen: GPU 0; free: none)",
        lambda w: w.nvml(H100 | {"slices": [PART, PART | {"uuid": "MIG-2"}]})),
    two("unknown, not absent", FAIL, "unknown: NVIDIA's library crashed", lambda w: w.nvml(H100, does="crash")),
    two("a variable that is no list", FAIL, "'0;1' is not a list", lambda w: eight(w, "0;1")),
    two("a variable that hides all", FAIL, "hides all 8", lambda w: eight(w, "")),
    two("too old for flash-attn", FAIL, "with a compute capability below 8.0: GPU 1; free: GPU 0)",
        lambda w: w.nvml(H100, OTHER | {"capability": [7, 5]})),
    two("two of three, the first is too old", PASS, "inference on 1, trainer on 2",
        lambda w: w.nvml(H100 | {"capability": [7, 0]}, OTHER, OTHER | {"uuid": "GPU-c"})),
)  # fmt: skip


def driver(
    why: str, status: Status, said: str, highest: int | None, torch: str, *, check: str = "driver",
    gpus: list[int] | None = None, **gpu: object,
) -> Case:  # fmt: skip
    def build(world: World) -> None:
        world.nvml(H100 | gpu, driver="535.183.01", cuda=highest)
        world.torch(torch)
        world.configure(gpus=gpus)

    return Case("driver against torch's CUDA", why, check, status, said, build)


def wheel(cuda: str, more: str = "") -> str:
    return f"__version__ = '2.9'\ncuda: Optional[str] = {cuda}\n{more}"


DRIVER = (
    driver("new enough", PASS, "CUDA up to 13.0, torch 2.9 is made for 12.8", 13000, wheel("'12.8'")),
    driver("exactly that", PASS, "made for 12.8", 12080, wheel("'12.8'")),
    driver("10 is more than 9", PASS, "made for 12.9", 12100, wheel("'12.9'")),
    driver("older, same major", WARN, "works in most cases", 12020, wheel("'12.8'")),
    driver("535 against CUDA 13", WARN, "driver 535.183.01 runs CUDA up to 12.2", 12020, wheel("'13.0'")),
    driver("535 against CUDA 13, and a GPU is named", FAIL, "up to 12.2", 12020, wheel("'13.0'"), gpus=[0]),
    driver("535 against CUDA 13: the GPU", PASS, "a run takes none, because driver 535", 12020, wheel("'13.0'"),
           check="gpus"),
    driver("the same, where no GPU would be taken", WARN, "up to 12.2", 12020, wheel("'13.0'"), pids=[2**22 + 1]),
    driver("the driver's CUDA is not told", WARN, "is unknown", None, wheel("'12.8'")),
    driver("a torch without CUDA", WARN, "made for processors only", 12080, wheel("None")),
    driver("a torch without CUDA, and a GPU is named", FAIL, "made for processors only", 12080, wheel("None"),
           gpus=[0]),
    driver("a torch without CUDA: the GPU", PASS, "a run takes none, because torch 2.9 is made for processors only",
           12080, wheel("None"), check="gpus"),
    driver("a torch without CUDA: the named GPU", FAIL, "gpus = [0]: torch 2.9 is made for processors only", 12080,
           wheel("None"), check="gpus", gpus=[0]),
    driver("a GPU that is too old for CUDA 13", WARN, "0 has compute capability 7.0, and torch 2.9 needs 7.5", 13000,
           wheel("'13.0'"), check="gpus", capability=[7, 0]),
    driver("the same, and it is named", FAIL, "gpus = [0]: 0 has compute capability 7.0", 13000, wheel("'13.0'"),
           check="gpus", gpus=[0], capability=[7, 0]),
    driver("the same: the processor", PASS, "free", 13000, wheel("'13.0'"), check="processor", capability=[7, 0]),
    driver("just new enough for CUDA 13", PASS, "a run takes 0", 13000, wheel("'13.0'"), check="gpus",
           capability=[7, 5]),
    driver("too old for torch's builds for CUDA 12.8", WARN, "capability 6.0, and torch 2.9 needs 7.0", 13000,
           wheel("'12.8'"), check="gpus", capability=[6, 0]),
    driver("old, with CUDA 12.6", PASS, "a run takes 0", 13000, wheel("'12.6'"), check="gpus", capability=[6, 0]),
    driver("too old for every torch", WARN, "capability 3.5, and torch 2.9 needs 5.0", 13000, wheel("'12.6'"),
           check="gpus", capability=[3, 5]),
    Case("driver against torch's CUDA", "its age is not told", "gpus", PASS, "a run takes 0",
         lambda w: [w.nvml(without(H100, "capability"), cuda=13000), w.torch(wheel("'13.0'"))]),
    Case("driver against torch's CUDA", "an old GPU beside a new one", "gpus", PASS, "a run takes 1",
         lambda w: [w.nvml(H100 | {"capability": [7, 0]}, OTHER | {"free": 79 * GIB - 1}), w.torch(wheel("'13.0'"))]),
    driver("a torch without CUDA: the processor", PASS, "free", 12080, wheel("None"), check="processor"),
    driver("a torch for CUDA: the processor", PASS, "not needed", 12080, wheel("'12.8'"), check="processor"),
    driver("a torch for AMD", WARN, "made for AMD's GPUs", 12080, wheel("None", "hip = '6.2'")),
    driver("a torch that does not say", WARN, "does not say", 12080, "nothing = 1"),
    driver("a torch of rubbish", WARN, "could not be found out", 12080, "nonsense("),
    driver("a torch of rubbish: the GPU", PASS, "a run takes 0", 12080, "nonsense(", check="gpus"),
    driver("a torch with a number for its CUDA", WARN, "does not say", 12080, wheel("12.8")),
    driver("a GPU is named that is not there", FAIL, "gpus = [3]: no such GPU here (seen: 0)", 12080, wheel("'12.8'"),
           check="gpus", gpus=[3]),
    Case(
        "driver against torch's CUDA",
        "of prime-rl's own torch",
        "driver",
        FAIL,
        "torch 2.9 is made for 13.0",
        lambda w: [w.nvml(H100, OTHER, cuda=12020), w.prime_rl(), w.torch(wheel("'13.0'"))],
        engine="prime-rl",
    ),
    Case(
        "driver against torch's CUDA",
        "prime-rl has no torch",
        "driver",
        SKIP,
        "torch is not installed",
        lambda w: [w.nvml(H100, OTHER, cuda=12020), w.prime_rl("exit 0")],
        engine="prime-rl",
    ),
    Case("driver against torch's CUDA", "GPUs unknown", "driver", SKIP, "not compared", lambda w: w.nvml(init=18)),
    Case("driver against torch's CUDA", "no GPU", "driver", PASS, "no GPU here", lambda w: w.nvml()),
)  # fmt: skip


def disk(
    why: str, status: Status, said: str, build: Callable[[World], object], check: str = "disk", **more: str
) -> Case:
    return Case("disks", why, check, status, said, build, **more)


SMALL, NO_FILES, ROOMY = ("size=100m",), ("size=900m", "nr_inodes=20"), ("size=600m",)
DISK = (
    disk("too small for a run", FAIL, "0.1 GiB free at", lambda w: w.set(RLGUIDE_OUTPUTS=str(w.disk(*SMALL) / "o"))),
    disk("room, but for no file", FAIL, "more files only", lambda w: w.set(RLGUIDE_OUTPUTS=str(w.disk(*NO_FILES)))),
    disk("enough for each, not for both", FAIL, "0.7 GiB are wanted there together with temporary files",
         lambda w: both(w, w.disk(*ROOMY))),
    disk("a large policy on a small disk", WARN, "GiB free at",
         lambda w: [w.configure(model__name=POLICY), w.set(RLGUIDE_OUTPUTS=str(w.disk("size=2g")))]),
    disk("temporary files", FAIL, "0.1 GiB free at", lambda w: temporary(w, w.disk(*SMALL)), check="temporary-disk"),
    disk("downloads, where a policy is wanted", FAIL, "0.1 GiB free at",
         lambda w: [w.configure(model__name=POLICY), w.set(HF_HOME=str(w.disk(*SMALL)))], check="hub-disk"),
    disk("downloads, where none are wanted", PASS, "nothing is downloaded: the policy is here",
         lambda w: w.set(HF_HOME=str(w.disk(*SMALL))), check="hub-disk"),
    disk("downloads to a place that is a file", FAIL, "hf-file/hub: Not a directory",
         lambda w: [w.configure(model__name=POLICY), w.set(HF_HOME=str(w.file("hf-file")))], check="hub-disk"),
    disk("downloads to a disk that is read-only", FAIL, "disk/hub (not writable)",
         lambda w: [w.configure(model__name=POLICY), w.set(HF_HOME=str(w.disk("size=9g", "ro")))], check="hub-disk"),
    disk("no room to install prime-rl", FAIL, "0.1 GiB free at",
         lambda w: w.set(RLGUIDE_PRIME_RL=str(linked(w, w.disk(*SMALL)))), check="venv-disk", engine="prime-rl"),
    disk("the outputs folder is a file", FAIL, "not writable",
         lambda w: w.set(RLGUIDE_OUTPUTS=str(w.file("outputs-file"))), check="outputs"),
    disk("the outputs folder is in /proc", FAIL, "not writable", lambda w: w.set(RLGUIDE_OUTPUTS="/proc/self/o"),
         check="outputs"),
    disk("the outputs folder is of nobody", FAIL, "cannot be a path", lambda w: w.set(RLGUIDE_OUTPUTS="~nobody-here/o"),
         check="outputs"),
)  # fmt: skip


def both(world: World, place: object) -> None:
    temporary(world, place)
    world.set(RLGUIDE_OUTPUTS=str(place))


def temporary(world: World, place: object) -> None:
    world.patch.setattr("tempfile.tempdir", str(place))


def linked(world: World, place: object) -> object:
    """A checkout without an installation, on that disk."""
    checkout = world.prime_rl()
    shutil.rmtree(checkout / ".venv")
    (checkout / ".venv").symlink_to(str(place))
    return checkout


def program(name: str, why: str, status: Status, said: str, script: str | bytes | None, pyproject: str = "") -> Case:
    def build(world: World) -> None:
        if script is not None:
            world.program(name, script)
        if pyproject:
            world.prime_rl(pyproject=pyproject)
            (world.folder / "prime-rl" / ".venv" / "bin" / "python").unlink()

    return Case("programs", f"{name}: {why}", name, status, said, build, engine="prime-rl")


def asks(version: str) -> str:
    return f"[project]\nname = 'prime-rl'\n[tool.uv]\nrequired-version = '{version}'\n"


PROGRAMS = (
    program("uv", "as it should be", PASS, "0.11.1 at", "echo 'uv 0.11.1 (abc 2026-01-01)'"),
    program("uv", "10 is more than 9", PASS, "0.10.0 at", "echo 'uv 0.10.0'"),
    program("uv", "too old for the lock file", FAIL, "0.9.24 at", "echo 'uv 0.9.24'"),
    program("uv", "too old for the checkout", FAIL, ">=0.11.1", "echo 'uv 0.11.0'", asks(">=0.11.1")),
    program("uv", "exactly as the checkout asks", PASS, "0.11.1 at", "echo 'uv 0.11.1'", asks("0.11.1")),
    program("uv", "the checkout asks for nonsense", WARN, "not compared", "echo 'uv 0.11.1'", asks("newest")),
    program("uv", "not there", FAIL, "not found on PATH", None),
    program("uv", "another program of that name", WARN, "said: Usage: frobnicate", "echo 'Usage: frobnicate [FILE]'"),
    program("uv", "no version", WARN, "said: uv, the best", "echo 'uv, the best'"),
    program("uv", "it fails", WARN, "exit code 3", "echo 'uv 0.11.1'; exit 3"),
    program("uv", "it crashes", WARN, "exit code -11", "kill -SEGV $$"),
    program("uv", "binary junk", WARN, "said:", "printf '\\377\\376\\000\\001\\033]0;uv\\007'"),
    program("uv", "no program", FAIL, "cannot be started", b"\x7fELF no"),
    program("uv", "it never answers", WARN, "did not answer within", "sleep 60"),
    program("git", "not there", FAIL, "not found on PATH", None),
    program("git", "as on a Mac", PASS, "2.39.5 at", "echo 'git version 2.39.5 (Apple Git-154)'"),
    program("tmux", "not there, and nobody needs it", SKIP, "not found on PATH", None),
    program("tmux", "as it should be", PASS, "3.3a at", "echo 'tmux 3.3a'"),
    program("tmux", "broken", WARN, "error while loading shared libraries",
            "echo 'tmux: error while loading shared libraries: libevent' >&2; exit 127"),
    program("rsync", "asked for by name, and not there", FAIL, "not found on PATH", None),
    program("rsync", "as it should be", PASS, "3.2.7 at", "echo 'rsync  version 3.2.7  protocol version 31'"),
    program("ssh", "it answers on standard error", PASS, "9.2p1 at", "echo 'OpenSSH_9.2p1 Debian-2' >&2"),
    program("ssh", "not there", FAIL, "not found on PATH", None),
)  # fmt: skip


def imports(why: str, status: Status, said: str, build: Callable[[World], object], check: str, **more: str) -> Case:
    return Case("imports", why, f"packages.{check}", status, said, build, **more)


def in_prime_rl(world: World, name: str, source: str) -> None:
    world.prime_rl()
    world.package("torch")
    world.package(name, source)


def broken(world: World, name: str) -> None:
    """A package that every Python finds first, this one too."""
    world.package(name, "raise ImportError('broken')")
    world.patch.syspath_prepend(world.folder / "packages")


def asking_for(world: World, requirement: str) -> None:
    """A verifiers whose metadata ask for that."""
    world.file("packages/verifiers-0.3.1.dist-info/METADATA",
               f"Metadata-Version: 2.1\nName: verifiers\nVersion: 0.3.1\nRequires-Dist: {requirement}\n")  # fmt: skip
    world.patch.syspath_prepend(world.folder / "packages")


def of_another_processor(world: World) -> None:
    world.prime_rl().joinpath(".venv/bin/python").write_bytes(b"\x7fELF for another one")


IMPORTS = (
    imports("it is not there", FAIL, "ModuleNotFoundError", lambda w: w.prime_rl(), "vllm", engine="prime-rl"),
    imports("an undefined symbol", FAIL, "undefined symbol: _ZN3c10", lambda w: in_prime_rl(
        w, "flash_attn", "raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c10')"),
        "flash_attn", engine="prime-rl"),
    imports("a crash", FAIL, "exit code -11 (SIGSEGV) while importing it", lambda w: in_prime_rl(
        w, "flash_attn", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), "flash_attn", engine="prime-rl"),
    imports("after a crash", SKIP, "not tried", lambda w: in_prime_rl(
        w, "torch", "import os; os.abort()"), "flash_attn", engine="prime-rl"),
    imports("it leaves Python", FAIL, "SystemExit: 3", lambda w: in_prime_rl(
        w, "flash_attn", "raise SystemExit(3)"), "flash_attn", engine="prime-rl"),
    imports("a secret in its words", FAIL, "[HF_TOKEN]", lambda w: [w.set(HF_TOKEN=TOKEN), in_prime_rl(
        w, "flash_attn", f"raise OSError('{TOKEN}')")], "flash_attn", engine="prime-rl"),
    imports("colours and bells in its words", FAIL, "OSError: �[31m�", lambda w: in_prime_rl(
        w, "flash_attn", "raise OSError(chr(27) + '[31m' + chr(7))"), "flash_attn", engine="prime-rl"),
    imports("it talks on standard output", PASS, "1.0 from", lambda w: in_prime_rl(
        w, "flash_attn", "print('{}')"), "flash_attn", engine="prime-rl"),
    imports("a folder that was left over", FAIL, "only a folder without code", lambda w: [
        w.prime_rl(), w.package("x"), (w.folder / "packages" / "vllm").mkdir()], "vllm", engine="prime-rl"),
    imports("whose reverse_text it is", PASS, "packages/reverse_text.py", lambda w: [
        in_prime_rl(w, "reverse_text", ""), w.package("verifiers")], "reverse_text", engine="prime-rl"),
    *(
        imports(f"{name} is broken", FAIL, "ImportError: broken (", lambda w, name=name: broken(w, name), name)
        for name in ("accelerate", "safetensors", "tokenizers", "fastapi", "uvicorn", "verifiers")
    ),
    *(
        imports(f"{name}, which TRL imports where it is installed, is broken", FAIL, f"packages/{name}.py",
                lambda w, name=name: broken(w, name), "trl.trainer.grpo_trainer", helps="or uninstall it")
        for name in ("peft", "scipy")
    ),
    imports("what an uninstalled mlflow left", PASS, "nothing is installed", lambda w: [
        w.package("x"), w.file("packages/mlflow/__pycache__/x.pyc", "")], "trl.trainer.grpo_trainer"),
    imports("a relative PYTHONPATH, and a folder of that name here", PASS, "0.3.1 from", lambda w: [
        w.file("cwd/verifiers/__init__.py", ""), w.patch.chdir(w.folder / "cwd"), w.set(PYTHONPATH=".")], "verifiers"),
    *(
        imports(f"{name} is broken", FAIL, "ImportError: broken (", lambda w, name=name: broken(w, name), name)
        for name in ("wandb", "vllm")
    ),
    imports("a torch of a vendor's", PASS, "2.11.0a0+50eac811a6.nv26.01 from",
            lambda w: w.package("torch", version="2.11.0a0+50eac811a6.nv26.01"), "torch"),
    imports("an error behind an error", FAIL, "ImportError: outer, because of OSError: inner (", lambda w: w.package(
        "accelerate", "try:\n    raise OSError('inner')\nexcept OSError as e:\n    raise ImportError('outer') from e"),
        "accelerate"),
    imports("a stub of trl", FAIL, "trl 1.16 has no GRPOConfig, GRPOTrainer (",
            lambda w: w.package("trl", version="1.16"), "trl"),
    imports("a trl that is too old", FAIL, "; rlguide is made for <1.17,>=1.16",
            lambda w: w.package("trl", "GRPOConfig = GRPOTrainer = 1", version="0.9.0"), "trl"),
    imports("a trl that nobody tried", WARN, "; rlguide is made for <1.17,>=1.16",
            lambda w: w.package("trl", "GRPOConfig = GRPOTrainer = 1", version="99"), "trl"),
    imports("a trl that does not tell its version", WARN, "unknown from ",
            lambda w: w.package("trl", "GRPOConfig = GRPOTrainer = 1", version="unknown"), "trl"),
    imports("a verifiers without its classic part", FAIL, "verifiers 0.3.1 has no .legacy (",
            lambda w: w.package("verifiers", version="0.3.1"), "verifiers"),
    *(
        imports(f"a verifiers that asks for {requirement}", status, said,
                lambda w, requirement=requirement: asking_for(w, requirement), "verifiers")
        for requirement, status, said in (
            ("pydantic<1", WARN, "; it asks for pydantic<1, but 2."),
            ("what is this?\nRequires-Dist: no-such-client", WARN, "; it asks for no-such-client, which is not"),
        )
    ),
    *(
        imports(f"{how} of a file that stands before torch", FAIL, "while importing it (",
                lambda w, source=source: w.package("torch", source), "torch", helps="out of PYTHONPATH")
        for how, source in (("a crash", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
                            ("an exit", "import os; os._exit(0)"))
    ),
    imports("a stranger's file of that name", FAIL, "OSError: mine (",
            lambda w: w.package("torch", "raise OSError('mine')"), "torch"),
    imports("another environment of that name", FAIL, "not the one that is meant", lambda w: w.package("reverse_text"),
            "reverse_text"),
    imports("the system ends it", FAIL, "exit code -9 (SIGKILL)", lambda w: in_prime_rl(
        w, "flash_attn", "import os; os.kill(os.getpid(), 9)"), "flash_attn", engine="prime-rl"),
    imports("too little memory", FAIL, "MemoryError", lambda w: in_prime_rl(
        w, "flash_attn", "raise MemoryError"), "flash_attn", engine="prime-rl"),
    imports("a Python that cannot start", SKIP, "No module named 'encodings'", lambda w: w.prime_rl(
        "echo \"ModuleNotFoundError: No module named 'encodings'\" >&2; exit 1"), "torch", engine="prime-rl"),
    imports("a Python that never answers", SKIP, "python did not answer within", lambda w: w.prime_rl("sleep 60"),
            "torch", engine="prime-rl"),
    imports("a Python for another processor", SKIP, "cannot be started: Exec format error", of_another_processor,
            "torch", engine="prime-rl"),
    imports("no virtual environment", SKIP, "there is no", lambda w: None, "torch", engine="prime-rl"),
)  # fmt: skip


def holder(why: str, said: str, **variables: str) -> Case:
    """Somebody on a GPU."""
    return Case("who is on a GPU", why, "gpus", WARN, said, lambda w: w.nvml(H100 | {"pids": [w.runs(**variables)]}))


HOLDERS = (
    holder("a run of ours", "the run 'first-look' of rlguide (pid", **{MARK: RUN}),
    holder("a run of ours whose folder is gone", "a run of rlguide whose folder is not found", **{MARK: "gone"}),
    holder("an evaluation of ours", "an evaluation or a try-out of rlguide", **{MARK: "helper-1"}),
    holder("a stranger", "sleep of "),
    Case("who is on a GPU", "this very Python", "gpus", WARN, "this Python itself: restart the kernel",
         lambda w: w.nvml(H100 | {"pids": [os.getpid()]})),
    Case("who is on a GPU", "somebody in another container", "gpus", WARN, "not visible from",
         lambda w: w.nvml(H100 | {"pids": [2**22 + 1]})),
    Case("who is on a GPU", "pid 0", "gpus", WARN, "not visible from", lambda w: w.nvml(H100 | {"pids": [0]})),
)  # fmt: skip


def limited(why: str, status: Status, said: str, check: str, **files: str) -> Case:
    """Control groups in place of those of this machine."""
    named = {name.replace("__", "/").replace("_", ".", 1): text for name, text in files.items()}
    return Case("cores and memory", why, check, status, said, lambda w: w.limits(named))


SMALL_GPU = {"total": 8 * GIB, "free": 8 * GIB}


def sized(
    why: str, check: str, status: Status, said: str, build: Callable[[World], object], name: str = "", **more: str
) -> Case:
    """A policy of a billion weights in a folder, or another one."""

    def whole(world: World) -> None:
        for file, content in (WHOLE | {WEIGHTS: weights(number=10**9)}).items():
            world.file(f"large/{file}", content)
        world.configure(model__name=name or str(world.folder / "large"))
        build(world)

    return Case("sizes", why, check, status, said, whole, **more)


def in_3_gib(world: World) -> None:
    world.limits({"memory.max": str(3 * GIB), "memory.current": "0"})


def weights(cut: int = 0, number: int = 4) -> bytes:
    """A file of weights, of which it names so many."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [number], "data_offsets": [0, 16]}}).encode()
    return (struct.pack("<Q", len(header)) + header + bytes(16))[: -cut or None]


WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
WHOLE = {"config.json": '{"model_type": "qwen3"}', "tokenizer.json": "{}", WEIGHTS: weights()}

CORES = (
    Case("cores and memory", "one core by affinity", "cores", WARN, "1", lambda w: w.one_core()),
    limited("one core by quota", WARN, "1", "cores", cpu_max="100000 100000"),
    limited("half a core by quota", WARN, "1", "cores", cpu_max="50000 100000"),
    limited("rubbish for a quota", PASS, "", "cores", cpu_max="\x00 lots"),
    limited("too little memory by limit", FAIL, "1.0 GiB available", "memory", memory_max=str(GIB), memory_current="0"),
    limited("used up", FAIL, "0.0 GiB available", "memory", memory_max=str(GIB), memory_current=str(2 * GIB)),
    sized(
        "the guide's policy, which is not here, in 3 GiB",
        "memory",
        WARN,
        "takes 11.4 at least, by a guess",
        lambda w: in_3_gib(w),
        POLICY,
    ),
    sized(
        "the guide's policy in the cache, in 3 GiB",
        "memory",
        FAIL,
        "takes 17.4 at least",
        lambda w: [in_3_gib(w), w.cache(WHOLE | {WEIGHTS: weights(number=10**9)})],
        POLICY,
    ),
    sized("a policy in a folder, in 3 GiB", "memory", FAIL, "takes 17.4 at least", lambda w: in_3_gib(w)),
    sized(
        "the same on a GPU, through which only its weights pass",
        "memory",
        FAIL,
        "takes 6.2 at least",
        lambda w: [in_3_gib(w), w.nvml(H100)],
    ),
    *(
        sized(
            f"a policy that tells nonsense of its size: {number}",
            "memory",
            WARN,
            "11.4 at least, by a guess",
            lambda w, number=number: [in_3_gib(w), w.file(f"large/{WEIGHTS}", weights(number=number))],
        )
        for number in (float("inf"), float("nan"), "many", None, [1])
    ),
    sized("the same on a GPU", "gpus", PASS, "a run takes 0", lambda w: w.nvml(H100)),
    sized(
        "the same on a GPU of 8 GiB",
        "gpus",
        FAIL,
        "0 has 8.0 GiB free, and training this policy takes 14.9 at least",
        lambda w: w.nvml(H100 | SMALL_GPU),
    ),
    sized(
        "the same on a GPU of 8 GiB of which somebody has a part",
        "gpus",
        WARN,
        "is not free for certain",
        lambda w: [w.nvml(H100 | SMALL_GPU | {"pids": [2**22 + 1]}), w.configure(gpus=[0])],
    ),
    sized(
        "the same, with the tiny policy",
        "gpus",
        PASS,
        "a run takes 0",
        lambda w: w.nvml(H100 | SMALL_GPU),
        "tiny-qwen3",
    ),
    sized(
        "the guide's policy on a slice of 1 GiB",
        "gpus",
        WARN,
        "MIG-1 has 1.0 GiB free, and training this policy takes 8.9",
        lambda w: w.nvml(H100 | {"slices": [PART | {"total": GIB, "free": GIB}]}),
        POLICY,
    ),
    sized(
        "prime-rl on two GPUs of 8 GiB",
        "gpus",
        WARN,
        "1 has 8.0 GiB free, and training this policy takes 8.9",
        lambda w: w.nvml(H100 | SMALL_GPU, OTHER | SMALL_GPU),
        POLICY,
        engine="prime-rl",
    ),
    limited("rubbish for a limit", PASS, "GiB available", "memory", memory_max="much"),
)


def checkout(why: str, status: Status, said: str, build: Callable[[World], object], check: str = "checkout") -> Case:
    return Case("prime-rl's checkout", why, check, status, said, build, engine="prime-rl")


CHECKOUT = (
    checkout("none", FAIL, "no checkout of prime-rl here", lambda w: None),
    checkout("the guide's", PASS, "the guide's release", lambda w: w.prime_rl()),
    checkout("that of August 2026", FAIL, "the release of August 2026", lambda w: w.prime_rl(files=AUGUST)),
    checkout("one in between", FAIL, "rlguide drives the guide's release", lambda w: w.prime_rl(files=MIDDLE)),
    checkout("a folder that is none", FAIL, "is no checkout of", lambda w: w.configure(prime_rl__checkout="/tmp")),
    checkout("a pyproject of rubbish", FAIL, "cannot be read", lambda w: w.prime_rl(pyproject="[[[")),
    checkout("a variable that names none", FAIL, "is no checkout", lambda w: w.set(RLGUIDE_PRIME_RL="/no/such/place")),
    checkout("none, and so no virtual environment", SKIP, "comes with the checkout", lambda w: None, "venv"),
    checkout("no virtual environment", FAIL, "there is no",
             lambda w: w.prime_rl().joinpath(".venv/bin/python").unlink(), "venv"),
    checkout("prime-rl without its launcher", FAIL, "there is no rl in",
             lambda w: w.prime_rl().joinpath(".venv/bin/rl").unlink(), "venv"),
    checkout("prime-rl without its launcher: what installs it", FAIL, "not found on PATH",
             lambda w: w.prime_rl().joinpath(".venv/bin/rl").unlink(), "git"),
    checkout("an interpreter that never answers", WARN, "did not answer within", lambda w: w.prime_rl("sleep 60"),
             "venv"),
    checkout("an interpreter for another processor: the driver", SKIP, "Exec format error",
             lambda w: [w.nvml(H100, OTHER), of_another_processor(w)], "driver"),
    checkout("an interpreter that does not start", FAIL, "does not work", lambda w: w.prime_rl("exit 127"), "venv"),
    checkout("an interpreter that is moved", FAIL, "cannot be started",
             lambda w: w.prime_rl().joinpath(".venv/bin/python").write_text("#!/no/such/python\n"), "venv"),
    checkout("another Python than asked for", FAIL, "asks for ==3.8.*", lambda w: w.prime_rl(
        pyproject="[project]\nname = 'prime-rl'\nrequires-python = '==3.8.*'\n"), "venv"),
    checkout("a Python that says nothing of use", FAIL, "hello at", lambda w: w.prime_rl(
        "echo hello", pyproject="[project]\nname = 'prime-rl'\nrequires-python = '>=3'\n"), "venv"),
)  # fmt: skip


SHARDED = {INDEX: '{"weight_map": {"w": "model.safetensors", "v": "model-2.safetensors"}}'}


def policy(why: str, status: Status, said: str, build: Callable[[World], object], name: str = POLICY) -> Case:
    return Case("the policy", why, "warm-start", status, said, lambda w: [w.configure(model__name=name), build(w)])


def offline(world: World, variable: str = "HF_HUB_OFFLINE", value: str = "1") -> None:
    world.set(**{variable: value})


CACHE = (
    policy("the tiny one", PASS, "3.2 MB", lambda w: offline(w), "tiny-qwen3"),
    policy("not in the cache", WARN, "the Hub, which was not asked, must have it", lambda w: None),
    policy("not in the cache, and offline", FAIL, "HF_HUB_OFFLINE=1 forbids to download it", lambda w: offline(w)),
    policy("offline by another name", FAIL, "TRANSFORMERS_OFFLINE=yes forbids",
           lambda w: offline(w, "TRANSFORMERS_OFFLINE", "yes")),
    policy("offline, set to no", WARN, "not in the cache; the Hub", lambda w: offline(w, value="0")),
    policy("whole", PASS, "whole in", lambda w: w.cache(WHOLE)),
    policy("whole, and offline", PASS, "whole in", lambda w: [offline(w), w.cache(WHOLE)]),
    policy("downloads that were cut off", WARN, "2 downloads were cut off", lambda w: w.cache(commit="", incomplete=2)),
    policy("the same, and offline", FAIL, "only in part", lambda w: [offline(w), w.cache(commit="", incomplete=1)]),
    policy("no weights", WARN, "there are no weights", lambda w: w.cache(without(WHOLE, WEIGHTS))),
    policy("weights that were cut", WARN, "not whole", lambda w: w.cache(WHOLE | {WEIGHTS: weights(cut=1)})),
    policy("empty weights", WARN, "not whole", lambda w: w.cache(WHOLE | {WEIGHTS: b""})),
    policy("a shard is missing", WARN, "model-2.safetensors is missing", lambda w: w.cache(WHOLE | SHARDED)),
    policy("an index of rubbish", WARN, "only in part", lambda w: w.cache(WHOLE | {INDEX: "{"})),
    policy("no tokenizer", WARN, "there is no tokenizer", lambda w: w.cache(without(WHOLE, "tokenizer.json"))),
    policy("a reference to nowhere", WARN, "only in part", lambda w: w.cache({}, commit="c0ffee")),
    policy("a reference of rubbish", WARN, "only in part", lambda w: w.cache({}, commit="\x00\xff")),
    policy("a folder that is not there", FAIL, "no model in that folder", lambda w: None, "./no-such-folder"),
    policy("an empty folder", FAIL, "config.json is missing", lambda w: None, "/var/empty/x"),
    policy("HF_HOME that is a file", WARN, "not in the cache", lambda w: w.set(HF_HOME=str(w.file("f")))),
)  # fmt: skip


def token(why: str, status: Status, said: str, text: str | None = None, *, name: str = "HF_TOKEN", **more: str) -> Case:
    def build(world: World) -> None:
        world.set(**({name: text} if text is not None else {}) | more)

    return Case("a token of Hugging Face", why, "hub-token", status, said, build)


def saved(why: str, status: Status, said: str, content: str | bytes) -> Case:
    return Case("a token of Hugging Face", f"saved: {why}", "hub-token", status, said,
                lambda w: w.file("home/.cache/huggingface/token", content))  # fmt: skip


TOKENS = (
    token("none", PASS, "none; public policies need none"),
    token("one", SKIP, "from HF_TOKEN; --network asks the Hub about it", TOKEN),
    token("empty", WARN, "the token from HF_TOKEN is empty", ""),
    token("blank", WARN, "is empty", "  "),
    token("a line break at the end", WARN, "holds a blank or a line break", f"{TOKEN}\n"),
    token("a line break inside", WARN, "holds a blank or a line break", f"{TOKEN[:9]}\n{TOKEN[9:]}"),
    token("in quotes", WARN, "holds quotes", f'"{TOKEN}"'),
    token("a name instead of a value", WARN, "holds quotes or other signs", "$HF_TOKEN"),
    token("a place-holder", WARN, "holds quotes or other signs", "<your-token>"),
    token("without hf_", WARN, "does not begin with hf_", "x" * 37),
    token("hf_ alone", WARN, "does not begin with hf_", "hf_"),
    token("a key of W&B", WARN, "does not begin with hf_", ANNA),
    token("letters with accents", WARN, "holds letters that no token has", "hf_ééé"),
    token("a control character", WARN, "holds letters that no token has", "hf_\x1b[0m"),
    token("by its old name", WARN, "from HUGGING_FACE_HUB_TOKEN is empty", "", name="HUGGING_FACE_HUB_TOKEN"),
    token("of another Hub", SKIP, "from HF_TOKEN", "abc.def", HF_ENDPOINT="https://hub.example"),
    token("HF_HOME of nobody", WARN, "cannot be a path", HF_HOME="~nobody-here"),
    saved("one", SKIP, "huggingface/token", f"{TOKEN}\n"),
    saved("empty", WARN, "is empty", "\n"),
    saved("rubbish", WARN, "holds letters that no token has", b"\xff\xfe\x00"),
    saved("two lines", WARN, "holds a blank or a line break", "a\nb"),
    Case("a token of Hugging Face", "saved: a folder", "hub-token", WARN, "could not be found out",
         lambda w: (w.folder / "home/.cache/huggingface/token").mkdir(parents=True)),
    Case("a token of Hugging Face", "empty, where a policy is wanted", "hub-token", FAIL, "is empty",
         lambda w: [w.configure(model__name=POLICY), w.set(HF_TOKEN="")]),
    Case("a token of Hugging Face", "empty, where the policy is whole", "hub-token", WARN, "is empty",
         lambda w: [w.configure(model__name=POLICY), w.cache(WHOLE), w.set(HF_TOKEN="")]),
)  # fmt: skip


def answer(why: str, status: Status, said: str, code: int = 200, body: str = "", *, has: str | None = TOKEN,
           wants: str = "tiny-qwen3", kind: str = "", check: str = "hub-token", **headers: str) -> Case:  # fmt: skip
    def build(world: World) -> None:
        world.hub(code, *([body] if body else []), kind=kind, **headers)
        world.configure(model__name=wants)
        if has:
            world.set(HF_TOKEN=has)

    return Case("the Hub's answers", why, check, status, said, build, network=True)


def of_policy(why: str, status: Status, said: str, *told: Any, has: str | None = None, kind: str = "") -> Case:
    return answer(why, status, said, *told, has=has, wants=POLICY, kind=kind, check="warm-start")


ANSWERS = (
    answer("it accepts the token", PASS, "token of anna, from HF_TOKEN"),
    answer("the token has expired", WARN, "does not accept the token from HF_TOKEN (401)", 401, "{}"),
    answer("the same, where a policy is wanted", FAIL, "does not accept the token", 401, "{}", wants=POLICY),
    answer("it is forbidden", WARN, "does not accept the token", 403, "{}"),
    answer("too many questions", WARN, "no more questions for now (429)", 429, "{}", retry_after="60"),
    answer("the same, without a word when", WARN, "no more questions for now (429)", 429, "{}", retry_after="Mon, 1"),
    answer("it is broken", WARN, "says 500", 500, "{}"),
    answer("it is away", WARN, "says 503", 503, "<html>"),
    answer("a login page", WARN, "something that is not the Hub's", 200, "<html>Sign in</html>"),
    answer("a way to a login page", WARN, "says 302", 302, "x", location="http://login.example/"),
    answer("JSON of another kind", WARN, "something that is not the Hub's", 200, "[1]"),
    answer("JSON without an end", WARN, "something that is not the Hub's", 200, "[" * 100_000),
    answer("a mirror without accounts", WARN, "says 404", 404, "{}"),
    of_policy("it has the policy", PASS, "the Hub has it, and a run downloads it first"),
    of_policy("it does not have the policy", FAIL, f"has no policy {POLICY}", 404, "{}"),
    of_policy("it does not show the policy to everybody", FAIL, "to everybody (401)", 401, "{}"),
    of_policy("it does not show it to her", FAIL, "to this account (403)", 403, "{}", has=TOKEN, kind="models"),
    of_policy("a token that is none is not sent for it", FAIL, "to everybody (401)", 401, "{}", has="\n"),
    of_policy("too many for the policy", WARN, "no more questions for now", 429, "{}"),
    answer("no token, and it does not have the policy", PASS, "none; public", 404, "{}", wants=POLICY, has=None),
    answer("nobody is asked for the tiny policy", PASS, "none; public policies need none", 500, "{}", has=None),
    answer("no token is sent that is none", WARN, "is empty", has=" "),
    answer("it never answers", WARN, "does not answer in time", 200, "slow"),
    Case("the Hub's answers", "nobody is there", "hub-token", WARN, "cannot be reached",
         lambda w: w.set(HF_TOKEN=TOKEN, HF_ENDPOINT="http://127.0.0.1:9"), network=True),
    Case("the Hub's answers", "an address that is none", "hub-token", WARN, "cannot be reached",
         lambda w: w.set(HF_TOKEN=TOKEN, HF_ENDPOINT="http://["), network=True),
    Case("the Hub's answers", "a proxy that is none", "hub-token", WARN, "cannot be reached",
         lambda w: w.set(HF_TOKEN=TOKEN, HF_ENDPOINT="http://x.invalid", http_proxy="nonsense://["), network=True),
    Case("the Hub's answers", "offline by variable", "hub-token", SKIP, "not asked, because of HF_HUB_OFFLINE=1",
         lambda w: [w.hub(500), w.set(HF_TOKEN=TOKEN, HF_HUB_OFFLINE="1")], network=True),
)  # fmt: skip


def account(why: str, status: Status, said: str, how: str = "well", *, key: str | None = ANNA, **changes: str) -> Case:
    def build(world: World) -> None:
        world.wandb(how)
        world.configure(**changes)
        if key is not None:
            world.set(WANDB_API_KEY=key)

    return Case("a W&B account", why, "wandb", status, said, build)


def behind_a_login(world: World) -> None:
    """A W&B at an address with a name and a password in it."""
    world.set(WANDB_BASE_URL=world.wandb().url.replace("//", "//user:secret-word@"))


ACCOUNTS = (
    account("hers", PASS, "the run reports to anna's account"),
    account("another than expected", FAIL, "belongs to anna", wandb__expected_user="bert"),
    account("no key", FAIL, "there is no W&B key", key=None),
    account("a key that is not known", FAIL, "does not accept the W&B key", key="z" * 86),
    account("a short key that is not known", FAIL, "does not accept the W&B key", key="short"),
    account("a key with a line break", FAIL, "holds a space or a line break", key=f"{ANNA}\n"),
    account("nobody's key", FAIL, "knows no account", "null"),
    account("a login page", FAIL, "something that is not W&B's", "html"),
    account("it is broken", FAIL, "cannot say whose W&B key it is (status 500)", "500"),
    account("it never answers", FAIL, "in time", "late"),
    *(
        Case(
            "a W&B account",
            f"an address that wandb does not take: {address}",
            "wandb",
            FAIL,
            "WANDB_BASE_URL is no address that wandb takes: ",
            lambda w, address=address: [w.wandb(), w.set(WANDB_API_KEY=ANNA, WANDB_BASE_URL=address)],
        )
        for address in (
            "https://user:secret-word@",
            "https://user:secret/word@host",
            "user:secret-word@host",
            "https://user:secret-word two@host",
            "https://user:secret-word@wandb.ai",
        )
    ),
    Case(
        "a W&B account",
        "a login before it",
        "wandb",
        PASS,
        "anna's account, on 127.0.0.1:",
        lambda w: [behind_a_login(w), w.set(WANDB_API_KEY=ANNA)],
    ),
    Case(
        "a W&B account",
        "a login before one that is not there",
        "wandb",
        FAIL,
        "cannot be reached at 127.0.0.1:9",
        lambda w: [w.wandb(), w.set(WANDB_API_KEY=ANNA, WANDB_BASE_URL="http://user:secret-word@127.0.0.1:9")],
    ),
    Case(
        "a W&B account",
        "a wandb that is broken",
        "wandb",
        FAIL,
        "wandb cannot be imported (ImportError: broken)",
        lambda w: [w.wandb(), w.set(WANDB_API_KEY=ANNA), w.package("wandb", "raise ImportError('broken')")],
    ),
    Case("a W&B account", "off", "wandb", PASS, "none is needed", lambda w: w.set(WANDB_API_KEY="rubbish")),
    Case("a W&B account", "offline", "wandb", PASS, "none is needed", lambda w: w.configure(wandb__mode="offline")),
)


def service(why: str, status: Status, said: str, build: Callable[[World], object]) -> Case:
    def whole(world: World) -> None:
        world.set(https_proxy="http://127.0.0.1:9")  # so that nobody outside is asked
        build(world)

    return Case("services on the internet", why, "network", status, said, whole, network=True)


SERVICES = (
    service("nobody answers", WARN, "offline: nobody answers", lambda w: w.set(
        HF_ENDPOINT="http://127.0.0.1:9", WANDB_BASE_URL="http://127.0.0.1:9")),
    service("some answer", WARN, "no answer from GitHub", lambda w: w.set(WANDB_BASE_URL=w.hub())),
    service("black holes", WARN, "offline: nobody answers", lambda w: w.set(
        HF_ENDPOINT=w.black_hole(), WANDB_BASE_URL=w.black_hole(), https_proxy=w.black_hole())),
    service("addresses that are none", WARN, "offline: nobody answers", lambda w: w.set(
        HF_ENDPOINT="nonsense", WANDB_BASE_URL="http://[")),
    service("it answers with an error", WARN, " says 503", lambda w: w.hub(503)),
    *(
        service(f"addresses and proxies with a password: {address}", WARN, "offline", lambda w, address=address: w.set(
            HF_ENDPOINT=address, http_proxy=address, https_proxy=address, WANDB_BASE_URL=address))
        for address in ("http://me:secret-word@127.0.0.1:9", "http://me:secret/word@127.0.0.1:9",
                        "http://me:secret#word@127.0.0.1:9", "http://me:secret?word@127.0.0.1:9",
                        "me:secret-word@127.0.0.1:9")
    ),
    service("a proxy with a password", WARN, "offline", lambda w: w.set(
        http_proxy="http://me:secret-word@127.0.0.1:9", HF_ENDPOINT="http://x.invalid", WANDB_BASE_URL="http://x.invalid")),
)  # fmt: skip


def port(why: str, status: Status, said: str, address: str | None, **variables: str) -> Case:
    def build(world: World) -> None:
        world.configure(inference__port=free_port())
        if address:
            world.holder(address, **variables)

    return Case("ports", why, "ports", status, said, build, engine="prime-rl")


PORTS = (
    port("free", PASS, "free", None),
    port("taken on this machine only", WARN, "taken by python", "127.0.0.1"),
    port("taken everywhere", WARN, "taken by python", "0.0.0.0"),
    port("taken in IPv6 only, this machine", WARN, "taken in IPv6 only", "::1"),
    port("taken in IPv6 only, everywhere", WARN, "taken in IPv6 only", "::"),
    port("taken by a run of ours", WARN, "taken by a run of rlguide", "127.0.0.1", **{MARK: "gone"}),
)


def loopback(why: str, status: Status, said: str, **variables: str) -> Case:
    return Case("connections to this machine", why, "loopback", status, said, lambda w: w.set(**variables))


LOOPBACK = (
    loopback("without a proxy", PASS, "work"),
    loopback(
        "a proxy catches them", WARN, "through the proxy proxy.example:3128", http_proxy="http://proxy.example:3128"
    ),
    loopback("a password in it", WARN, "through the proxy proxy.example", http_proxy="http://me:pw@proxy.example"),
    loopback("a slash in it", WARN, "through the proxy in http_proxy", http_proxy="http://me:secret/word@p.example"),
    loopback("a proxy for others only", PASS, "work", http_proxy="http://p.example", no_proxy="127.0.0.1,localhost"),
    loopback("a proxy for all but everything", PASS, "work", http_proxy="http://p.example", no_proxy="*"),
    loopback("a proxy that is none", WARN, "through the proxy", http_proxy="nonsense"),
    loopback("a SOCKS proxy for everything", WARN, "through the proxy", all_proxy="socks5://p.example:1080"),
)


def index(text: str) -> Callable[[World], object]:
    """The policy in the cache, with this for the index of its weights."""
    return lambda w: w.cache(WHOLE | {INDEX: text})


def folder_of(world: World, files: dict[str, Any]) -> None:
    """A policy in a folder, with these files; `None` stands for a pipe that nobody writes to."""
    for name, content in files.items():
        path = world.file(f"policy/{name}", content or b"")
        if content is None:
            path.unlink()
            os.mkfifo(path)
    world.configure(model__name=str(world.folder / "policy"))


def piped(world: World) -> None:
    project = world.prime_rl() / "pyproject.toml"
    project.unlink()
    os.mkfifo(project)


def behind_a_lock(world: World) -> None:
    """A checkout whose Python this user may not start."""
    there = Path(shutil.copytree(world.prime_rl(), world.shared() / "prime-rl"))
    (there / ".venv" / "bin").chmod(0)
    world.stack.callback((there / ".venv" / "bin").chmod, 0o755)
    world.configure(prime_rl__checkout=str(there))
    world.locked()


WITHOUT_A_WAIT = (
    policy("an index that names a list", WARN, "is missing", index('{"weight_map": {"w": ["x"]}}')),
    policy("an index that names a number", WARN, "5 is missing", index('{"weight_map": {"w": 5}}')),
    policy("an index without an end", WARN, "cannot be read", index("[" * 100_000)),
    policy("an index without a map", WARN, "cannot be read", index("{}")),
    policy("a reference with a line end, which the Hub's library keeps", WARN, "refs/main names no snapshot",
           lambda w: [w.cache(WHOLE), w.cache(commit="c0ffee\n")]),
    policy("a cache into which nobody may look", WARN, "Permission denied", lambda w: w.set(HF_HOME=str(w.locked()))),
    policy("a folder with a pipe for weights", FAIL, "model.safetensors is not whole",
           lambda w: folder_of(w, WHOLE | {WEIGHTS: None})),
    policy("a folder with a pipe for its configuration", FAIL, "config.json cannot be read",
           lambda w: folder_of(w, WHOLE | {"config.json": None})),
    policy("a folder without one of its shards", FAIL, "model-2.safetensors is missing",
           lambda w: folder_of(w, WHOLE | SHARDED)),
    policy("a cache with a pipe for weights", WARN, "not whole",
           lambda w: os.mkfifo(w.cache(without(WHOLE, WEIGHTS)) / "snapshots" / "c0ffee" / WEIGHTS)),
    checkout("a pipe for its pyproject", FAIL, "this is a pipe, not a file", piped),
    checkout("a pipe for its pyproject, in which nothing is installed", SKIP, "comes with the checkout", piped, "venv"),
    checkout("a Python that this user may not start", FAIL, "cannot be started: Permission", behind_a_lock, "venv"),
    checkout("the same, and its packages", SKIP, "not tried: ", behind_a_lock, "packages.vllm"),
    checkout("a home of a user that is not known", FAIL, "cannot be a path",
             lambda w: w.configure(prime_rl__checkout="~nobody-here/prime-rl")),
    disk("the outputs folder is behind a lock", FAIL, "Permission denied",
         lambda w: w.set(RLGUIDE_OUTPUTS=str(w.locked() / "o")), check="outputs"),
    disk("room behind a lock", FAIL, "Permission denied", lambda w: w.set(RLGUIDE_OUTPUTS=str(w.locked() / "o"))),
    disk("a name that is too long", FAIL, "File name too long",
         lambda w: w.set(RLGUIDE_OUTPUTS=str(w.folder / ("o" * 300))), check="outputs"),
    disk("a name that no record of a run can hold", FAIL, "cannot be a path",
         lambda w: w.set(RLGUIDE_OUTPUTS=str(w.folder / "a\udcff")), check="outputs"),
    disk("a link to a disk that is full", FAIL, "0.1 GiB free at", lambda w: linked_outputs(w, w.disk(*SMALL) / "o")),
    disk("a link to itself", FAIL, "/outputs", lambda w: linked_outputs(w, w.folder / "outputs"), "outputs"),
    disk("a link behind a lock", FAIL, "Permission denied", lambda w: link_behind_a_lock(w), "outputs"),
    disk("downloads behind a lock", FAIL, "Permission denied",
         lambda w: [w.configure(model__name=POLICY), w.set(HF_HOME=str(w.locked()))], check="hub-disk"),
)  # fmt: skip


def plan(why: str, status: Status, said: str, build: Callable[[World], object], **more: Any) -> Case:
    return Case("plans", why, "plan", status, said, build, **more)


PLANS = (
    plan("one that can be made", PASS, "20 steps of the tiny policy take about", lambda w: None),
    plan("a recording", PASS, "the recording takes about 19 s", lambda w: None, engine="replay"),
    plan("more prompts than there are texts", FAIL, "a step of 50000 prompts", lambda w: w.configure(
        orchestrator__batch_size=100_000, orchestrator__rollouts_per_example=2)),
    plan("two GPUs for trl", FAIL, "the trl engine uses one GPU",
         lambda w: [w.nvml(H100, OTHER), w.configure(gpus=[0, 1])]),
    plan("a GPU that is not there", FAIL, "no such GPU here", lambda w: [w.nvml(H100), w.configure(gpus=[5])]),
    plan("three GPUs for prime-rl", FAIL, "the prime-rl engine uses 2 GPUs",
         lambda w: [w.nvml(*(H100 | {"uuid": f"GPU-{n}"} for n in range(3))), whole(w, gpus=[0, 1, 2])],
         engine="prime-rl"),
    plan("two for prime-rl", PASS, "20 steps of the policy take about",
         lambda w: [w.nvml(H100, OTHER), whole(w)], engine="prime-rl"),
    plan("prime-rl is not there", FAIL, "there is no checkout of prime-rl", lambda w: None, engine="prime-rl"),
    plan("no port is free", FAIL, "no port from 65535 to 65535 can be used",
         lambda w: [w.nvml(H100, OTHER), whole(w, inference__port=taken(w, 65535))], engine="prime-rl"),
    plan("a file in the place of the run", FAIL, "that is a file",
         lambda w: w.set(RLGUIDE_OUTPUTS=str(w.file("outputs/reverse-text").parent))),
    plan("outputs that lead to themselves", FAIL, "/outputs",
         lambda w: linked_outputs(w, w.folder / "outputs")),
    plan("a place that is locked", FAIL, "Permission denied", lambda w: w.set(RLGUIDE_OUTPUTS=str(w.locked() / "o"))),
    plan("less time than it takes", WARN, "s; the run is stopped after 10 s", lambda w: w.configure(time_limit_s=10)),
    plan("hours on the processor", WARN, "take hours on the processor, unless it is very small; the run is stopped",
         lambda w: w.configure(model__name=POLICY)),
)  # fmt: skip


def linked_outputs(world: World, target: Path, place: Path | None = None) -> None:
    """The outputs folder is a link to `target`, there or not."""
    link = (place or world.folder) / "outputs"
    link.symlink_to(target)
    world.set(RLGUIDE_OUTPUTS=str(link))


def link_behind_a_lock(world: World) -> None:
    place = world.shared()
    linked_outputs(world, place / "locked" / "o", place)
    world.locked(place)


def whole(world: World, **changes: Any) -> None:
    """A checkout of prime-rl with its programs."""
    world.configure(**changes)
    for name in ("rl", "inference", "vf-eval"):
        world.file(f"prime-rl/.venv/bin/{name}").chmod(0o755)
    world.prime_rl()


def taken(world: World, port: int) -> int:
    world.stack.enter_context(socket.create_server(("0.0.0.0", port)))
    return port


def processes(why: str, status: Status, said: str, line: str) -> Case:
    """What `nvidia-smi` says when it is asked who is on a GPU."""
    return tool(why, status, said, rows(WELL).replace("*query-compute-apps*) ;;", f"*apps*) echo '{line}' ;;"))


NOT_WELL = (
    processes("who is on it cannot be asked", WARN, "who is on it is unknown", "Unable to query: [Unknown Error]"),
    processes("somebody is on it, and not on which", WARN, "who is on it is unknown", "[N/A], 77"),
    processes("somebody is on another one", PASS, "nobody on it: a run takes 0", "GPU-bbb, 77"),
    processes("a warning, and nobody", PASS, "nobody on it: a run takes 0", "WARNING: infoROM is corrupted"),
    tool("no memory in all", WARN, "memory unknown", rows("0, GPU-a, X, 0, 0, 570.86, 9.0, Disabled")),
    tool("a comma in its name", PASS, "1 NVIDIA X, 2nd, 79 of 80 GiB",
         rows(WELL, "1, GPU-b, NVIDIA X, 2nd, 81559, 81079, 570.86, 9.0, Disabled")),
    tool("half a line about it", PASS, "1 unknown GPU, memory unknown", rows(WELL, "1, GPU-b")),
    tool("a line without an end", WARN, "cannot be read", "printf '%0200000d' 1"),
    tool("numbers without an end", WARN, "memory unknown", rows(f"0, GPU-a, X, {'1' * 5000}, 1, 570.86, 9.0, [N/A]")),
    listed("no memory in all", WARN, "memory unknown", lambda w: w.nvml(H100 | {"total": 0, "free": 0})),
    listed("a number at the end", PASS, "a run takes 0", lambda w: w.nvml(H100, ends="0")),
    listed("nothing at the end", PASS, "a run takes 0", lambda w: w.nvml(H100, ends="null")),
    listed("a list at the end", PASS, "a run takes 0", lambda w: w.nvml(H100, ends="[]")),
    listed("a table at the end", PASS, "a run takes 0", lambda w: w.nvml(H100, ends="{}")),
    listed("no end", PASS, "a run takes 0", lambda w: w.nvml(H100, ends="[" * 50_000)),
    Case("CUDA_VISIBLE_DEVICES", "5000 digits", "gpus", WARN, "which CUDA does not reach",
         lambda w: [w.nvml(H100), w.set(CUDA_VISIBLE_DEVICES="1" * 5000)]),
    Case("cores and memory", "a system that hides /proc", "memory", WARN, "unknown",
         lambda w: [w.patch.setattr("psutil.PROCFS_PATH", str(w.folder / "home")), w.limits({})]),
)  # fmt: skip


CASES = (
    *LIBRARY, *FULL, *SMI, *HOLDERS, *VARIABLE, *TWO, *DRIVER, *CORES, *DISK, *PROGRAMS, *IMPORTS, *CHECKOUT, *CACHE,
    *TOKENS, *ANSWERS, *ACCOUNTS, *SERVICES, *PORTS, *LOOPBACK, *WITHOUT_A_WAIT, *PLANS, *NOT_WELL,
)  # fmt: skip


def counted() -> str:
    """How many inputs of each kind there are."""
    kinds = Counter(case.kind for case in CASES)
    lines = [f"{count:4}  {kind}" for kind, count in kinds.items()]
    return "\n".join([*lines, f"{len(CASES):4}  inputs of {len(kinds)} kinds"])


if __name__ == "__main__":
    print(counted())
