"""rlguide: reinforcement learning of language models, step by step in notebooks.

The public names below are loaded on first use, so that `import rlguide` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlguide.checks import check_machine, require
    from rlguide.config import RunConfig, load_config
    from rlguide.engines import plan
    from rlguide.environment.reward import similarity
    from rlguide.errors import RlguideError
    from rlguide.evaluation import evaluate
    from rlguide.run import Run, attach, launch, list_runs
    from rlguide.statistics import compare
    from rlguide.tryout import try_text

__version__ = "0.1.0"

__all__ = [
    "RlguideError",
    "Run",
    "RunConfig",
    "attach",
    "check_machine",
    "compare",
    "evaluate",
    "launch",
    "list_runs",
    "load_config",
    "plan",
    "require",
    "similarity",
    "try_text",
]

_HOMES = {
    "rlguide.checks": ("check_machine", "require"),
    "rlguide.config": ("RunConfig", "load_config"),
    "rlguide.engines": ("plan",),
    "rlguide.environment.reward": ("similarity",),
    "rlguide.errors": ("RlguideError",),
    "rlguide.evaluation": ("evaluate",),
    "rlguide.run": ("Run", "attach", "launch", "list_runs"),
    "rlguide.statistics": ("compare",),
    "rlguide.tryout": ("try_text",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
