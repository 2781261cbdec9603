"""`python -m rlguide.programs.replay RECORDING OUTPUT --speed 10`: plays a recording of a run into a folder.

Lines of logs and whole files appear as they did in the recorded run, `--speed` times as fast. The standard library
suffices.
"""

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CLOCK = re.compile(rb"(?<![\d:])(\d\d):(\d\d):(\d\d)(?![\d:])")
FRONT_BYTES = 80
"""A logger writes the time at the beginning of a line; further behind it may be part of what is told."""


class Event(NamedTuple):
    """Some bytes that a file gets at a time."""

    at_s: float
    """Recorded seconds since the launch."""
    name: str
    """The file, relative to the recording and to the output."""
    content: bytes


def main() -> None:
    """Play, or exit with what is wrong with the recording."""
    parser = argparse.ArgumentParser(prog="rlguide.programs.replay", description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--speed", type=float, default=1.0)
    asked = parser.parse_args()
    manifest = json.loads((asked.recording / "manifest.json").read_text(encoding="utf-8"))
    print(f"a recording, played {asked.speed:g} times as fast: {manifest['what']}", flush=True)
    play(list(events(asked.recording, manifest)), asked.output, asked.speed, until_s=manifest["seconds"])
    print("the recording is over", flush=True)


def events(recording: Path, manifest: dict[str, Any]) -> Iterator[Event]:
    """What happens in the recording, file by file. Exits when a file is not as the manifest says."""
    started_s = _clock_s(CLOCK.search(manifest["started"].encode()))
    for name, entry in manifest["files"].items():
        content = (recording / name).read_bytes()
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            sys.exit(f"the recording is damaged: {recording / name} is not the file that was recorded")
        if "at_s" in entry:
            yield Event(entry["at_s"], name, content)
        else:
            yield from _lines(name, content, started_s, manifest["seconds"])


def _lines(name: str, content: bytes, started_s: float, seconds: float) -> Iterator[Event]:
    """The lines of a log at the times that they name; one without a time comes with the line before."""
    at_s = 0.0
    for line in re.findall(rb"[^\n]*\n|[^\n]+", content):
        if found := CLOCK.search(line[:FRONT_BYTES]):
            at_s = min(max(at_s, _clock_s(found) - started_s), seconds)
        yield Event(at_s, name, line)


def _clock_s(found: re.Match[bytes]) -> float:
    hours, minutes, seconds = map(int, found.groups())
    return 3600.0 * hours + 60 * minutes + seconds


def play(happening: list[Event], output: Path, speed: float, *, until_s: float) -> None:
    """Write every event into `output` when its time has come; returns after `until_s` recorded seconds."""
    started = time.monotonic()
    for event in happening:
        (output / event.name).parent.mkdir(parents=True, exist_ok=True)
        (output / event.name).unlink(missing_ok=True)
    for event in sorted(happening, key=lambda event: event.at_s):
        _sleep_until(started + event.at_s / speed)
        with (output / event.name).open("ab") as file:
            file.write(event.content)
    _sleep_until(started + until_s / speed)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


if __name__ == "__main__":
    main()
