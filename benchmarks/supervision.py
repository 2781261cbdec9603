"""What supervision costs: the tests' toy engine as a bare command and as a run, by turns."""

import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from rlguide.records import Plan
from rlguide.run import launch

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from toy import toy_plan

TURNS = 3
STEPS = {"steps": 100, "step_s": 0.2}
LOOK_S = 0.05


def supervision(folder: Path) -> None:
    """Twenty seconds of an engine that waits, and of one that keeps a core busy."""
    for burn in (False, True):
        bare, ours, start, used = [], [], [], []
        for turn in range(TURNS):
            plans = [toy_plan(folder / f"{how}-{burn}-{turn}", burn=burn, **STEPS) for how in ("bare", "run")]
            bare.append(bare_seconds(plans[0]))
            for seconds, times in zip(supervised_seconds(plans[1]), (ours, start, used), strict=True):
                times.append(seconds)
        alone_s, supervised_s, start_s, used_s = map(statistics.median, (bare, ours, start, used))
        more_s = supervised_s - alone_s
        print(f"an engine that {'keeps a core busy' if burn else 'waits'}: bare {alone_s:.2f} s", end=", ")
        print(f"from launch to the recorded end {supervised_s:.2f} s: {more_s:+.2f} s, {100 * more_s / alone_s:+.1f} %")
        print(f"{'':8}the launch took {start_s:.2f} s of it, whatever the run's length; after that", end=" ")
        print(f"the supervisor used {used_s:.2f} s of a core: {100 * used_s / supervised_s:.2f} %", flush=True)


def bare_seconds(plan: Plan) -> float:
    """Wall-clock of the engine's own command, its output in its log as in a run."""
    process = plan.processes[0]
    log = plan.directory / process.log
    log.parent.mkdir(parents=True)
    began = time.perf_counter()
    with log.open("wb") as output:
        subprocess.run(process.argv, cwd=plan.directory, stdout=output, stderr=output, check=True)
    return time.perf_counter() - began


def supervised_seconds(plan: Plan) -> tuple[float, float, float]:
    """Wall-clock from launch to the recorded end, that of the launch, and the supervisor's seconds on a core since."""
    began = time.perf_counter()
    run = launch(plan)
    start_s = time.perf_counter() - began
    supervisor = psutil.Process(run.record.supervisor.pid)
    first_s = used_s = sum(supervisor.cpu_times()[:2])
    while not run.record.state.is_over:
        with suppress(psutil.NoSuchProcess):
            used_s = sum(supervisor.cpu_times()[:2])
        time.sleep(LOOK_S)
    return time.perf_counter() - began, start_s, used_s - first_s
