"""Checks of the network: this machine itself, its ports, and the services on the internet."""

import errno
import os
import socket
import urllib.request
from collections.abc import Mapping
from functools import partial

import psutil

from rlguide.addresses import host_of, without_users
from rlguide.asking import Finding, Question, ask
from rlguide.owners import owner_of
from rlguide.ports import IN_USE, why_taken_in
from rlguide.records import Status

ANSWER_S = 4.0
"""Seconds for a service on the internet."""
OFFLINE_FIX = "check network and proxy; the tiny policy on the trl engine needs no network"


def look_at_loopback() -> Finding:
    """Programs of this machine reach each other; where they do not, a server of ours never seems to listen."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(2)
            with socket.create_connection(server.getsockname(), timeout=2) as client:
                server.accept()[0].close()
                client.recv(1)
    except OSError as error:
        fix = "switch the loopback interface on (sudo ip link set lo up), or allow it in the firewall or sandbox"
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            fix = "allow more open files (ulimit -n), or close programs"
        return Finding(Status.FAIL, f"do not work: {error}", fix)
    proxies = urllib.request.getproxies()
    kind = "http" if proxies.get("http") else "all"
    if proxies.get(kind) and not urllib.request.proxy_bypass("127.0.0.1"):
        seen = f"work, but would go through the proxy {host_of(proxies[kind]) or f'in {kind}_proxy'}"
        return Finding(Status.WARN, seen, "export NO_PROXY=127.0.0.1")
    return Finding(Status.PASS, "work")


# ---------------------------------------------------------------------------------------------------------- ports


def look_at_port(port: int, *, is_wish: bool = False) -> Finding:
    """Whether a server of ours could listen there, and who does; with `is_wish`, a run would take the next free one."""
    fix = "end that program if it is yours, or configure another port"
    taken = Status.WARN if is_wish else Status.FAIL
    problem = why_taken_in(socket.AF_INET, port)
    if problem is None:
        if socket.has_ipv6 and why_taken_in(socket.AF_INET6, port) == IN_USE:
            seen = f"taken in IPv6 only, by {_holders(port)}: whoever asks `localhost` may reach that"
            return Finding(Status.WARN, seen, fix)
        return Finding(Status.PASS, "free")
    if problem == IN_USE:
        return Finding(taken, f"taken by {_holders(port)}", fix)
    return Finding(taken, f"cannot be used: {problem}", "configure another port, from 1024 up")


def _holders(port: int) -> str:
    """Who listens on that port, as far as it can be seen from here."""
    try:
        found = [c for c in psutil.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.Error:  # macOS tells it to the administrator only
        found = []
    pids = dict.fromkeys(c.pid for c in found if c.laddr.port == port)
    named = (f"{owner_of(pid).who} (pid {pid})" for pid in pids if pid is not None)
    return ", ".join(named) or "a program that is not visible from here"


# ------------------------------------------------------------------------------------------- services on the internet


def services() -> dict[str, str]:
    """Service → its address, as the programs that use it find it."""
    return {
        "the Hub": os.environ.get("HF_ENDPOINT") or "https://huggingface.co",
        "W&B": os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai",
        "GitHub": "https://github.com",
        "the environment hub": "https://hub.primeintellect.ai",
    }


def look_at_services(addresses: Mapping[str, str]) -> Finding:
    """Which of them answer; all are asked at the same time. Nothing but an empty question is sent."""
    asked = [Question(name, name, "", partial(_look_at, url), ANSWER_S + 1) for name, url in addresses.items()]
    answers = ask(asked)
    there = [check.title for check in answers if check.status is Status.PASS]
    silent = {check.title: check.seen for check in answers if check.status is not Status.PASS}
    told = "; ".join(f"{name}: {why}" for name, why in silent.items())
    if not silent:
        return Finding(Status.PASS, f"{', '.join(there)} answer")
    if not there:
        return Finding(Status.WARN, f"offline: nobody answers ({told})", OFFLINE_FIX)
    return Finding(Status.WARN, f"no answer from {told}", OFFLINE_FIX)


def _look_at(url: str) -> Finding:
    import httpx

    host = host_of(url) or "what HF_ENDPOINT or WANDB_BASE_URL holds"
    try:
        answer = httpx.head(url, timeout=ANSWER_S)
    except httpx.HTTPError as error:
        return Finding(Status.WARN, f"{host} {without_users(str(error)) or type(error).__name__}")
    except (httpx.InvalidURL, ValueError):  # its words may quote a part of a password
        return Finding(Status.WARN, f"{host} cannot be asked: it, or that of a proxy, is none")
    if answer.status_code >= 500:
        return Finding(Status.WARN, f"{host} says {answer.status_code}")
    return Finding(Status.PASS, host)
