"""A small engine for tests: writes metrics, rollouts, checkpoints and weights as a real one does, and misbehaves
as it is told. `toy_engine.py ENGINE_FOLDER '{"steps": 3, ...}' [--resume]`; see `DEFAULTS`.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

DEFAULTS = {
    "steps": 3,
    "start_s": 0.0,  # silence before the first step
    "step_s": 0.05,
    "stop_steps_at": None,  # does no step from this one on
    "exit_at": None,  # exits at this step with `exit_code`
    "exit_code": 0,
    "weights": True,
    "linger_s": 0.0,  # time between the weights and the exit
    "flood_bytes": 0,  # printed before the first step
    "child": None,  # a word or several of "own session", "ignores SIGTERM", "forgets the mark", "orphan"
    "workers": 0,  # children in sessions of their own, as a launcher has; when one dies, it exits with 5
    "tells": None,  # says that this component failed: when a worker died, with its exit code, and when asked to stop
    "clean_up_s": 0.0,  # time between saying so of a worker and the exit with 1; nothing but a kill shortens it
    "burn": False,  # keeps a core busy instead of sleeping
    "ignore_sigterm": False,
    "save_s": 0.0,  # time that saving takes
    "save_at": None,  # saves at this step, unasked; a SIGTERM meanwhile is heeded afterwards
}
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""
PATIENT = [sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]


def main() -> None:
    engine, behaviour, resumed = Path(sys.argv[1]), DEFAULTS | json.loads(sys.argv[2]), "--resume" in sys.argv
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: None if behaviour["ignore_sigterm"] else asked.append(number))
    checkpoint = engine / "checkpoints" / "last"
    first = int(checkpoint.read_text()) if resumed and checkpoint.exists() else 0
    (engine / "logs").mkdir(parents=True, exist_ok=True)
    for _ in range(behaviour["flood_bytes"] // 80):
        print("y" * 79)  # 80 bytes with the newline
    if behaviour["child"]:
        start_child(engine, behaviour["child"])
    workers = [subprocess.Popen(PATIENT, start_new_session=True) for _ in range(behaviour["workers"])]
    write(engine / "workers", " ".join(str(worker.pid) for worker in workers))
    print("ready", flush=True)
    pause(behaviour["start_s"], asked)
    for step in range(first, behaviour["steps"]):
        while behaviour["stop_steps_at"] == step and not asked:
            if died := [code for worker in workers if (code := worker.poll()) is not None]:
                sys.exit(clean_up(died[0], behaviour) if behaviour["tells"] else 5)
            time.sleep(0.02)
        if asked or behaviour["save_at"] == step:
            write_checkpoint(engine, step, behaviour)
        if asked:
            sys.exit(tell(-signal.SIGTERM, behaviour) if behaviour["tells"] else 0)
        if behaviour["exit_at"] == step:
            sys.exit(behaviour["exit_code"])
        pause(behaviour["step_s"], asked, burn=behaviour["burn"])
        report(engine, step)
    if behaviour["weights"]:
        write(engine / "weights" / f"step_{behaviour['steps']}" / "model.safetensors", "weights")
        write(engine / "weights" / f"step_{behaviour['steps']}" / "STABLE", "")
    pause(behaviour["linger_s"], asked)


def start_child(engine: Path, kind: str) -> None:
    ready = engine / "child-ready"
    argv = [sys.executable, "-S", "-E", "-c", STUBBORN, str(ready)]
    environment = {} if "forgets the mark" in kind else None
    if "orphan" in kind:  # of a parent in between, which is gone at once
        between = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
        subprocess.run([sys.executable, "-S", "-E", "-c", between, *argv], env=environment, check=True)
    else:
        subprocess.Popen(argv, start_new_session="own session" in kind, env=environment)
    while not ready.exists():
        time.sleep(0.01)


def tell(code: int, behaviour: dict) -> int:
    """As the launcher of prime-rl does, in its own log; returns the exit code that it ends with."""
    print(time.strftime("%H:%M:%S   ERROR"), f"Error: {behaviour['tells']} failed with exit code {code}", flush=True)
    return 1


def clean_up(code: int, behaviour: dict) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    exit_code = tell(code, behaviour)
    time.sleep(behaviour["clean_up_s"])
    return exit_code


def pause(seconds: float, asked: list[int], *, burn: bool = False) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not asked:
        if not burn:
            time.sleep(0.01)


def write_checkpoint(engine: Path, step: int, behaviour: dict) -> None:
    folder = engine / "checkpoints" / f"step_{step}"
    write(folder / "half", "")
    time.sleep(behaviour["save_s"])  # goes on after a signal
    write(folder / "whole", "")
    write(engine / "checkpoints" / "last", str(step))


def report(engine: Path, step: int) -> None:
    rollout = {"step": step, "text": "abc", "completion": "cba", "reward": 1.0, "advantage": 0.0}
    write(engine / "rollouts" / f"step_{step}" / "train_rollouts.jsonl", json.dumps(rollout) + "\n")
    with (engine / "logs" / "metrics.jsonl").open("a") as metrics:
        print(json.dumps({"step": step, "completed_updates": step + 1, "reward": step / 10}), file=metrics, flush=True)
    print(f"step {step}", flush=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
