"""Checks of memory: what training a policy takes at least, against what this machine, or a GPU, has left."""

import resource
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlguide.asking import Finding
from rlguide.checks.hub import cached, is_on_hub
from rlguide.engines.policy import find_policy, number_of_weights
from rlguide.errors import ConfigError
from rlguide.gpus import cuda_name
from rlguide.probe import GIB
from rlguide.records import Gpu, Machine, Status

TINY_GIB = 2.5
"""A run of the tiny policy with its evaluation needs so much."""
ADDRESSES_GIB = 3.5
"""Its trainer's addresses, on two cores: limited to 3.8 GiB (`ulimit -v`) a run went well, to 2.9 it did not."""
WEIGHT_BYTES = 16
GUIDE_WEIGHTS = 0.6e9


class States(NamedTuple):
    """What training keeps of a policy, from step to step."""

    gib: float
    is_known: bool
    """False for a guess."""


def states_of(policy: str) -> States:
    """What training keeps of a policy. Activations come on top: how much depends on batch, lengths and attention.

    Both engines train in float32 with AdamW: 4 bytes a weight, 4 for its gradient, 8 for two moments; see section 3.1
    of https://arxiv.org/abs/1910.02054. A policy that is not here is taken to be as large as the run guide's.
    """
    folder = cached(policy).folder if is_on_hub(policy) else None
    with suppress(ConfigError):  # no folder: another check says it
        folder = folder or Path(find_policy(policy))
    known = number_of_weights(folder) if folder else None
    return States((known or GUIDE_WEIGHTS) * WEIGHT_BYTES / GIB, known is not None)


def look_at_memory(machine: Machine, policy: str, *, on_gpu: bool) -> Finding:
    """Whether a run fits: on a GPU, only the weights pass through the memory of the machine."""
    states = states_of(policy)
    more_gib = states.gib * (4 / WEIGHT_BYTES if on_gpu else 1)
    for kind, letter in ((resource.RLIMIT_AS, "v"), (resource.RLIMIT_DATA, "d")):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY and limit < (ADDRESSES_GIB + more_gib) * GIB:
            seen = f"a program may address {limit / GIB:.1f} GiB, and training takes {ADDRESSES_GIB + more_gib:.1f}"
            return Finding(Status.FAIL, seen, f"raise that limit: ulimit -{letter} unlimited")
    if machine.memory_gib is None:
        return Finding(Status.WARN, "unknown", "look whether this system shows its /proc/meminfo")
    seen = f"{machine.memory_gib:.1f} GiB available"
    if machine.memory_gib >= TINY_GIB + more_gib:
        return Finding(Status.PASS, seen)
    is_sure = states.is_known or machine.memory_gib < TINY_GIB
    seen += f", and training this policy takes {TINY_GIB + more_gib:.1f} at least{'' if is_sure else ', by a guess'}"
    fix = "close other programs, raise the memory limit, or use a smaller policy"
    return Finding(Status.FAIL if is_sure else Status.WARN, seen, fix)


def too_small(gpu: Gpu, policy: str) -> Finding | None:
    """What is wrong with the memory of a GPU that is to train a policy; `None` where nothing is known to be."""
    states = states_of(policy)
    if gpu.free_gib is None or gpu.free_gib >= states.gib:
        return None
    seen = f"{cuda_name(gpu)} has {gpu.free_gib:.1f} GiB free, and training this policy takes {states.gib:.1f} at least"
    seen += "" if states.is_known else ", by a guess"
    return Finding(Status.FAIL if states.is_known else Status.WARN, seen, "use a GPU with more, or a smaller policy")
