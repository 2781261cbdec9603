"""Prints what the doctor says of this machine, ready for docs/doctor.md: first its first screen, then every check.

    .venv/bin/python tools/doctor_examples.py            the engine that fits this machine
    .venv/bin/python tools/doctor_examples.py prime-rl   another one

Machine and user are not named, and paths of this project begin with `~/rlguide`. Part of the project's tools, not of
the package.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(engine: str = "auto") -> None:
    print(f"```text\n{doctor(engine)}```\n\n{doctor(engine, '--report')}", end="")


def doctor(engine: str, *options: str) -> str:
    argv = [sys.executable, "-c", "from rlguide.cli import main; main()", "doctor", "--engine", engine, *options]
    said = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False).stdout
    return said.replace(str(ROOT), "~/rlguide").replace(str(Path.home()), "~")


if __name__ == "__main__":
    main(*sys.argv[1:])
