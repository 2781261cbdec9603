"""Ports of this machine: one that is free, and whether one is."""

import errno
import socket

from rlguide.environ import HOST
from rlguide.errors import ConfigError

IN_USE = "in use"
TRIED = 100
"""Ports above the wanted one that are looked at."""


def free_port(wanted: int | None = None) -> int:
    """A port that nobody listens on, in IPv4 or IPv6, for `localhost` means either.

    `wanted`, or the next one above it that is free; without it any. Raises `ConfigError` when none is.
    """
    if wanted is not None:
        above = range(wanted, min(wanted + TRIED, 2**16))
        if (found := next((port for port in above if why_taken(port) is None), None)) is not None:
            return found
        told = f"no port from {wanted} to {above[-1]} can be used (the first: {why_taken(wanted)})"
        raise ConfigError(told, hint="set inference.port to one from 1024 to 65000 that is free")
    while True:
        with socket.create_server((HOST, 0)) as listener:
            port = listener.getsockname()[1]
        if why_taken(port) is None:
            return port


def why_taken(port: int) -> str | None:
    """Why no server can have that port alone; `None` when one can. Only a moment's look, which changes nothing."""
    ipv6 = why_taken_in(socket.AF_INET6, port) if socket.has_ipv6 else None
    return why_taken_in(socket.AF_INET, port) or (ipv6 if ipv6 == IN_USE else None)


def why_taken_in(family: socket.AddressFamily, port: int) -> str | None:
    """The same for IPv4 or IPv6 alone."""
    try:
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.bind(("", port))
    except OSError as error:
        return IN_USE if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return None
