"""Imports the modules named on the command line and prints one line of JSON about each, before and after.

    python -P try_imports.py torch trl:GRPOConfig,GRPOTrainer verifiers:.legacy

What stands behind a colon must be in the module, by its own list where it loads its parts late; behind a point, as a
module below it, which is not loaded. Behind a question mark stand others: without any of them, it is left out.

Run by file name, so that an interpreter without rlguide can be asked too; needs nothing but the standard library.
A crash while importing is the answer, not an accident: the line that is missing names the module.
"""

import gc
import importlib.util
import json
import os
import sys
import time
import traceback
from typing import Any

PIECES = 5


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print while they load is no answer
    os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")  # no CUDA context, no network
    gc.disable()  # hardly anything that is made while importing is garbage: a fifth of the time
    for argument in sys.argv[1:]:
        argument, _, others = argument.partition("?")
        name, _, parts = argument.partition(":")
        if others and not any(map(origin, others.split(","))):
            print(json.dumps({"module": name, "is_spare": True}), file=answers)
            continue
        begun = {"module": name, "origin": origin(name.partition(".")[0])}  # also of what then crashes
        print(json.dumps(begun), file=answers)
        print(json.dumps(begun | attempt(name, parts.split(",") if parts else [])), file=answers)
    os._exit(0)  # all is said; taking torch down takes time too


def attempt(name: str, parts: list[str]) -> dict[str, object]:
    started = time.monotonic()
    try:
        module = importlib.import_module(name)
        absent = [part for part in parts if not holds(module, part)]
    except BaseException as error:  # whatever a broken package raises, SystemExit included, is what was asked for
        first = first_of(error)
        behind = f", because of {type(first).__name__}: {first}" if str(first) not in str(error) else ""
        return {"error": f"{type(error).__name__}: {error}{behind}"} | raised_in(first)
    seconds = round(time.monotonic() - started, 2)
    answer = {
        "version": str(getattr(module, "__version__", "")),
        "file": getattr(module, "__file__", None),
        "folders": [*map(str, getattr(module, "__path__", ()))],
        "seconds": seconds,
    }
    if absent:
        return {"error": f"{name} {answer['version']} has no {', '.join(absent)}"}
    return answer | ({"work_s": work_s(module)} if name == "torch" else {})


def first_of(error: BaseException) -> BaseException:
    """The error with which it began: libraries that load late raise one of their own, which says less."""
    while behind := error.__cause__:
        error = behind
    return error


def raised_in(error: BaseException) -> dict[str, str]:
    """The file where an error was raised, when that is one of a package."""
    files = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    others = [file for file in files if file != __file__ and not file.startswith("<")]
    return {"origin": others[-1]} if others else {}


def holds(module: Any, part: str) -> bool:
    """True for a name that the module has or will load; `dir` last, because it can take as long as an import."""
    if part.startswith("."):
        return origin(f"{module.__name__}{part}") is not None
    return part in vars(module).get("__all__", ()) or part in dir(module)


def origin(name: str) -> str | None:
    """The file that was to be imported, where there is one."""
    try:
        found = importlib.util.find_spec(name)
    except Exception:  # a finder of somebody else's
        return None
    return found and found.origin


def work_s(torch: Any) -> float | None:
    """Seconds of one core for a piece of what training a small policy consists of; the best of some.

    `None` when torch cannot do it: that is not what was asked.
    """
    try:
        torch.set_num_threads(1)
        weights, rows = torch.full((128, 128), 0.01), torch.full((512, 128), 0.5)
        return min(piece(torch, rows, weights) for _ in range(PIECES))
    except Exception:  # a broken torch fails in ways of its own
        return None


def piece(torch: Any, rows: Any, weights: Any) -> float:
    started = time.thread_time()
    for _ in range(10):
        rows = torch.softmax(torch.nn.functional.silu(rows @ weights), -1)
        for _ in range(10):
            rows = rows[:, :] * 0.5 + 0.25
    return time.thread_time() - started


if __name__ == "__main__":
    main()
