"""The stand-in for `uv` inside a checkout: tells its version and runs programs of the environment; makes nothing."""

import os
import sys
from pathlib import Path

from prime_rl_stand_in.behaviour import begin, told

OPTIONS = ("--no-sync", "--frozen", "--locked", "--quiet", "-q", "--")


def main() -> int:
    begin("uv", "uv")
    command, *arguments = sys.argv[1:] or [""]
    if command in ("--version", "-V"):
        print(f"uv {told('uv_version')}")
        return 0
    if why := told("uv_fails").get(command):
        return _fail(why, 1)
    if command in ("sync", "pip"):
        return 0
    return _run(arguments) if command == "run" else _fail(f"error: unrecognized subcommand '{command}'", 2)


def _run(arguments: list[str]) -> int:
    """Become a program of the environment in the working directory. Nothing is synchronised before."""
    words = [word for word in arguments if word not in OPTIONS]
    folder = Path.cwd() / ".venv"
    program = folder / "bin" / (words or ["no program"])[0]
    if not program.is_file():
        return _fail(f"error: Failed to spawn: `{program.name}` (os error 2)", 2)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    os.execve(program, words, os.environ | {"PATH": path, "VIRTUAL_ENV": str(folder)})
    raise AssertionError  # never reached


def _fail(why: str, code: int) -> int:
    print(why, file=sys.stderr)
    return code
