"""Imports the modules named on the command line and prints one line of JSON about each, before and after.

    python -P try_imports.py torch trl

Run by file name, so that an interpreter without rlguide can be asked too; needs nothing but the standard library.
A crash while importing is the answer, not an accident: the line that is missing names the module.
"""

import importlib
import json
import os
import sys
import time


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print while they load is no answer
    for name in sys.argv[1:]:
        print(json.dumps({"module": name}), file=answers)
        print(json.dumps({"module": name} | attempt(name)), file=answers)


def attempt(name: str) -> dict[str, object]:
    started = time.monotonic()
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # whatever a broken package raises, SystemExit included, is what was asked for
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "version": str(getattr(module, "__version__", "")),
        "file": getattr(module, "__file__", None),
        "seconds": round(time.monotonic() - started, 2),
    }


if __name__ == "__main__":
    main()
