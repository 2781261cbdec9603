"""Removing a run directory: what is not the run's is not touched."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy import toy_plan

from rlguide.errors import RunOccupied
from rlguide.run import Run, launch

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounts a disk: Linux, root"),
]


@pytest.fixture
def run_with_a_disk(outputs: Path) -> Iterator[Run]:
    run = launch(toy_plan(outputs / "toy"))
    run.wait(30)
    disk = run.directory / "engine" / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    (disk / "thesis.tex").write_text("precious")
    yield run
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_mounted_in_a_run_directory_is_left_alone(run_with_a_disk: Run):
    with pytest.raises(RunOccupied, match="mounted disk") as refused:
        run_with_a_disk.clean()

    assert "unmount" in refused.value.hint
    assert (run_with_a_disk.directory / "engine" / "disk" / "thesis.tex").read_text() == "precious"
    assert run_with_a_disk.history.completed_updates == 3
