"""rlguide: reinforcement learning of language models, step by step in notebooks.

The public names below are loaded on first use, so that `import rlguide` stays light.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlguide.checks import check_machine, require
    from rlguide.config import RunConfig, load_config
    from rlguide.display import compare_letters, edit, file_map, monitor, plot_reward, quick_reference, rollouts
    from rlguide.engines import plan
    from rlguide.environment.reward import similarity
    from rlguide.errors import RlguideError
    from rlguide.evaluation import evaluate
    from rlguide.guard import parameters
    from rlguide.headless import tutorial
    from rlguide.installing import install
    from rlguide.origin import provenance
    from rlguide.reporting import report
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
    "compare_letters",
    "edit",
    "evaluate",
    "file_map",
    "install",
    "launch",
    "list_runs",
    "load_config",
    "monitor",
    "parameters",
    "plan",
    "plot_reward",
    "provenance",
    "quick_reference",
    "report",
    "require",
    "rollouts",
    "similarity",
    "try_text",
    "tutorial",
]

_HOMES = {
    "rlguide.checks": ("check_machine", "require"),
    "rlguide.config": ("RunConfig", "load_config"),
    "rlguide.display": ("compare_letters", "edit", "file_map", "monitor", "plot_reward", "quick_reference", "rollouts"),
    "rlguide.engines": ("plan",),
    "rlguide.environment.reward": ("similarity",),
    "rlguide.errors": ("RlguideError",),
    "rlguide.evaluation": ("evaluate",),
    "rlguide.guard": ("parameters",),
    "rlguide.headless": ("tutorial",),
    "rlguide.installing": ("install",),
    "rlguide.origin": ("provenance",),
    "rlguide.reporting": ("report",),
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


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()) is not None:
    import_module("rlguide.display").register(_shell)
