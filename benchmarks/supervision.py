"""What supervision costs: an engine's bare command and the same as a run, by turns; nothing else should run.

The engine is the tests' toy, for many short turns, and then the trainer with the tiny preset. A shim around its command
notes when it began and ended, in both cases, so that what comes before and after is told apart from the engine's own
time, which differs by more from turn to turn than all supervision costs.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from rlguide.config import load_config
from rlguide.engines import plan as make_plan
from rlguide.records import Plan
from rlguide.run import launch
from rlguide.starting import start

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from toy import toy_plan

SHIM = """
import subprocess, sys, time
began = time.monotonic()
code = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(f"{began} {time.monotonic()}")
sys.exit(code)
"""
LOOK_S = 0.2


class Turn(NamedTuple):
    """Seconds of one turn."""

    whole: float
    before: float
    """From the call to the engine's beginning."""
    engine: float
    after: float
    """From the engine's end to the return of the call."""
    core: float
    """What the supervisor used of a core."""


def supervision(folder: Path) -> None:
    """A short toy, a toy that keeps a core busy, and the trainer."""
    compare("toy, waiting", lambda name: toy_plan(folder / name, steps=20, step_s=0.1), turns=15)
    compare("toy, busy", lambda name: toy_plan(folder / name, steps=100, step_s=0.2, burn=True), turns=3)
    config = load_config("tiny", {"max_steps": 20})
    compare("trainer", lambda name: make_plan(config, folder / name), turns=5)


def compare(what: str, plan_of: Callable[[str], Plan], *, turns: int) -> None:
    """Both by turns, the order changing every time; prints the medians."""
    taken: dict[Callable[[Plan], Turn], list[Turn]] = {bare: [], supervised: []}
    for turn in range(turns):
        for way in (bare, supervised) if turn % 2 else (supervised, bare):
            taken[way].append(way(timed(plan_of(f"{what}-{turn}-{way.__name__}"))))
    alone, ours = (Turn(*map(statistics.median, zip(*laps, strict=True))) for laps in taken.values())
    spread = max(lap.engine for lap in taken[bare]) - min(lap.engine for lap in taken[bare])
    around = ours.before - alone.before + ours.after - alone.after
    print(f"{what}, {turns} turns each, medians:")
    print(
        f"    bare {alone.whole:.2f} s, as a run {ours.whole:.2f} s: {percent(ours.whole - alone.whole, alone.whole)}"
    )
    print(f"    before the engine {alone.before:.3f} and {ours.before:.3f} s, after it {alone.after:.3f} and", end=" ")
    print(f"{ours.after:.3f} s: {around:+.3f} s, {percent(around, alone.whole)}")
    print(f"    the engine itself {alone.engine:.2f} and {ours.engine:.2f} s:", end=" ")
    print(f"{percent(ours.engine - alone.engine, alone.engine)}; its bare turns differ by {spread:.2f} s")
    print(f"    the supervisor used {ours.core:.2f} s of a core: {percent(ours.core, ours.whole)}", flush=True)


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:+.2f} %"


def timed(plan: Plan) -> Plan:
    """The same plan, with the shim around the engine's command."""
    engine = plan.processes[0]
    argv = (sys.executable, "-S", "-E", "-c", SHIM, str(times_file(plan)), *engine.argv)
    return plan.model_copy(update={"processes": (engine.model_copy(update={"argv": argv}),)})


def times_file(plan: Plan) -> Path:
    return plan.directory.with_name(f"{plan.directory.name}.times")


def bare(plan: Plan) -> Turn:
    """The engine's command alone, with its files and its log where a run has them."""
    for name, text in plan.files.items():
        (plan.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (plan.directory / name).write_text(text, encoding="utf-8")
    began = time.monotonic()
    if code := start(plan.processes[0], plan.directory).wait():
        sys.exit(f"the command ended with {code}; see {plan.directory / plan.processes[0].log}")
    return turn(plan, began, time.monotonic(), core_s=0.0)


def supervised(plan: Plan) -> Turn:
    """The same as a run, from the launch until the wait for it returns."""
    began = time.monotonic()
    run = launch(plan)
    used = [0.0]
    threading.Thread(target=watch, args=(psutil.Process(run.record.supervisor.pid), used), daemon=True).start()
    end = run.wait(on_update=lambda status, history: None)
    ended = time.monotonic()
    if not end.state.is_success:
        sys.exit(f"the run ended as {end.state}: {end.reason}")
    return turn(plan, began, ended, core_s=used[0])


def watch(supervisor: psutil.Process, used: list[float]) -> None:
    """Keep the seconds of a core that it has used so far, until it is gone."""
    with suppress(psutil.NoSuchProcess):
        while True:
            used[0] = sum(supervisor.cpu_times()[:2])
            time.sleep(LOOK_S)


def turn(plan: Plan, began: float, ended: float, *, core_s: float) -> Turn:
    engine_began, engine_ended = map(float, times_file(plan).read_text().split())
    return Turn(ended - began, engine_began - began, engine_ended - engine_began, ended - engine_ended, core_s)
