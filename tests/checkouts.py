"""Stand-ins for checkouts of prime-rl at several releases: where files are, and hardly anything in them."""

import subprocess
from pathlib import Path

GUIDE = {"examples/reverse_text/rl.toml": "max_steps = 20\n", "packages/prime-rl-configs/README.md": ""}
AUGUST = {
    "examples/basic/reverse-text/rl.toml": "max_steps = 20\n",
    "packages/prime-rl-configs/src/prime_rl/configs/monitors.py": "",
    "deps/verifiers/README.md": "",
}
MIDDLE = {**GUIDE, "deps/verifiers/README.md": ""}
"""Between the two, when the parts had moved into `deps` and the examples had not moved yet."""
PYPROJECT = """\
[project]
name = "prime-rl"
version = "0.4.0"
[project.optional-dependencies]
flash-attn = ["flash-attn @ https://hub.example/flash_attn.whl"]
envs = ["reverse-text", "other_env>=1"]
"""


def checkout(folder: Path, files: dict[str, str] = GUIDE) -> Path:
    """A checkout with these files, besides those that all releases have."""
    for name, text in {"pyproject.toml": PYPROJECT, "src/prime_rl/README.md": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git says about the repository in `folder`, whatever the user has configured."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    argv = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def repository(folder: Path, files: dict[str, str] = GUIDE) -> str:
    """Make a real repository of a checkout; returns the revision of its only commit."""
    checkout(folder, files)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return git(folder, "rev-parse", "HEAD")
