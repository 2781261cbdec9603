"""Log lines as prime-rl's logger writes them at the run guide's release: coloured, also in files, or as JSON."""

import json
import sys
import time
import traceback
from datetime import datetime

COLOURS = {"DEBUG": "34", "INFO": "", "SUCCESS": "32", "WARNING": "33", "ERROR": "31"}
BAR = 10
"""Characters of a progress bar."""


class Logger:
    """Writes to standard output, progress bars to standard error."""

    def __init__(self, *, level: str = "info", as_json: bool = False):
        self._level = level.upper()
        self._as_json = as_json

    def debug(self, message: str) -> None:
        if self._level == "DEBUG":
            self._write("DEBUG", message)

    def info(self, message: str) -> None:
        self._write("INFO", message)

    def success(self, message: str) -> None:
        self._write("SUCCESS", message)

    def warning(self, message: str) -> None:
        self._write("WARNING", message)

    def error(self, message: str) -> None:
        self._write("ERROR", message)

    def fatal(self, where: str) -> None:
        """Tell of the exception that is being handled, with its traceback below."""
        self._write("ERROR", f"Fatal error in {where}", traced=traceback.format_exc())

    def progress(self, what: str, done: int, total: int, *, seconds: float, step: int | None = None) -> None:
        """One state of a progress bar: a carriage return and the bar, and a line end after the last."""
        if self._as_json:
            told = {"timestamp": _now(), "level": "INFO", "type": "progress", "desc": what}
            counted = {"current": done, "total": total, "percent": 100 * done // total}
            print(json.dumps(told | counted | ({} if step is None else {"step": step})), flush=True)
            return
        full = "█" * (BAR * done // total)
        bar = f"{100 * done // total:3}%|{full:<{BAR}}| {done}/{total}"
        rate = f"[00:{seconds:02.0f}<00:00, {done / seconds:.2f}it/s]" if done else "[00:00<?, ?it/s]"
        sys.stderr.write(f"\r{what}: {bar} {rate}" + ("\n" if done == total else ""))
        sys.stderr.flush()

    def _write(self, level: str, message: str, traced: str = "") -> None:
        if self._as_json:
            place = {"module": "stand_in", "function": "main", "line": 1} | ({"exception": traced} if traced else {})
            print(json.dumps({"timestamp": _now(), "level": level, "message": message} | place), flush=True)
            return
        colour = f"\x1b[{COLOURS[level]}m\x1b[1m" if COLOURS[level] else "\x1b[1m"
        place = f"{colour}\x1b[22m [stand_in.py::1]\x1b[0m\x1b[0m" if self._level == "DEBUG" else ""
        said = f"{colour}{level:>7}\x1b[0m {colour}\x1b[22m{message}\x1b[0m\x1b[0m{place}"
        print(f"\x1b[2m{time.strftime('%H:%M:%S')}\x1b[0m {said}", flush=True)
        if traced:
            print(traced, flush=True)


def _now() -> str:
    return datetime.now().astimezone().isoformat()


def log_plain(file, name: str, message: str, level: str = "INFO") -> None:
    """A line as the environment's own logger writes it: with the date, without colours."""
    file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} - {name} - {level} - {message}\n")
    file.flush()
