"""What the variable `CUDA_VISIBLE_DEVICES` means, word by word as CUDA reads it. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from rlguide.records import Gpu

VARIABLE = "CUDA_VISIBLE_DEVICES"
HIDE_ALL = {"", "-1", "nodevfiles"}
"""What CUDA, PyTorch's users and SLURM write for no GPU at all."""
FIX = f"export {VARIABLE}=0,1 with the numbers of your GPUs, or unset it"

LONGEST = 200
"""Characters of it that are shown."""


class Visible(NamedTuple):
    """The GPUs that the variable leaves, in its order."""

    gpus: tuple[Gpu, ...]
    problem: str | None = None
    """Why that cannot be said; there are no GPUs then."""
    notice: str | None = None
    """What is odd about it."""


class _Illegal(Exception):
    """What is wrong with the variable."""


def visible(gpus: tuple[Gpu, ...], variable: str | None) -> Visible:
    """The GPUs that `variable` leaves: indices, UUIDs (`GPU-…`), slices (`MIG-…`), or an unambiguous beginning of them.

    CUDA ends the list without a word at the first entry that is not there. A form that CUDA and its programs read
    differently is a problem, never an absence.
    """
    if variable is None or not gpus:  # where there is none, nothing is chosen and nothing hidden
        return Visible(gpus)
    told = f"{VARIABLE}={_short(variable)!r}"
    if variable.strip().lower() in HIDE_ALL:
        return Visible((), notice=f"{told} hides all {len(gpus)}")
    chosen: list[Gpu] = []
    tokens = [token.strip() for token in variable.split(",")]
    try:
        _require_one_kind(tokens)
        for number, token in enumerate(tokens):
            found = _named(token, gpus)
            if found is None:
                rest = [other for other in tokens[number:] if other not in {"", "-1"}]
                notice = f"{told} names {_short(rest[0])}, which CUDA does not reach" if rest else None
                return Visible(tuple(chosen), notice=notice)
            if found in chosen:
                raise _Illegal(f"names {token} twice; CUDA then sees no GPU")
            chosen.append(found)
    except _Illegal as error:
        return Visible((), problem=f"{told} {error}")
    return Visible(tuple(chosen))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _require_one_kind(tokens: Sequence[str]) -> None:
    kinds = {_kind(token) for token in tokens if token not in {"", "-1"}}
    if None in kinds:
        raise _Illegal("is not a list of GPU indices or UUIDs")
    if len(kinds) > 1:
        raise _Illegal(f"mixes {' and '.join(sorted(str(kind) for kind in kinds))}; CUDA reads one kind only")


def _kind(token: str) -> str | None:
    if token.isascii() and token.isdecimal():
        return "indices"
    return "UUIDs" if token.startswith("GPU-") else "slices" if token.startswith("MIG-") else None


def _named(token: str, gpus: tuple[Gpu, ...]) -> Gpu | None:
    """The GPU or slice called `token`; `None` when there is none, where CUDA ends the list. Raises `_Illegal`."""
    if _kind(token) == "indices":
        return next((gpu for gpu in gpus if str(gpu.index) == (token.lstrip("0") or "0")), None)
    if not token.startswith(("GPU-", "MIG-")):
        return None
    named = gpus if token.startswith("GPU-") else tuple(part for gpu in gpus for part in gpu.slices or ())
    found = [gpu for gpu in named if gpu.uuid is not None and gpu.uuid.startswith(token)]
    if len(found) > 1:
        raise _Illegal(f"is ambiguous: {token} begins the UUIDs of {len(found)} GPUs")
    if not found and any(gpu.uuid is None for gpu in named):
        raise _Illegal(f"cannot be read: {token} may be a GPU whose UUID is unknown")
    return found[0] if found else None
