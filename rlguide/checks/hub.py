"""Checks of Hugging Face: the token, the policy in the cache, and what the Hub says of both."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from rlguide.addresses import host_of
from rlguide.asking import Finding
from rlguide.config import TINY
from rlguide.engines.policy import find_policy, problem_of
from rlguide.errors import ConfigError
from rlguide.files import read_file
from rlguide.paths import TINY_POLICY, absolute
from rlguide.probe import GIB
from rlguide.records import Status

HUB = "https://huggingface.co"
VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
ANSWER_S = 3.0
"""Seconds to connect, and seconds for each part of an answer."""
ANSWER_BYTES = 2**22
SAMPLING = "generation_config.json"
"""Without it a server samples otherwise than in training."""
NEW_TOKEN = "take a new token from the settings page of your account"


# ------------------------------------------------------------------------------------------------------ where it is


def hub_home() -> Path:
    """Folder of everything of Hugging Face's, as `huggingface_hub` finds it."""
    return _folder(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"))


def hub_cache() -> Path:
    """Folder of downloads from the Hub, as `huggingface_hub` finds it."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return _folder(named) if named else hub_home() / "hub"


def _folder(named: str | Path) -> Path:
    try:
        return absolute(Path(os.path.expandvars(named)))
    except ConfigError as error:
        raise ConfigError(error.message, hint="set HF_HOME to a folder that you may write to") from None


def offline() -> str | None:
    """The variable that forbids to ask the Hub, with its value; `None` where it may be asked."""
    set_to = ((name, os.environ.get(name, "")) for name in OFFLINE)
    return next((f"{name}={value}" for name, value in set_to if value.upper() in {"1", "ON", "YES", "TRUE"}), None)


def endpoint() -> str:
    """Address of the Hub, or of what stands in for it."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


# -------------------------------------------------------------------------------------------------------- the policy


class Cached(NamedTuple):
    """How much of a policy of the Hub is on this machine."""

    is_whole: bool
    told: str
    folder: Path | None = None
    """Of the whole one."""


def is_on_hub(policy: str) -> bool:
    """True for a name on the Hub; False for the tiny policy, a folder, and what is neither."""
    try:
        return find_policy(policy) == policy and not Path(policy).is_absolute()
    except ConfigError:
        return False


def is_wanted(policy: str) -> bool:
    """True for a policy that has to be downloaded, in whole or in part."""
    return is_on_hub(policy) and not cached(policy).is_whole


def look_at_policy(policy: str, *, ask: bool) -> Finding:
    """Whether the warm start is here, or may be downloaded; with `ask`, whether the Hub has it."""
    try:
        found = find_policy(policy)
    except ConfigError as error:
        return Finding(Status.FAIL, error.message, error.hint)
    if found == str(TINY_POLICY):
        return look_at_checkpoint(TINY_POLICY)
    if not is_on_hub(policy):
        return Finding(Status.PASS, found)
    there, fetch = cached(policy), f"hf download {policy}"
    if there.is_whole:
        return Finding(Status.PASS, f"{policy}: {there.told}")
    if variable := offline():
        fix = f"unset {variable.partition('=')[0]}, or copy the cache of a machine that has it"
        return Finding(Status.FAIL, f"{policy}: {there.told}, and {variable} forbids to download it", fix)
    if there.told != ABSENT:
        return Finding(Status.WARN, f"{policy}: {there.told}", f"{fetch} fetches the rest, and says why it stopped")
    if not ask:
        fix = f"--network asks for it; or fetch it before: {fetch}"
        return Finding(Status.WARN, f"{policy}: {there.told}; the Hub, which was not asked, must have it", fix)
    token = find_token()
    answer = _asked(f"models/{policy}", None if token is None or _problem(token.value) else token)
    well = Finding(Status.PASS, f"{policy}: {there.told}; the Hub has it, and a run downloads it first")
    return well if answer.status is Status.PASS else answer


def look_at_checkpoint(folder: Path) -> Finding:
    """Whether the policy that ships with rlguide is whole, with the file that says how it samples."""
    problem = problem_of(folder) or (None if (folder / SAMPLING).is_file() else f"{SAMPLING} is missing")
    if problem:
        fix = "install rlguide again, or make the policy anew with `rlguide warm-start`"
        return Finding(Status.FAIL, f"{folder}: {problem}", fix)
    return Finding(Status.PASS, f"{(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB at {folder}")


ABSENT = "not in the cache"


def cached(policy: str) -> Cached:
    """How much of the policy called so on the Hub is in the cache.

    The cache: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
    """
    try:
        folder = hub_cache() / f"models--{policy.replace('/', '--')}"
        begun, part = len([*(folder / "blobs").glob("*.incomplete")]), f"only in part in {folder}"
        snapshot = folder / "snapshots" / read_file(folder / "refs" / "main").decode(errors="replace")
        problem = problem_of(snapshot) if snapshot.is_dir() else "refs/main names no snapshot that is there"
    except ConfigError as error:
        return Cached(False, error.message)
    except (FileNotFoundError, NotADirectoryError):
        return Cached(False, f"{part}: {begun} downloads were cut off" if begun else ABSENT)
    except OSError as error:
        return Cached(False, f"unknown how much of it is in the cache: {error}")
    return Cached(False, f"{part}: {problem}") if problem else Cached(True, f"whole in {snapshot}", snapshot)


def weights_gib(policy: str, on_hub_gib: float) -> float:
    """Size of the weights of a policy, GiB; `on_hub_gib` for one that is on the Hub, or not to be found."""
    if policy == TINY:
        return 0
    found = [*Path(policy).expanduser().glob("*.safetensors")] if not is_on_hub(policy) else []
    return sum(path.stat().st_size for path in found) / GIB if found else on_hub_gib


# --------------------------------------------------------------------------------------------------------- the token


class Token(NamedTuple):
    """A token and where it was found. Never shown."""

    value: str
    source: str
    fix: str


def find_token() -> Token | None:
    """The token that `huggingface_hub` would send, and a variable that is set, whatever it holds. Raises `OSError`."""
    for name in VARIABLES:
        if name in os.environ:
            return Token(os.environ[name], name, f"unset {name}: public policies need no token; or {NEW_TOKEN}")
    path = _folder(os.environ.get("HF_TOKEN_PATH") or hub_home() / "token")
    try:
        text = read_file(path).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return Token(text, str(path), f"remove {path}: public policies need no token; or log in anew with `hf auth login`")


def look_at_token(policy: str, *, ask: bool) -> Finding:
    """Whether the token is one, and with `ask`, whether the Hub accepts it.

    An unusable one is worse than none: it is sent, and refused, where no token would be needed.
    """
    bad = Status.FAIL if is_wanted(policy) else Status.WARN
    token = find_token()
    if token is None:
        return Finding(Status.PASS, "none; public policies need none")
    if problem := _problem(token.value):
        return Finding(bad, f"the token from {token.source} {problem}", token.fix)
    seen = f"from {token.source}"
    if not ask:
        return Finding(Status.SKIP, f"{seen}; --network asks the Hub about it")
    if variable := offline():
        return Finding(Status.SKIP, f"{seen}; the Hub was not asked, because of {variable}")
    answer = _asked("whoami-v2", token)
    if answer.status is Status.PASS:
        return answer._replace(seen=f"{answer.seen}, {seen}")
    return answer._replace(status=bad) if answer.fix == token.fix else answer


def _problem(value: str) -> str | None:
    """What keeps a text from being a token, judged by its form alone; its length says nothing."""
    if not value.strip():
        return "is empty"
    if value.split() != [value]:
        return "holds a blank or a line break"
    if not (value.isascii() and value.isprintable()):
        return "holds letters that no token has"
    if set(value) & set("'\"`<>{}$%"):
        return "holds quotes or other signs that no token has"
    if endpoint() == HUB and (not value.startswith("hf_") or value == "hf_"):
        return "does not begin with hf_, as those of the Hub do"
    return None


def _asked(what: str, token: Token | None) -> Finding:
    """What the Hub answers. Errors of the library may quote what was sent, and are not shown."""
    import httpx

    host = host_of(endpoint()) or "what HF_ENDPOINT names"
    headers = {"Authorization": f"Bearer {token.value}"} if token else {}
    try:
        with httpx.stream("GET", f"{endpoint()}/api/{what}", headers=headers, timeout=ANSWER_S) as answer:
            body = next(answer.iter_bytes(ANSWER_BYTES), b"")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        told = "does not answer in time" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
        fix = "check network, proxy and HF_ENDPOINT; the tiny policy needs none of them"
        return Finding(Status.WARN, f"{host} {told} ({type(error).__name__})", fix)
    return _judged(answer.status_code, answer.headers.get("retry-after"), body, host, what, token)


def _judged(code: int, wait: str | None, body: bytes, host: str, what: str, token: Token | None) -> Finding:
    is_token = what.startswith("whoami")
    if code == 429:
        when = f"in {wait} s" if wait and wait.isdecimal() else "in some minutes"
        more = "" if token else "; a token of your own is given more"
        return Finding(Status.WARN, f"{host} takes no more questions for now (429)", f"try again {when}{more}")
    if code in {401, 403} and is_token and token:
        return Finding(Status.FAIL, f"{host} does not accept the token from {token.source} ({code})", token.fix)
    if code in {401, 403, 404} and not is_token:
        name, whom = what.partition("/")[2], "this account" if token else "everybody"
        seen = f"{host} has no policy {name}, or does not show it to {whom} ({code})"
        return Finding(Status.FAIL, seen, "correct model.name, or use a token of an account that may see it")
    if code != 200:
        return Finding(Status.WARN, f"{host} says {code}", "try again later, or check HF_ENDPOINT and proxy")
    name = _named(body, "name" if is_token else "id")
    if name is None:
        fix = "open it in a browser: perhaps this network wants a login; or correct HF_ENDPOINT"
        return Finding(Status.WARN, f"{host} answers with something that is not the Hub's", fix)
    return Finding(Status.PASS, f"token of {name}" if is_token else name)


def _named(body: bytes, key: str) -> str | None:
    try:
        return str(json.loads(body)[key])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
