"""Unpacks one small pure-Python wheel into a folder of packages, for where no package manager can.

Nothing but the wheel's own module gets there, whatever the archive says: no path leads out, and no other package,
program or start-up file is touched.
"""

import csv
import hashlib
import io
import re
import shutil
import stat
import urllib.request
import zipfile
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from http.client import HTTPException, IncompleteRead
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError

from rlguide.errors import EngineMissing

TIMEOUT_S = 30.0
LARGEST_BYTES = 50 * 2**20


def read_wheel(source: str, *, sha256: str | None = None) -> bytes:
    """The wheel at an address or in a file; proxies count as the environment says.

    Raises `EngineMissing` when it cannot be had, or is another than the one with the hash `sha256`.
    """
    try:
        if source.startswith(("http://", "https://")):
            # Not `urlopen`, which keeps the proxies that it found when it was called first.
            with urllib.request.build_opener().open(source, timeout=TIMEOUT_S) as answer:
                data = answer.read(LARGEST_BYTES)
                if answer.length:
                    raise IncompleteRead(data, answer.length)
        else:
            data = Path(source).read_bytes()
    except HTTPError as error:
        told = f"the wheel of the environment is not to be had: {error.code} {error.reason} at {source}"
        raise EngineMissing(told, hint="training needs it: give another address, or a file, with --wheel") from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an impossible address
        told = f"the wheel of the environment cannot be fetched from {source}: {error}"
        raise EngineMissing(told, hint="fetch it elsewhere, and give the file with --wheel") from None
    seen = hashlib.sha256(data).hexdigest()
    if sha256 and seen != sha256:
        told = f"{source} is not the wheel that the lock file names: its SHA-256 is {seen}, not {sha256}"
        raise EngineMissing(told, hint="fetch it again, or from elsewhere with --wheel; do not install this one")
    return data


def checked_files(data: bytes, module: str) -> dict[str, bytes]:
    """The files of a wheel of `module`. Raises `EngineMissing` for one that is damaged or holds anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: info for info in archive.infolist() if info.filename[-1:] != "/"}
            problem = _problem(list(members.values()), module)
            files = {} if problem else {name: archive.read(name) for name in members}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:  # RuntimeError: encrypted
        problem, files = f"it is no whole archive ({error})", {}
    problem = problem or _disagreement(files)
    if problem:
        raise EngineMissing(f"this wheel of {module} is not installed: {problem}", hint="give another with --wheel")
    return files


def place_files(files: Mapping[str, bytes], module: str, site: Path) -> None:
    """Put the files of a wheel into `site`, in place of what was there of it, its code last. Raises `OSError`.

    Interrupted at any point, it leaves something that cannot be imported, or everything; the next call repairs it.
    """
    staging = site / f".{module}.unpacking"
    shutil.rmtree(staging, ignore_errors=True)
    for name, content in files.items():
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(content)
    for old in [site / module, site / f"{module}.py", *site.glob(f"{module}-*.dist-info")]:
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    for new in sorted(staging.iterdir(), key=lambda path: path.suffix != ".dist-info"):
        new.rename(site / new.name)
    staging.rmdir()


def _problem(members: list[zipfile.ZipInfo], module: str) -> str | None:
    """What an archive holds that does not belong into a wheel of `module` alone."""
    own = re.compile(rf"({module}\.py|{module}/.+|{module}-[^/]+\.dist-info/.+)")
    for info in members:
        if stat.S_ISLNK(info.external_attr >> 16):
            return f"{info.filename!r} in it is a link"
        if not own.fullmatch(info.filename) or "\\" in info.filename or ".." in PurePosixPath(info.filename).parts:
            return f"{info.filename!r} in it is no part of {module}"
    if sum(info.file_size for info in members) > LARGEST_BYTES:
        return f"it unpacks to more than {LARGEST_BYTES >> 20} MiB"
    return None


def _disagreement(files: dict[str, bytes]) -> str | None:
    """Where the files of a wheel are not what its `RECORD` says."""
    record = next((name for name in files if name.endswith(".dist-info/RECORD")), None)
    if record is None:
        return "it has no RECORD"
    rows = csv.reader(files[record].decode(errors="replace").splitlines())
    listed = {row[0]: row[1] for row in rows if len(row) > 1 and row[0] != record}
    odd = sorted(listed.keys() ^ (files.keys() - {record}))
    odd += [name for name in listed.keys() & files.keys() if _hash(files[name]) != listed[name]]
    return f"its RECORD does not agree with {odd[0]!r}" if odd else None


def _hash(content: bytes) -> str:
    return f"sha256={urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()}"
