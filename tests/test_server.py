"""Servers of ours: real small programs that start, fail and end in the ways that inference servers do."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from rlguide.child import program
from rlguide.engines.trl import server
from rlguide.errors import EngineMissing, ServerError
from rlguide.paths import PACKAGE, install_command
from rlguide.ports import free_port
from rlguide.server import Endpoint, serving

STUB = Path(__file__).with_name("stub_server.py")
MODEL = "our/model"


def stub(
    folder: Path, *, port: int | None = None, served: str = MODEL, ready_s: float = 20, **options: Any
) -> AbstractContextManager[Endpoint]:
    """The stub server under our care; it calls its model `served`, and we want `MODEL`."""
    port = port or free_port()
    argv = (sys.executable, str(STUB), str(port), served, json.dumps(options))
    return serving(argv, port=port, model=MODEL, log=folder / "server.log", ready_s=ready_s)


@contextmanager
def foreign_server() -> Iterator[tuple[int, psutil.Process]]:
    """The same stub with the same model name, started by somebody else."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(STUB), str(port), MODEL])
    deadline = time.monotonic() + 15
    while socket.socket().connect_ex(("127.0.0.1", port)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    try:
        yield port, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_server_answers_within_the_block_and_is_gone_with_its_whole_tree_after_it(tmp_path: Path):
    orphan = tmp_path / "orphan.pid"

    with stub(tmp_path, orphan=str(orphan)) as endpoint:
        endpoint.require_answer()
        assert alive(endpoint.process.pid)
        assert alive(int(orphan.read_text()))

    assert not alive(endpoint.process.pid)
    assert not alive(int(orphan.read_text()))
    with pytest.raises(httpx.ConnectError):
        httpx.get(endpoint.url, trust_env=False)


def test_the_tree_is_gone_too_when_the_block_is_left_by_an_error(tmp_path: Path):
    orphan = tmp_path / "orphan.pid"

    with pytest.raises(KeyboardInterrupt), stub(tmp_path, orphan=str(orphan)):
        raise KeyboardInterrupt

    assert not alive(int(orphan.read_text()))


def test_a_server_that_dies_at_start_ends_the_wait_at_once_and_shows_its_log(tmp_path: Path):
    began = time.monotonic()

    with pytest.raises(ServerError) as refusal, stub(tmp_path, ready_s=60, die_after_start=True):
        pass

    assert time.monotonic() - began < 20
    assert "exit code 1" in refusal.value.message
    assert "stub: no such model" in refusal.value.message
    assert refusal.value.look == tmp_path / "server.log"


def test_a_server_that_is_never_ready_is_given_up_with_its_last_answer(tmp_path: Path):
    with (
        pytest.raises(ServerError, match=r"not ready after 2 s.*503 still loading"),
        stub(tmp_path, ready_s=2, loading=10_000) as endpoint,
    ):
        raise AssertionError(endpoint)


def test_a_server_that_never_listens_is_given_up(tmp_path: Path):
    with pytest.raises(ServerError, match="never listened"), stub(tmp_path, ready_s=1, never_listens=True):
        pass


def test_a_server_that_is_still_loading_is_waited_for(tmp_path: Path):
    with stub(tmp_path, loading=3) as endpoint:
        endpoint.require_answer()


@pytest.mark.parametrize(
    ("how", "said"),
    [("html", "no completion: '<html><body>Sign in"), ("422", "refused a completion: 422 .*stub says 422")],
)
def test_an_answer_that_is_no_completion_is_not_readiness(tmp_path: Path, how: str, said: str):
    with pytest.raises(ServerError, match=said), stub(tmp_path, failing_from=1, how=how):
        pass


def test_a_server_of_another_model_is_refused_by_both_names(tmp_path: Path):
    with pytest.raises(ServerError, match="'old/model', not 'our/model'"), stub(tmp_path, served="old/model"):
        pass


def test_a_foreign_server_on_the_port_is_never_used_and_never_ended(tmp_path: Path):
    with foreign_server() as (port, process):
        with (
            pytest.raises(ServerError, match=f"another program answers on port {port}"),
            stub(tmp_path, port=port, never_listens=True),
        ):
            pass

        assert process.is_running()


def test_a_listener_that_speaks_no_http_is_told_apart_from_our_server(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ServerError, match="another program answers"), stub(tmp_path, port=port, never_listens=True):
            pass


def test_the_death_of_a_server_in_use_is_noticed(tmp_path: Path):
    with stub(tmp_path, failing_from=2, how="die") as endpoint:
        with pytest.raises(ServerError, match="does not answer"):
            endpoint.require_answer()
        endpoint.process.wait(10)

        with pytest.raises(ServerError, match=r"(?s)exit code 9.*stub ran out of memory"):
            endpoint.require_alive()


def test_calls_to_our_server_never_go_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")

    with stub(tmp_path) as endpoint:
        endpoint.require_answer()


def test_a_free_port_can_be_listened_on():
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        assert listener.getsockname()[1] > 0


def test_programs_are_those_of_this_installation_whatever_is_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = tmp_path / "vf-eval"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    python, _, script, name = program("vf-eval")

    assert python == sys.executable
    assert (Path(script).parent, name) == (PACKAGE / "programs", "vf-eval")


def test_a_program_that_is_not_installed_is_named_with_the_command_that_installs_it():
    with pytest.raises(EngineMissing, match="no-such-server") as refusal:
        program("no-such-server")

    assert install_command() in str(refusal.value)


def test_transformers_is_started_with_its_model_so_that_it_refuses_every_other():
    argv = server("transformers", "/some/policy", 4242, 7, device="cpu")

    assert argv[-11:] == (
        *("transformers", "serve", "/some/policy", "--host", "127.0.0.1", "--port", "4242"),
        *("--default-seed", "7", "--device", "cpu"),
    )
