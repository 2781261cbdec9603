"""GPUs are listed on strange machines too: unknown is neither absent nor 0, and nothing hangs, crashes or raises."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlguide import gpus, probe
from rlguide.gpus import Listing, cuda_name, find_gpus, free_gpus
from rlguide.owners import NOT_VISIBLE
from rlguide.records import Gpu, GpuOwner

GIB = 2**30
FAKE_NVML = Path(__file__).parent / "fake_nvml"
H100 = {"name": "NVIDIA H100", "uuid": "GPU-aaa", "total": 80 * GIB, "free": 79 * GIB, "capability": [9, 0],
        "pids": [], "graphics": []}  # fmt: skip
A100 = H100 | {"name": "NVIDIA A100", "uuid": "GPU-bbb", "capability": [8, 0]}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, driver or tool of this machine is seen, and no variable hides what a test describes."""
    (tmp_path / "bin").mkdir()
    for name in ("sh", "sleep", "cat"):
        (tmp_path / "bin" / name).symlink_to(
            next(p for p in (Path("/bin", name), Path("/usr/bin", name)) if p.exists())
        )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    library(monkeypatch, init=gpus.NO_LIBRARY)


def library(monkeypatch: pytest.MonkeyPatch, *described: Any, **more: Any) -> None:
    """From now on NVIDIA's library answers so."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE_NVML))
    monkeypatch.setenv("FAKE_NVML", json.dumps({"gpus": described} | more))


def nvidia_smi(folder: Path, script: str) -> None:
    """From now on there is an `nvidia-smi` that does this."""
    program = folder / "bin" / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def listing(tmp_path: Path) -> Listing:
    """What is found where the system shows neither a driver nor a GPU."""
    return find_gpus(device=tmp_path / "no-device", built_in=tmp_path / "no-pci")


# ------------------------------------------------------------------------------------------------ NVIDIA's library


def test_the_library_tells_everything_about_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100, A100, driver="570.86.15", cuda=12080)

    found = listing(tmp_path)

    assert found.gpus[0] == Gpu(
        index=0,
        name="NVIDIA H100",
        uuid="GPU-aaa",
        memory_gib=80.0,
        free_gib=79.0,
        compute_capability=(9, 0),
        owners=(),
    )
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert (found.driver, found.cuda, found.gpu_problem) == ("570.86.15", (12, 8), None)


def test_a_field_that_the_library_does_not_tell_is_unknown_and_the_gpu_not_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for field in ("total", "free", "pids", "capability", "uuid", "name", "graphics"):
        told = {key: value for key, value in H100.items() if key != field}
        library(monkeypatch, told if field != "free" else {k: v for k, v in told.items() if k != "total"}, A100)

        first, second = listing(tmp_path).gpus

        assert 0 not in (first.memory_gib, first.free_gib)
        assert first.is_free == (field not in {"total", "free", "pids"}), field
        assert second.is_free


def test_a_gpu_that_was_lost_is_listed_as_unknown_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, None, A100)

    lost, other = listing(tmp_path).gpus

    assert lost == Gpu(index=0, name="unknown GPU")
    assert (other.index, other.is_free) == (1, True)


@pytest.mark.parametrize(
    ("described", "told", "fix"),
    [
        ({"init": 18}, "renewed while the old one is loaded", "restart this machine"),
        ({"init": 9}, "driver is not loaded", "modprobe"),
        ({"init": 4}, "refused to look (Insufficient", "nvidia-smi"),
        ({"init": 999}, "refused to look (Unknown", "nvidia-smi"),
        ({"does": "crash"}, "crashed (exit code -11", "nvidia-smi"),
    ],
)
def test_a_library_that_fails_means_unknown_each_kind_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: dict[str, Any], told: str, fix: str
):
    library(monkeypatch, H100, **described)

    found = listing(tmp_path)

    assert found.gpus == ()
    assert told in found.gpu_problem
    assert fix in found.gpu_fix


def test_a_library_that_hangs_is_left_behind_in_time_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100, does="hang")
    monkeypatch.setattr(gpus, "LIMIT_S", 1.0)
    nvidia_smi(tmp_path, "echo 'it would hang as well'")
    started = time.monotonic()

    found = listing(tmp_path)

    assert time.monotonic() - started < 5
    assert "did not answer within 1 s" in found.gpu_problem
    alive = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in alive if "nvml_gpus.py" in " ".join(child.cmdline())]


def test_where_no_program_can_be_started_the_gpus_are_unknown_and_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    library(monkeypatch, H100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no-such-folder"))

    found = probe.machine()

    assert "no program can be started" in found.gpu_problem
    assert found.cores >= 1


def test_words_on_standard_output_do_not_disturb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100, does="talk")

    assert len(listing(tmp_path).gpus) == 1


def test_a_library_without_gpus_is_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, driver="570.86.15", cuda=12080)

    assert listing(tmp_path) == Listing(driver="570.86.15", cuda=(12, 8))


# ---------------------------------------------------------------------------------------------------------- owners


def test_who_is_on_a_gpu_is_named_and_it_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100 | {"pids": [os.getpid(), 2**22 + 1]})

    (gpu,) = listing(tmp_path).gpus

    assert gpu.owners == (
        GpuOwner(pid=os.getpid(), who="this Python itself: restart the kernel"),
        GpuOwner(who=NOT_VISIBLE),
    )
    assert not gpu.is_free


def test_memory_in_use_with_nobody_to_be_seen_belongs_to_somebody_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    library(monkeypatch, H100 | {"free": 77 * GIB}, H100 | {"uuid": "GPU-b", "free": 77 * GIB, "graphics": [1]})

    container, desktop = listing(tmp_path).gpus

    assert container.owners == (GpuOwner(who=NOT_VISIBLE),)
    assert not container.is_free
    assert desktop.is_free


def test_the_free_ones_are_taken_and_the_one_with_most_memory_first():
    def gpu(index: int, free_gib: float | None, **changes: Any) -> Gpu:
        return Gpu(**{"index": index, "name": "X", "memory_gib": 80, "free_gib": free_gib, "owners": ()} | changes)

    machine = (
        gpu(0, 79),
        gpu(1, 20),
        gpu(2, None),
        gpu(3, 80, owners=None),
        gpu(4, 80, owners=(GpuOwner(who=NOT_VISIBLE),)),
        gpu(5, 80, slices=()),
        gpu(6, 80),
        gpu(7, 79),
    )

    assert [found.index for found in free_gpus(machine)] == [6, 0, 7]


def part(number: int, **changes: Any) -> dict[str, Any]:
    """A slice of a divided GPU, as NVIDIA's library tells it."""
    told = {"name": "NVIDIA H100 MIG 1g.10gb", "uuid": f"MIG-{number}", "total": 10 * GIB, "free": 9.9 * GIB}
    return {**told, "free": int(told["free"]), "pids": [], "graphics": []} | changes


def test_a_divided_gpu_is_never_free_as_a_whole_and_each_slice_is_one_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    library(monkeypatch, H100 | {"slices": [part(1, pids=[2**22 + 1]), part(2), part(3, free=GIB)]})

    (whole,) = listing(tmp_path).gpus
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-2")
    (found,) = listing(tmp_path).gpus

    assert [whole.is_free, *(part.is_free for part in whole.slices)] == [False, False, True, False]
    assert whole.slices[0].owners == (GpuOwner(who=NOT_VISIBLE),)
    assert free_gpus([whole]) == free_gpus([found]) == []
    assert [cuda_name(gpu) for gpu in free_gpus([whole], slices=True)] == ["MIG-2"]
    assert found == free_gpus([found], slices=True)[0]
    assert (found.name, found.memory_gib, found.index) == ("NVIDIA H100 MIG 1g.10gb", 10.0, 0)
    assert found.compute_capability == (9, 0)


def test_a_slice_of_which_something_is_unknown_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for field in ("total", "free", "pids"):
        unknown = part(1)
        for name in {"total", "free"} if field != "pids" else {"pids"}:
            del unknown[name]
        library(monkeypatch, H100 | {"slices": [unknown]})

        assert free_gpus(listing(tmp_path).gpus, slices=True) == []


def test_a_whole_gpu_comes_before_a_slice_and_is_called_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100 | {"slices": [part(1)]}, A100)

    assert [cuda_name(gpu) for gpu in free_gpus(listing(tmp_path).gpus, slices=True)] == [1, "MIG-1"]


# ------------------------------------------------------------------------------------------------- the variable


def test_four_and_seven_of_eight_are_four_and_seven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, *(H100 | {"uuid": f"GPU-{n}"} for n in range(8)))

    for variable in ("4,7", "GPU-4,GPU-7"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
        assert [gpu.index for gpu in probe.machine().gpus] == [4, 7]


def test_an_illegal_variable_is_a_problem_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library(monkeypatch, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all")

    found = listing(tmp_path)

    assert "'all' is not a list" in found.gpu_problem
    assert "export CUDA_VISIBLE_DEVICES=0,1" in found.gpu_fix


# ------------------------------------------------------------------------------------------------------ nvidia-smi


ANSWERS = r"""
case "$*" in
  *query-gpu*) printf 'WARNING: infoROM is corrupted\r\n'
    printf '0, GPU-aaa, NVIDIA H100, 81559, 81079, 535.183.01, 9.0, Disabled\r\n'
    printf '1, GPU-bbb, NVIDIA H100, [N/A], [N/A], [N/A], [N/A], [N/A]\r\n'
    printf '2, GPU-ccc, X, [Insufficient Permissions], 10, 535.183.01, [Not Supported], [N/A]\r\n'
    printf '3, GPU-ddd, X, 81559 MiB, 81079 MiB, 535.183.01, 8.0, [Unknown Error]\r\n'
    printf '5, GPU-fff, X, 81559, 81079, 535.183.01, 9.0, Enabled\r\n'
    printf '4, GPU-eee, X, ERR!, [Unknown Error], [Not Supported], 8.x, ERR!\r\n\r\n' ;;
  *query-compute-apps*) printf 'GPU-ddd, %s\r\nGPU-ccc, [Not Found]\r\n' PID ;;
  *) echo '| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2     |' ;;
esac
"""


def test_hostile_fields_are_unknown_and_every_gpu_is_listed(tmp_path: Path):
    nvidia_smi(tmp_path, ANSWERS.replace("PID", str(os.getpid())))

    found = listing(tmp_path)

    assert [(gpu.index, gpu.memory_gib, gpu.free_gib, gpu.compute_capability) for gpu in found.gpus] == [
        (0, 79.6, 79.2, (9, 0)), (1, None, None, None), (2, None, 0.0, None), (3, 79.6, 79.2, (8, 0)),
        (5, 79.6, 79.2, (9, 0)), (4, None, None, None),
    ]  # fmt: skip
    assert [gpu.index for gpu in free_gpus(found.gpus)] == [0]
    assert found.gpus[2].owners == (GpuOwner(who=NOT_VISIBLE),)
    assert found.gpus[3].owners[0].pid == os.getpid()
    assert (found.driver, found.cuda) == ("535.183.01", (12, 2))


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "renewed while the old one"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'", "renewed while the old one"),
        ('echo "couldn\'t communicate with the NVIDIA driver" >&2; exit 9', "driver is not loaded"),
        ("echo 'broken' >&2; exit 1", "failed (1: broken)"),
        ("kill -SEGV $$", "failed (-11"),
        ("exit 0", "cannot be read"),
        ("echo '<html>'", "cannot be read"),
        ("echo nvidia-smi: command not found >&2; exit 127", "cannot be started"),
        ("yes rubbish & kill $$", "failed (-15"),
        ("sleep 60", "did not answer within 1 s"),
        ("trap '' TERM; sleep 60 & sleep 60", "did not answer within 1 s"),
    ],
)
def test_an_nvidia_smi_that_fails_means_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
):
    if "sleep" in script:
        monkeypatch.setattr(gpus, "LIMIT_S", 1.0)
    nvidia_smi(tmp_path, script)
    started = time.monotonic()

    found = listing(tmp_path)

    assert time.monotonic() - started < 8
    assert found.gpus == ()
    assert told in found.gpu_problem
    assert found.gpu_fix
    deadline = time.monotonic() + 10
    while any(runs_from(tmp_path, process) for process in psutil.process_iter()):  # killed, but perhaps not yet gone
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs_from(folder: Path, process: psutil.Process) -> bool:
    """True for a process that the test's `nvidia-smi` is, or has started."""
    with suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and str(folder) in process.environ().get("PATH", "")
    return False


def test_an_nvidia_smi_that_is_no_program_or_not_executable_is_told(tmp_path: Path):
    nvidia_smi(tmp_path, "")
    (tmp_path / "bin" / "nvidia-smi").write_bytes(b"\x7fELF not a program")
    assert "cannot be started" in listing(tmp_path).gpu_problem

    (tmp_path / "bin" / "nvidia-smi").chmod(0o644)
    assert "nvidia-smi: Permission denied" in listing(tmp_path).gpu_problem


def test_no_devices_is_none_at_all(tmp_path: Path):
    nvidia_smi(tmp_path, "echo 'No devices were found'; exit 6")

    assert listing(tmp_path) == Listing()


def test_one_lost_gpu_does_not_hide_the_others_and_is_told(tmp_path: Path):
    nvidia_smi(tmp_path, """
echo 'Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost'
case "$*" in *query-gpu*) echo '1, GPU-bbb, X, 81559, 81079, 535.183.01, 9.0, [N/A]' ;; esac
exit 15""")  # fmt: skip

    found = listing(tmp_path)

    assert [gpu.index for gpu in found.gpus] == [1]
    assert "GPU is lost" in found.gpu_notice
    assert free_gpus(found.gpus) == []  # who computes on it could not be found out


def test_an_old_driver_that_knows_no_compute_capability_still_lists(tmp_path: Path):
    nvidia_smi(tmp_path, """
case "$*" in
  *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
  *query-gpu*) echo '0, GPU-aaa, Tesla V100, 16160, 16000, 470.82.01' ;;
  *query-compute-apps*) ;;
  *) echo 'CUDA UMD Version: 11.4' ;;
esac""")  # fmt: skip

    found = listing(tmp_path)

    assert found.gpus[0].compute_capability is None
    assert found.gpus[0].is_free
    assert (found.driver, found.cuda) == ("470.82.01", (11, 4))


# ---------------------------------------------------------------------------------------------- neither of them


def test_a_driver_without_tools_and_a_gpu_without_driver_are_not_taken_for_none(tmp_path: Path):
    folder = tmp_path / "pci" / "0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")

    assert "neither NVIDIA's library" in find_gpus(device=tmp_path, built_in=tmp_path / "none").gpu_problem
    assert "no driver for it" in find_gpus(device=tmp_path / "none", built_in=tmp_path / "pci").gpu_problem
    (folder / "class").write_text("0x020000\n")  # NVIDIA makes network cards as well
    assert find_gpus(device=tmp_path / "none", built_in=tmp_path / "pci") == Listing()
