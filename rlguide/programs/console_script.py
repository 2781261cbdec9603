"""Runs a console script of this Python by its entry point, wherever its file was put.

    python -P console_script.py vf-eval reverse-text --help

Run by file name; needs nothing but the standard library.
"""

import sys
from importlib.metadata import entry_points


def main() -> None:
    _, name, *arguments = sys.argv
    entry, *_ = entry_points(group="console_scripts", name=name)
    sys.argv = [name, *arguments]  # as its usage shows it
    sys.exit(entry.load()())


if __name__ == "__main__":  # a server that spawns processes imports this file in them again
    main()
