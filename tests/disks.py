"""Small disks that tests may fill, and mount read-only: where `chmod` would not bind root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

needs_mount = pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounts a small disk: Linux, root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """While the block runs, nothing more fits on the disk; it must be a small one."""
    assert os.path.ismount(disk), "would fill the disk of the machine"
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as handle:
        while True:
            handle.write(b"x" * 4096)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """While the block runs, nothing on the disk can be opened for writing; what is open already stays writable."""
    for options in (["--bind", str(disk)], ["-o", "remount,bind,ro"]):  # a second mount, on top of the first
        subprocess.run(["mount", *options, str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
