"""Addresses in messages: host and port, and never the user's part, where a password may stand. Pure."""

import re
from contextlib import suppress
from urllib.parse import urlsplit

USER = re.compile(r"//[^\s'\"]*@")
"""The user's part of an address in a text."""


def host_of(address: str) -> str | None:
    """Host and port, also of an address without `https://`; `None` where it is not certain which part is the host."""
    with suppress(ValueError):
        parts = urlsplit(address if "//" in address else f"//{address}")
        port = "" if parts.port is None else f":{parts.port}"
        if parts.hostname and "@" not in f"{parts.path}{parts.query}{parts.fragment}":
            return (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname) + port
    return None


def without_users(text: str) -> str:
    """`text`, in which somebody else may quote addresses, without the users' parts."""
    return USER.sub("//", text)
