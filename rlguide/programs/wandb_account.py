"""Asks W&B whose key this machine has, and writes the answer as JSON: `wandb_account.py ANSWER`.

wandb's own object finds the key and asks; the key itself is never written. When that fails, one plain request tells
why, since wandb's words for it change from release to release. Nothing prompts, and no file of the user is changed.
"""

import base64
import json
import netrc
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlguide.addresses import host_of, without_users

WANDB_S = 5
"""Seconds that wandb may take; W&B answers within one."""
PLAIN_S = 2.0
"""Seconds for the plain request that tells why wandb failed."""
SERVICE = ("https://api.wandb.ai", "https://api.forge.coreweave.com")
"""Addresses of W&B's own service, older and newer; a key for one of them is one for all."""
KNOWN_AS = "wandb.ai"
"""What people call that service. The wandb of prime-rl and that of rlguide ask it at different addresses, and name
different ones for its pages."""


def main(answer: Path) -> None:
    answer.write_text(json.dumps(ask()), encoding="utf-8")


def ask() -> dict[str, Any]:
    """`user`, `entity`, `source` and `host`; or a `problem` of the kinds in `rlguide.accounts`, and what was `told`."""
    try:
        import wandb
    except Exception as error:  # a broken package fails in ways of its own
        absent = isinstance(error, ModuleNotFoundError) and error.name == "wandb"
        return {"problem": "absent" if absent else "broken", "told": f"{type(error).__name__}: {error}"}
    try:
        return of_wandb(wandb)
    except Exception as error:  # a library's failure, of whatever class: what it says is part of the answer
        return why(without_users(str(error).partition(" [type=")[0]), wandb)  # then pydantic quotes the value


def of_wandb(wandb: Any) -> dict[str, Any]:
    api = wandb.Api(timeout=WANDB_S)
    host, viewer = api.settings["base_url"], api.viewer
    source = next((source for source, key in keys(host, wandb) if key == api.api_key), "W&B")
    entity = api.settings["entity"] or viewer.entity
    return {"user": viewer.username, "entity": entity, "source": source, "host": known_as(host)}


def known_as(host: str) -> str:
    """What readers know a W&B by."""
    return KNOWN_AS if host in SERVICE else host_of(host) or "W&B"


def keys(host: str, wandb: Any) -> Iterator[tuple[str, str | None]]:
    """Where a key is and what it is, in the order in which wandb takes them."""
    if key := os.environ.get("WANDB_API_KEY"):
        yield "WANDB_API_KEY", key
    if file := os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        yield f"the identity token {file}", None
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    with suppress(OSError, netrc.NetrcParseError):
        found = netrc.netrc(path)
        for name in dict.fromkeys((host, *(SERVICE if host in SERVICE else ()))):
            if (entry := found.authenticators(urlsplit(name).netloc)) and entry[2]:
                yield str(path), entry[2]
    if key := wandb.setup().settings.api_key:
        yield "W&B's settings", key


def why(told: str, wandb: Any) -> dict[str, Any]:
    """What kind of failure it was."""
    _, of_address, reason = told.partition("base_url")
    if of_address:
        return {"problem": "address", "told": " ".join(reason.split())}
    with suppress(Exception):  # settings that wandb refuses: then the failure is about them, and `told` says which
        host = os.environ.get("WANDB_BASE_URL") or wandb.setup().settings.base_url
        host = host.rstrip("/")
        source, key = next(keys(host, wandb), (None, None))
        answer = {"source": source, "host": known_as(host), "address": host_of(host)}
        if source is None:
            return answer | {"problem": "missing"}
        if key and key.split() != [key]:
            return answer | {"problem": "malformed"}
        problem, seen = plainly(host, key) if key else ("refused", None)
        return answer | {"problem": problem, "told": seen or told}
    return {"problem": "refused", "told": told}


def plainly(host: str, key: str) -> tuple[str, str | None]:
    """The problem that one request without wandb shows, and what was seen; `None` leaves wandb's own words."""
    authorization = "Basic " + base64.b64encode(f"api:{key}".encode()).decode()
    headers = {"Authorization": authorization, "Content-Type": "application/json", "User-Agent": "rlguide"}
    address = f"{without_users(host)}/graphql"
    request = urllib.request.Request(address, b'{"query": "{viewer {username}}"}', headers)
    try:
        with urllib.request.urlopen(request, timeout=PLAIN_S) as response:
            viewer = json.loads(response.read())["data"]["viewer"]
    except urllib.error.HTTPError as error:
        kind = "rejected" if error.code in {401, 403} else "trouble"
        return kind, f"status {error.code}"
    except TimeoutError:
        return "late", None
    except OSError as error:  # also urllib's own: no such name, no route, refused, a proxy that is not there
        reason = getattr(error, "reason", error)
        return ("late", None) if isinstance(reason, TimeoutError) else ("unreachable", str(reason))
    except (ValueError, KeyError, TypeError):
        return "page", None
    return ("nobody", None) if viewer is None else ("refused", None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
