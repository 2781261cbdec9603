"""What the words of uv, git and the Hub mean when an installation fails. Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Trouble(NamedTuple):
    """Why a step failed, and what to do about it."""

    told: str
    hint: str


AGAIN = "then install again: it goes on where it stopped"
KNOWN = (
    (r"No space left on device|os error 28\b|Disk quota exceeded",
     "the disk is full", f"free some space, {AGAIN}"),
    (r"Read-only file system|Permission denied|os error (?:13|30)\b",
     "something may not be written there", f"change that, or choose another folder with --checkout, {AGAIN}"),
    (r"Failed to parse `uv\.lock`|Required uv version",
     "this uv cannot read the lock file", f"`uv self update`, or `pip install --upgrade uv`, {AGAIN}"),
    (r"(?i)hash mismatch",
     "a download is another file than the lock file names", "try again; if it stays so, do not install it"),
    (r"cannot be used because|not a valid Python environment|failed to create directory [^\n]*File exists",
     "what is called .venv there is no virtual environment", f"move it away, {AGAIN}"),
    (r"not compatible with the lockfile's supported environments",
     "prime-rl is for Linux only", "train with the engine trl here: rlguide train --engine trl"),
    (r"Python requirement|No interpreter found|python-build-standalone",
     "there is no Python 3.12 for it, and none could be fetched", f"install Python 3.12, {AGAIN}"),
    (r"Failed to build `?flash[-_]attn|CUDA_HOME|nvcc[^\n]* not found",
     "flash-attn could not be built: its ready-made wheel is for x86_64 and CUDA 12.8",
     f"install it into that virtual environment by hand, {AGAIN}"),
    (r"No solution found|unsatisfiable",
     "the packages do not fit together", "is uv.lock of the checkout changed? Take the release's own back"),
    (r"not our ref|unadvertised object|couldn't find remote ref|does not appear to be a git repository",
     "the repository does not have that revision", "is git told to fetch from a mirror? git config --list"),
    (r"RepositoryNotFound|GatedRepo|401 Client Error",
     "the Hub does not show this policy", "check its name; an old HF_TOKEN is refused: unset it, or renew it"),
    (r"OfflineMode|HF_HUB_OFFLINE",
     "HF_HUB_OFFLINE forbids the download", f"unset HF_HUB_OFFLINE, {AGAIN}"),
    (r"(?i)dns error|resolve host|connection (?:refused|reset)|timed out|failed to connect|is unreachable|"
     r"error sending request|LocalEntryNotFound|tunnel error|proxy (?:error|authentication)",
     "the network, or the server asked, was not reached", f"set HTTPS_PROXY if a proxy is needed, {AGAIN}"),
)  # fmt: skip
"""What a program's output may hold, and what it means; the first that fits counts."""
UNKNOWN = Trouble("see the end of its output", f"fix what it says, {AGAIN}")
REFUSED = re.compile(r"HTTP status (?:client|server) error \((\d{3})\b.*\) for url \(([^)\s]+)\)")


def explained(output: str, extras: Mapping[str, str]) -> Trouble:
    """The trouble that a program's `output` tells of. `extras`: package → the part of prime-rl that wants it alone."""
    if refused := REFUSED.search(output):
        code, url = refused.groups()
        package = url.rsplit("/", 1)[-1].split("-")[0].replace("_", "-").lower()
        told = f"the package {package} is not to be had ({code} at {url})"
        if package in extras:
            hint = f"without it: uv's option --no-install-package {package}"
            return Trouble(f"{told}; it is not needed here, only for the extra {extras[package]!r}", hint)
        return Trouble(
            f"{told}, and it is needed", f"is the address there? If a mirror or proxy answers, fix that, {AGAIN}"
        )
    return next((Trouble(told, hint) for words, told, hint in KNOWN if re.search(words, output)), UNKNOWN)
