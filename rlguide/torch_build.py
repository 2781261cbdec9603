"""What the installed torch was built for, and whether it can compute on this machine's GPUs.

Read from its files: importing it would take seconds, and may crash.
"""

import ast
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

from rlguide.asking import Finding
from rlguide.child import answer_of
from rlguide.files import read_text
from rlguide.gpus import cuda_name
from rlguide.paths import install_command, pip_command
from rlguide.records import Gpu, Machine, Status

ANSWER_S = 4.0
FIND = "import importlib.util as u; found = u.find_spec('torch'); print('torch at', found and found.origin or '')"
SAYS = re.compile(r"^(__version__|cuda|hip)\b[^=\n]*= *(.+)", re.MULTILINE)
"""Lines of torch's `version.py`, such as `cuda: Optional[str] = '12.8'`."""
OLDEST = (((13, 0), (7, 5)), ((12, 8), (7, 0)), ((12, 0), (5, 0)))
"""From a CUDA on, the least compute capability for which torch's own builds hold code: `.ci/manywheel/build_cuda.sh` of
pytorch/pytorch. CUDA 13 makes none for less than 7.5, as NVIDIA's notes on its release say."""


class TorchBuild(NamedTuple):
    """One build of torch."""

    version: str
    cuda: tuple[int, int] | None
    """`None` for a build without CUDA."""
    hip: str | None = None
    """Version of ROCm, for AMD's GPUs."""


def torch_build(folder: Path | None) -> TorchBuild | None:
    """The torch in `folder`; `None` for none. Raises `ValueError`, `OSError` or `SyntaxError` if it does not tell."""
    if folder is None:
        return None
    told = {name: ast.literal_eval(value) for name, value in SAYS.findall(read_text(folder / "version.py"))}
    version, cuda = told.get("__version__"), told.get("cuda", False)
    if not isinstance(version, str) or not (cuda is None or isinstance(cuda, str)):
        raise ValueError(f"{folder / 'version.py'} does not say what torch was built for")
    major, _, minor = (cuda or "").partition(".")
    return TorchBuild(version, (int(major), int(minor.partition(".")[0])) if major else None, told.get("hip"))


def torch_folder(python: Path | None = None) -> Path | None:
    """Where this Python, or another, has its torch; `None` for none. Raises `OSError` or `ValueError` if unknown."""
    if python is None:
        spec = importlib.util.find_spec("torch")
        return Path(spec.origin).parent if spec and spec.origin else None
    answer = answer_of((python, "-P", "-c", FIND), limit_s=ANSWER_S)
    if answer.code != 0:
        raise ValueError(f"{python} does not say where its torch is: {answer.said or answer.code}")
    told = answer.out.rpartition("torch at ")[2].strip()  # Python may print more when it starts
    return Path(told).parent if told else None


def look_at_build(build: TorchBuild, machine: Machine, *, install: str | None = None) -> Finding:
    """Whether `build` computes on the GPUs of `machine`: a figure such as 535+ does not say. For a Python that is
    not this one, `install` brings another.

    Within one major version NVIDIA promises that a newer CUDA runs, save code that is compiled while it runs.
    """
    if build.cuda is None:
        made_for = "AMD's GPUs" if build.hip else "processors only"
        return Finding(Status.FAIL, f"torch {build.version} is made for {made_for}", install or _for_cuda())
    if machine.cuda is None:
        seen = f"torch {build.version} needs CUDA {dotted(build.cuda)}; which one the driver can run is unknown"
        return Finding(Status.WARN, seen, "compare with the CUDA version in the heading of `nvidia-smi`")
    seen = f"driver {machine.driver or '(version unknown)'} runs CUDA up to {dotted(machine.cuda)}, "
    seen += f"torch {build.version} is made for {dotted(build.cuda)}"
    fix = f"renew NVIDIA's driver, or install a torch made for CUDA {dotted(machine.cuda)} or earlier"
    if machine.cuda >= build.cuda:
        return Finding(Status.PASS, seen)
    if machine.cuda[0] == build.cuda[0]:
        return Finding(Status.WARN, f"{seen}: works in most cases", fix)
    return Finding(Status.FAIL, seen, fix)


def _for_cuda() -> str:  # pip alone does not replace one build of a version by another
    return f"install torch for CUDA: {pip_command('uninstall')} torch, then {install_command('gpu')}"


def too_old(gpu: Gpu, build: TorchBuild) -> Finding | None:
    """A doubt where `build` holds no code for `gpu`; `None` where it does, or nothing is known."""
    least = next((least for cuda, least in OLDEST if build.cuda and build.cuda >= cuda), (0, 0))
    has = gpu.compute_capability
    if has is None or has >= least:
        return None
    seen = f"{cuda_name(gpu)} has compute capability {dotted(has)}, and torch {build.version} needs {dotted(least)}"
    earlier = next((cuda for cuda, able in OLDEST if has >= able), None)
    fix = f"install a torch made for CUDA {dotted(earlier)}" if earlier else "use a GPU that is newer, or the processor"
    return Finding(Status.WARN, seen, fix)


def dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
