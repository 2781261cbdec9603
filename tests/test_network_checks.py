"""Loopback, ports and services are judged by trying them; who holds a port is named as far as it can be seen."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlguide.checks import check_machine, network
from rlguide.process import MARK
from rlguide.records import Status

PASS, WARN, FAIL, _ = Status
PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


# ------------------------------------------------------------------------------------------------------- loopback


def test_loopback_works_and_a_proxy_in_front_of_it_is_a_doubt(monkeypatch: pytest.MonkeyPatch):
    assert network.look_at_loopback().status is PASS

    monkeypatch.setenv("http_proxy", "http://user:secret@proxy.example:3128")
    finding = network.look_at_loopback()

    assert finding.status is WARN
    assert "proxy.example:3128" in finding.seen
    assert "secret" not in finding.seen
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert network.look_at_loopback().status is PASS


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="takes the network away: Linux, root")
def test_a_loopback_interface_that_is_down_fails_with_the_fix():
    look = "from rlguide.checks.network import look_at_loopback as look; print(*look(), sep='|')"

    done = subprocess.run(["unshare", "--net", sys.executable, "-c", look], capture_output=True, text=True, timeout=30)

    status, seen, fix = done.stdout.split("|")
    assert status == "fail"
    assert "do not work: " in seen
    assert "ip link set lo up" in fix


# ---------------------------------------------------------------------------------------------------------- ports


@contextmanager
def listener(address: str = "127.0.0.1", **environment: str) -> Iterator[tuple[int, int]]:
    """A program of its own that listens: its pid and its port."""
    family = "AF_INET6" if ":" in address else "AF_INET"
    code = (
        f"import socket, sys; s = socket.socket(socket.{family});"
        + (" s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1);" if ":" in address else "")
        + f" s.bind(({address!r}, 0)); s.listen(); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, env=environment) as child:
        yield child.pid, int(child.stdout.readline())
        child.stdin.close()


def test_a_free_port_passes_and_stays_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert network.look_at_port(port) == (PASS, "free", None)
    assert network.look_at_port(port) == (PASS, "free", None)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_fails_and_names_the_holder(address: str):
    with listener(address) as (pid, port):
        finding = network.look_at_port(port)

    assert finding.status is FAIL
    assert finding.seen.startswith("taken by python")
    assert f"(pid {pid})" in finding.seen


def test_a_port_that_a_run_of_ours_holds_is_told_as_ours():
    with listener(**{MARK: "one"}) as (pid, port):
        assert (
            network.look_at_port(port).seen
            == f"taken by a run of rlguide whose folder is not found from here (pid {pid})"
        )


@pytest.mark.parametrize("address", ["::1", "::"])
def test_a_port_that_is_taken_in_ipv6_only_is_a_doubt(address: str):
    with listener(address) as (pid, port):
        finding = network.look_at_port(port)

    assert finding.status is WARN
    assert "taken in IPv6 only" in finding.seen
    assert f"(pid {pid})" in finding.seen


# --------------------------------------------------------------------------------------------------------- services


class Service(BaseHTTPRequestHandler):
    """Answers with the code that its path says, or never."""

    def do_HEAD(self) -> None:
        if self.path == "/never":
            time.sleep(20)
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.mark.parametrize(
    ("paths", "status", "seen"),
    [
        (("/200", "/301", "/404"), PASS, "0, 1, 2 answer"),
        (("/200", "/503", "/401"), WARN, "no answer from 1: 127.0.0.1:PORT says 503"),
        (("/500", "/502", "/503"), WARN, "offline: nobody answers"),
    ],
)
def test_services_are_judged_by_their_answers(service: str, paths: tuple[str, ...], status: Status, seen: str):
    finding = network.look_at_services({str(n): service + path for n, path in enumerate(paths)})

    assert finding.status is status
    assert finding.seen.startswith(seen.replace("PORT", service.rpartition(":")[2]))
    assert finding.fix is None or "needs no network" in finding.fix


def test_services_that_nobody_can_reach_are_offline_and_every_kind_of_address_is_survived(
    monkeypatch: pytest.MonkeyPatch,
):
    addresses = (
        "http://127.0.0.1:9",
        "http://no-such-host.example",
        "nonsense",
        "http://[",
        "",
        "ftp://x",
        "http://x:y",
    )

    finding = network.look_at_services({str(n): url for n, url in enumerate(addresses)})

    assert finding.status is WARN
    assert finding.seen.startswith("offline")
    monkeypatch.setenv("https_proxy", "http://")
    monkeypatch.setenv("http_proxy", "nonsense://[")
    assert network.look_at_services({"Hub": "http://127.0.0.1:9"}).status is WARN


def test_services_that_never_answer_are_asked_at_the_same_time(service: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(network, "ANSWER_S", 0.5)
    started = time.monotonic()

    finding = network.look_at_services({str(n): f"{service}/never" for n in range(8)})

    assert time.monotonic() - started < 4
    assert finding.status is WARN


def test_nobody_outside_is_asked_unless_that_is_wanted(service: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("HF_ENDPOINT", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, f"{service}/200")
    monkeypatch.setenv("https_proxy", service)  # which refuses: GitHub is not asked here either

    assert not {check.id for check in check_machine("replay").checks} & {"network", "hub-token"}
    (asked,) = check_machine(only=["network"]).checks
    assert asked.seen.startswith("no answer from GitHub: github.com ")
    assert "; the environment hub: hub.primeintellect.ai " in asked.seen
    assert asked.seen.count(":") == 2


def test_too_few_open_files_are_told_as_such_and_not_as_an_interface_that_is_off():
    look = "import resource; from rlguide.checks.network import look_at_loopback as look;"
    look += "resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)); print(*look(), sep='|')"

    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=30)

    status, seen, fix = done.stdout.split("|")
    assert (status, "Too many open files" in seen) == ("fail", True)
    assert fix.startswith("allow more open files (ulimit -n)")
