"""`import rlguide` is light: it loads nothing that a notebook's first cell would have to wait for."""

import json
from collections.abc import Callable

import pytest

HEAVY = {
    "torch", "transformers", "trl", "vllm", "verifiers", "datasets", "wandb", "matplotlib", "ipywidgets", "numpy",
    "pydantic", "typer", "rich", "psutil", "httpx", "tomlkit",
}  # fmt: skip
NEVER_IN_THE_KERNEL = {"torch", "transformers", "trl", "vllm", "verifiers", "wandb", "matplotlib", "ipywidgets"}


def loaded(fresh_python: Callable[[str], str], code: str) -> set[str]:
    return set(json.loads(fresh_python(f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))")))


def test_importing_rlguide_loads_nothing_heavy(fresh_python: Callable[[str], str]):
    assert not loaded(fresh_python, "import rlguide") & HEAVY


def test_looking_at_the_public_names_loads_nothing_heavy(fresh_python: Callable[[str], str]):
    assert not loaded(fresh_python, "import rlguide; dir(rlguide); rlguide.__all__; rlguide.__version__") & HEAVY


def test_using_every_public_name_never_loads_torch(fresh_python: Callable[[str], str]):
    code = "import rlguide\nfor name in rlguide.__all__: getattr(rlguide, name)"

    assert not loaded(fresh_python, code) & NEVER_IN_THE_KERNEL


def test_planning_and_checking_never_load_torch(fresh_python: Callable[[str], str]):
    code = "import rlguide\nrlguide.plan(rlguide.load_config())\nrlguide.check_machine()"

    assert not loaded(fresh_python, code) & NEVER_IN_THE_KERNEL


def test_an_unknown_name_is_an_attribute_error():
    import rlguide

    with pytest.raises(AttributeError, match="no_such_name"):
        rlguide.no_such_name  # noqa: B018
