"""What the stand-ins are told to do: the file `stand-in.json` in the checkout, and before it variables `STAND_IN_…`.

A variable holds JSON, or plain text where it is none: `STAND_IN_STEP_S=0.01`, `STAND_IN_DIE='{"trainer": {"at": 3}}'`.
Components are `rl`, `inference`, `engine`, `orchestrator`, `env server`, `torchrun`, `trainer`, `vf-eval` and `uv`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

FILE = "stand-in.json"
CALLS = "calls.jsonl"
"""In the checkout: one line of JSON for each start of a program."""
DEFAULTS: dict[str, Any] = {
    # Seconds. The real programs take up to minutes.
    "server_start_s": 0.4,  # until the server listens
    "trainer_start_s": 0.2,
    "first_step_s": 0.3,  # of the trainer
    "step_s": 0.1,
    "save_s": 0.05,  # for a checkpoint, and again for weights
    "second_s": 0.02,  # stands for one second where the orchestrator counts seconds until the server answers
    "join_s": 0.05,  # what the launcher waits for each live child before it ends any; really 5
    "kill_after_s": 5.0,  # what it then gives each child before SIGKILL; really 60
    "worker_grace_s": 3.0,  # what torchrun gives the trainer; really 30
    "engine_watch_s": 0.3,  # how long the server lives on without its engine; really up to 5
    # Skill: the share of right answers. It rises from the first value to the second over `max_steps`.
    "warm_skill": 0.08,
    "top_skill": 0.95,
    # The machine, where FAKE_NVML does not describe it.
    "gpus": 2,
    "busy": {},  # GPU → pids on it
    # What goes wrong.
    "die": {},  # component → see `die_at`
    "hang": [],  # components that do not exit when all is done
    "ignore_sigterm": [],  # components
    "slow_end_s": {},  # component → seconds between SIGTERM and its end
    "never_ready": False,  # the server never listens
    "engine_session": False,  # the server's engine has a session of its own
    "engine_death_exit": 0,  # of the server whose engine died
    "requests": {},  # {"from": number of the first, "how": HTTP status, "sleep", "close", "html" or "empty"}
    "unstable": False,  # weights never get their marker
    "says": {},  # component → lines it prints first; variables in them are filled in
    "garbage": [],  # components that print what no parser expects
    "uv_version": "0.9.26",
    "uv_fails": {},  # its command, for example "run" → what it prints before it exits with 1
}
GARBAGE = (
    b"\xff\xfe\x00 this is no UTF-8 \x80\n",
    b"\x1b[2J\x1b[10;10H\x1b]0;title\x07moved around\n",
    b"z" * 70_000 + b"\n",
    b"\r" * 50 + b"\n\n\n",
    b"Step 7 | Time: 1.00s | Reward: 1.0 | Loss: 0.1\n",
    b'{"level": "SUCCESS", "message": ["Step 7 | Reward: 1.0 | Loss: 0.1"]}\n{"level": "SUC\n',
    b"08:05:01 SUCCESS Step " + b"9" * 400 + b" | Time: nans | Reward: nan | Loss: -inf\n",
    b"12:00:00   ERROR Error: nobody failed with exit code one\n",
)
WATCHED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PATH", "VIRTUAL_ENV", "NO_PROXY", "HF_HUB_OFFLINE")


def checkout() -> Path:
    """The checkout whose virtual environment runs this program; the working directory for one outside of any."""
    folder = Path(sys.prefix).parent
    return folder if (folder / "src" / "prime_rl").is_dir() else Path.cwd()


def told(name: str) -> Any:
    """What this program is told about `name`."""
    return _behaviour()[name]


@cache
def _behaviour() -> dict[str, Any]:
    file = checkout() / FILE
    written = json.loads(file.read_text()) if file.is_file() else {}
    variables = {name: _parsed(text) for name in DEFAULTS if (text := os.environ.get(f"STAND_IN_{name.upper()}"))}
    if unknown := set(written) - set(DEFAULTS):
        sys.exit(f"{file}: unknown {sorted(unknown)}")
    return DEFAULTS | written | variables


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def begin(component: str, title: str, *, on_sigterm: Callable[[], object] | None = None) -> None:
    """Note the call, take a process title, hear SIGTERM as told, and say what is to be said first.

    Without `on_sigterm` the signal ends the process.
    """
    note_call(component)
    take_title(title)
    hear_sigterm(component, on_sigterm)
    for line in told("says").get(component, ()):
        print(os.path.expandvars(line), flush=True)
    if component in told("garbage"):
        sys.stdout.flush()
        sys.stdout.buffer.writelines(GARBAGE)
        sys.stdout.flush()
    die_at(component, "start")


def note_call(component: str) -> None:
    environment = {name: os.environ[name] for name in WATCHED if name in os.environ}
    called = {
        "program": component,
        "argv": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "pid": os.getpid(),
        "env": environment,
    }
    with (checkout() / CALLS).open("a") as calls:
        calls.write(json.dumps(called) + "\n")


def take_title(title: str) -> None:
    """What `ps` and psutil call the process; the kernel keeps 15 characters."""
    comm = Path("/proc/self/comm")
    if comm.exists():
        comm.write_text(title[:15])


def hear_sigterm(component: str, action: Callable[[], object] | None = None) -> None:
    delay_s = told("slow_end_s").get(component, 0)

    def heed(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(delay_s)
        if action:
            action()
        os._exit(128 + number)

    if component in told("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, heed if action or delay_s else signal.SIG_DFL)


@contextmanager
def deaf() -> Iterator[None]:
    """SIGTERM is heard afterwards: in between a child may be there that nobody knows yet."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        hear_again()


def hear_again() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def die_at(component: str, point: int | str) -> None:
    """Die if told to at this point: a step, or `start`, `ready`, `checkpoint`, `weights`, `end`.

    For the server and its engine a step is the policy version that they load. An engine that dies when it is ready
    does so right before the server listens.

    `{"at": 3, "signal": 9}` ends by a signal, `"exit": 7` with a code (1 without either), `"error": "text"` raises, and
    `"once": true` leaves the next start of the component alone.
    """
    plan = told("die").get(component)
    if plan is None or plan.get("at", "start") != point:
        return
    if plan.get("once"):
        marker = checkout() / f"died-{component}"
        if marker.exists():
            return
        marker.touch()
    if "error" in plan:
        raise RuntimeError(plan["error"])
    sys.stdout.flush()
    if "signal" in plan:
        os.kill(os.getpid(), plan["signal"])
        time.sleep(60)
    os._exit(plan.get("exit", 1))


def hang_if_told(component: str) -> None:
    while component in told("hang"):
        time.sleep(0.1)
