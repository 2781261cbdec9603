"""What a child process inherits of this process's environment: everything, with some repairs. Pure."""

import os
from collections.abc import Mapping

from rlguide.redact import looks_secret

HOST = "127.0.0.1"
"""Where servers of ours listen: on this machine, and seen from nowhere else."""
OF_ANOTHER_JOB = {
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    *("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_RANK"),
    *("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_MEGATRON_LM", "PYTHONOPTIMIZE"),
}
"""From these torch and accelerate take that they are one of several processes; TRL needs the docstrings of others."""
LOOPBACK = (HOST, "localhost", "::1")
"""Names of this machine, for which no proxy may be asked."""


def inherited(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for a child process, without blank secrets and with this machine out of every proxy's reach.

    A blank `HF_TOKEN` is worse than none: it is sent, and refused, where no token would be needed. W&B gets no copy of
    what programs print, unless the user wants it: a key could be in it, and a file of W&B's cannot be cleaned. And
    `setproctitle`, in prime-rl and vLLM, must not write a title over the environment, in which a run's mark is seen.
    What is started is a job of its own, and no rank of the one in which it is started; docstrings stay.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if (value.strip() or not looks_secret(name)) and name not in OF_ANOTHER_JOB
    }
    return {"WANDB_CONSOLE": "off", "SPT_NOENV": "1"} | kept | bypassing(*LOOPBACK, environment=environment)


def bypassing(*hosts: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that keep calls to `hosts` away from a proxy, besides those that they name already.

    Programs read one spelling or the other, so that both say the same.
    """
    named = ",".join(environment.get(name, "") for name in ("no_proxy", "NO_PROXY")).split(",")
    text = ",".join(dict.fromkeys(filter(None, (host.strip() for host in (*named, *hosts)))))
    return {"no_proxy": text, "NO_PROXY": text}
