"""Makes a folder that looks like a checkout of prime-rl, and reads what was called in it."""

import json
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from prime_rl_stand_in.behaviour import CALLS, FILE
from prime_rl_stand_in.settings import to_toml
from prime_rl_stand_in.venv import TRAINER_MODULE, make_venv, version_of

Release = Literal["G", "C", "between"]
GUIDE_TOML = """\
max_steps = 20
seq_len = 2048

[model]
name = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"

[wandb]
project = "reverse-text"
name = "reverse-text"

[orchestrator]
batch_size = 128
rollouts_per_example = 16

[orchestrator.train.sampling]
max_completion_tokens = 128

[[orchestrator.train.env]]
id = "reverse-text"

[trainer.optim]
lr = 3e-6

[ckpt]

[inference]
"""
GUIDE_EXAMPLE = "examples/reverse_text/rl.toml"
CONFIGS = "packages/prime-rl-configs/src/prime_rl/configs"
ENTRY_POINTS = "src/prime_rl/entrypoints"
CODE = {
    "src/prime_rl/__init__.py": "",
    "src/prime_rl/trainer/__init__.py": "",
    "src/prime_rl/trainer/rl/__init__.py": "",
    f"src/{TRAINER_MODULE}": "import sys\n\nfrom prime_rl_stand_in.trainer import main\n\nsys.exit(main())\n",
    f"{ENTRY_POINTS}/rl.py": "",
    f"{ENTRY_POINTS}/inference.py": "",
    f"{CONFIGS}/rl.py": "",
}
TREES: dict[Release, dict[str, str]] = {
    "G": {GUIDE_EXAMPLE: GUIDE_TOML},
    "between": {GUIDE_EXAMPLE: GUIDE_TOML, "deps/verifiers/pyproject.toml": '[project]\nname = "verifiers"\n'},
    "C": {
        "examples/basic/reverse-text/rl.toml": 'max_steps = 20\n\n[run]\nname = "reverse-text"\n',
        "deps/verifiers/pyproject.toml": '[project]\nname = "verifiers"\n',
        f"{CONFIGS}/monitors.py": "",
    },
}
VERSIONS: dict[Release, str] = {"G": "0.4.0", "between": "0.5.0", "C": "0.8.0"}
FAST = {
    "server_start_s": 0.1, "trainer_start_s": 0.02, "first_step_s": 0.05, "step_s": 0.03, "save_s": 0.02,
    "second_s": 0.005, "join_s": 0.01, "engine_watch_s": 0.05,
}  # fmt: skip
"""Behaviour for tests of the programs themselves: 5 steps take under a second."""


def make_checkout(
    folder: Path,
    *,
    python: Path | str = sys.executable,
    behaviour: Mapping[str, Any] | None = None,
    release: Release = "G",
    venv: bool = True,
    without: Collection[str] = (),
    revision: str | None = None,
) -> Path:
    """A checkout of `release` in `folder`; only "G" has programs that run.

    `behaviour` as in `behaviour.DEFAULTS`; `without` names modules that its virtual environment lacks, and `revision`
    is the commit that its `.git` tells of. Returns `folder`.
    """
    wanted = f"~={version_of(Path(python))}.0"  # really ~=3.12.0; tests run with other Pythons too
    project = {"name": "prime-rl", "version": VERSIONS[release], "requires-python": wanted}
    files = {"pyproject.toml": to_toml({"project": project}), "uv.lock": "version = 1\n", "README.md": "# PRIME-RL\n"}
    if revision is not None:
        files |= {".git/HEAD": f"{revision}\n", ".git/objects/info/packs": "", ".git/refs/heads/.keep": ""}
    for name, text in (files | CODE | TREES[release]).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if behaviour is not None:
        tell(folder, **behaviour)
    if venv and release == "G":
        make_venv(folder.absolute(), python=python, without=without)
    return folder


def tell(checkout: Path, **behaviour: Any) -> None:
    """What the programs started from now on are told to do, in place of all that they were told before."""
    (checkout / FILE).write_text(json.dumps(behaviour))


def environment_of(checkout: Path, **variables: str) -> dict[str, str]:
    """The environment in which the checkout's programs find each other, and two GPUs."""
    path = f"{checkout.absolute() / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "CUDA_VISIBLE_DEVICES": "0,1"} | variables


def calls(checkout: Path, program: str | None = None) -> list[dict[str, Any]]:
    """The starts of programs, in order: `program`, `argv`, `cwd`, `pid` and some of `env`."""
    file = checkout / CALLS
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return [call for call in found if program in (None, call["program"])]
