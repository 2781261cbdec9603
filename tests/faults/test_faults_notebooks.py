"""Kernels, notebook servers and papermill that end in every way they can, while a run goes on."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import nbformat
import psutil
import pytest
import toy
from evidence import Expected, Fault
from jupyter_client import BlockingKernelClient
from nbformat.v4 import new_code_cell, new_notebook
from toy import after_steps, eventually

from rlguide.records import State
from rlguide.run import Run, attach

TOKEN = "a-token-of-this-test"
LIMIT_S = 60
LAUNCH = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(toy.__file__).parent)!r})
from toy import toy_plan
from rlguide.run import launch
run = launch(toy_plan(Path({{directory!r}}), steps=10_000, step_s=0.1))
Path({{pid!r}}).write_text(str(os.getpid()))
"""
WAIT = "run.wait(on_update=lambda *_: None)"


class Jupyter:
    """A real notebook server on loopback with one kernel, asked over its REST API."""

    def __init__(self, folder: Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._runtime = folder / "runtime"
        places = {name: str(folder / name) for name in ("config", "data", "runtime")}
        env = os.environ | {f"JUPYTER_{name.upper()}_DIR": place for name, place in places.items()}
        options = {"ServerApp.port": port, "ServerApp.ip": "127.0.0.1", "ServerApp.root_dir": folder}
        argv = [
            sys.executable,
            "-m",
            "jupyter_server",
            "--allow-root",
            "--no-browser",
            "--ServerApp.jpserver_extensions={}",
        ]
        argv += [f"--{name}={value}" for name, value in options.items()]
        with (folder / "log").open("wb") as log:
            self.process = psutil.Popen(argv, cwd=folder, env=env | {"JUPYTER_TOKEN": TOKEN}, stdout=log, stderr=log)
        headers = {"Authorization": f"token {TOKEN}"}
        url = f"http://127.0.0.1:{port}/api"
        self._http = httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=LIMIT_S)
        eventually(self._answers, within_s=LIMIT_S)
        self._kernel = self.ask("POST", "kernels", json={"name": "python3"})["id"]
        self.client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{self._kernel}.json"))
        self.client.load_connection_file()
        self.client.start_channels()
        self.await_kernel()

    def _answers(self) -> bool:
        try:
            return self._http.get("status").status_code == 200
        except httpx.ConnectError:
            assert self.process.is_running()
            return False

    def ask(self, method: str, path: str, **options: object) -> dict | None:
        answer = self._http.request(method, path, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def await_kernel(self) -> None:
        """Wait until the kernel answers."""
        eventually(self._kernel_answers, within_s=LIMIT_S)

    def _kernel_answers(self) -> bool:
        try:
            self.client.wait_for_ready(timeout=LIMIT_S)
            return True
        except RuntimeError:  # one that starts slowly is taken for dead, because its heart does not beat yet
            return False

    def kernel(self, action: str = "", method: str = "POST") -> dict | None:
        """What the server says of its kernel, or does to it."""
        return self.ask(method, f"kernels/{self._kernel}{action and '/' + action}")

    def reply_to(self, asked: str) -> dict:
        """What became of the cell that was sent under the id `asked`."""
        while (reply := self.client.get_shell_msg(timeout=LIMIT_S))["parent_header"].get("msg_id") != asked:
            pass
        return reply["content"]

    def launch(self, directory: Path) -> tuple[Run, psutil.Process]:
        """Launch a run from the kernel; returns it with the process of the kernel."""
        self.await_kernel()
        pid = directory.parents[1] / "pid"
        told = self.client.execute(LAUNCH.format(directory=str(directory), pid=str(pid)), reply=True, timeout=LIMIT_S)
        assert told["content"]["status"] == "ok", told["content"]
        run = attach(directory)
        after_steps(run, 2)
        return run, psutil.Process(int(pid.read_text()))

    def close(self) -> None:
        self.client.stop_channels()
        self._http.close()
        for process in [*self.process.children(recursive=True), self.process] if self.process.is_running() else []:
            process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    server = Jupyter(tmp_path_factory.mktemp("jupyter"))
    yield server
    server.close()


@pytest.mark.fault("kernel interrupt while a cell waits", Expected(State.RUNNING, also="the cell is interrupted"))
def test_a_kernel_is_interrupted(fault: Fault, jupyter: Jupyter, directory: Path):
    run, kernel = jupyter.launch(directory)
    asked = jupyter.client.execute(WAIT)
    eventually(lambda: jupyter.kernel(method="GET")["execution_state"] == "busy")

    jupyter.kernel("interrupt")
    told = jupyter.reply_to(asked)

    fault.note(f"the cell ended with {told.get('ename')}, kernel {'alive' if kernel.is_running() else 'gone'}")
    fault.check(run)
    assert told["ename"] == "KeyboardInterrupt"


@pytest.mark.fault(
    "kernel restart; attached to from the new one", Expected(State.RUNNING, also="found by the new kernel")
)
def test_a_kernel_is_restarted(fault: Fault, jupyter: Jupyter, directory: Path):
    run, kernel = jupyter.launch(directory)

    jupyter.kernel("restart")
    jupyter.await_kernel()
    look = f"import rlguide; state = str(rlguide.attach({str(directory)!r}).status.state)"
    told = jupyter.client.execute(look, user_expressions={"state": "state"}, reply=True, timeout=LIMIT_S)["content"]
    state = told["user_expressions"]["state"]["data"]["text/plain"]

    fault.note(f"old kernel {'alive' if kernel.is_running() else 'gone'}, the new one found the run {state}")
    fault.check(run)
    assert not kernel.is_running()
    assert state == "'running'"


@pytest.mark.fault("kernel SIGKILL", Expected(State.RUNNING))
def test_a_kernel_is_killed(fault: Fault, jupyter: Jupyter, directory: Path):
    run, kernel = jupyter.launch(directory)

    kernel.kill()
    eventually(lambda: not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE)

    fault.check(run)


@pytest.mark.fault("notebook server shutdown", Expected(State.RUNNING, also="server and kernel gone"))
def test_a_server_is_shut_down(fault: Fault, tmp_path_factory: pytest.TempPathFactory, directory: Path):
    jupyter = Jupyter(tmp_path_factory.mktemp("jupyter"))
    run, kernel = jupyter.launch(directory)

    jupyter.ask("POST", "shutdown")
    jupyter.process.wait(LIMIT_S)

    fault.note(f"server ended with {jupyter.process.returncode}, kernel {'alive' if kernel.is_running() else 'gone'}")
    fault.check(run)
    assert not kernel.is_running()
    jupyter.close()


@pytest.mark.parametrize(
    ("limit_s", "number"),
    [
        pytest.param(None, signal.SIGTERM, marks=pytest.mark.fault("papermill SIGTERM", Expected(State.RUNNING))),
        pytest.param(3, None, marks=pytest.mark.fault("papermill cell timeout", Expected(State.RUNNING))),
    ],
)
def test_papermill_ends(fault: Fault, tmp_path: Path, directory: Path, limit_s: int | None, number: int | None):
    pid, log = tmp_path / "pid", tmp_path / "log"
    cells = [LAUNCH.format(directory=str(directory), pid=str(pid)), WAIT]
    nbformat.write(new_notebook(cells=list(map(new_code_cell, cells))), tmp_path / "in.ipynb")
    argv = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "--kernel", "python3"]
    argv += ["--execution-timeout", str(limit_s)] if limit_s else []
    with log.open("wb") as file:
        papermill = subprocess.Popen(argv, cwd=tmp_path, stdout=file, stderr=file)
    eventually(lambda: pid.exists() and pid.read_text(), within_s=LIMIT_S)
    kernel, run = psutil.Process(int(pid.read_text())), attach(directory)
    after_steps(run, 2)

    if number:
        papermill.send_signal(number)
    code = papermill.wait(LIMIT_S)
    eventually(lambda: not kernel.is_running())

    said = [line for line in log.read_text().splitlines() if "Timeout" in line]
    fault.note(f"papermill ended with {code}, {said[-1:]}, kernel {'alive' if kernel.is_running() else 'gone'}")
    fault.check(run)
    assert code != 0
    assert bool(said) == bool(limit_s)
