"""Checks judge what they see, never raise, never hang, and take "could not find out" for a doubt."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from fake_torch import FOR_CUDA_12_8, torch_says

from rlguide import gpus, import_trial
from rlguide.asking import Finding, Question, ask, once
from rlguide.checks import check_machine, hardware, hub, memory, require
from rlguide.config import TINY, RunConfig, load_config
from rlguide.errors import ConfigError, EngineMissing
from rlguide.import_trial import ImportTrial
from rlguide.paths import TINY_POLICY, install_command
from rlguide.records import Check, Gpu, GpuOwner, Machine, MachineReport, Status
from rlguide.slot import cpu_slot
from rlguide.torch_build import torch_build, torch_folder
from rlguide.view import text as pages

PASS, WARN, FAIL, SKIP = Status


@pytest.fixture(scope="module")
def report() -> MachineReport:
    return check_machine()


def package(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.py").write_text(source)


# ----------------------------------------------------------------------------------------------------- the whole


def test_this_machine_runs_the_embedded_engine(report: MachineReport):
    assert report.engine == "trl"
    assert report.status is not FAIL, report
    assert "20 steps of the tiny policy take about" in report.verdict


def test_every_check_says_what_was_seen_and_what_is_wanted(report: MachineReport):
    assert all(check.seen and check.wanted and check.title for check in report.checks)
    assert len({check.id for check in report.checks}) == len(report.checks)


def test_a_newcomers_first_screen_is_short_where_all_is_well(report: MachineReport):
    well = report.model_copy(update={"checks": tuple(c for c in report.checks if c.status in {PASS, SKIP})})

    assert len(str(well).splitlines()) <= 12
    assert str(well) == pages.report_text(well)


def test_a_recording_needs_no_package_no_gpu_and_no_account(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("fake_nvml")))
    monkeypatch.setenv("FAKE_NVML", '{"does": "hang"}')
    started = time.monotonic()

    report = check_machine("replay")

    assert time.monotonic() - started < gpus.LIMIT_S / 2
    assert [check.id for check in report.checks] == ["python", "outputs", "disk", "plan"]
    assert report.verdict == "The replay engine runs here. The recording takes about 19 s."


def test_a_run_takes_longer_on_a_slower_processor_and_nothing_faster_than_measured_is_promised(
    monkeypatch: pytest.MonkeyPatch,
):
    trial = ImportTrial(["torch"])

    for work_s, told in ((0.01, 1), (0.1, 10), (0.019, 1.9), (0.001, 1), (None, 1), (0, 1)):
        monkeypatch.setattr(import_trial, "REFERENCE_WORK_S", 0.01)
        monkeypatch.setattr(trial, "answers", lambda work_s=work_s: ({"torch": {"work_s": work_s}}, ""))
        assert import_trial.slowness(trial) == pytest.approx(told)


def test_the_trial_of_torch_tells_how_long_a_piece_of_work_takes():
    told, _ = ImportTrial(["torch"]).answers()

    assert 0.0005 < told["torch"]["work_s"] < 1


def test_each_package_is_shown_with_the_file_it_comes_from(report: MachineReport):
    seen = {check.id: check.seen for check in report.checks}

    assert "reverse_text" in seen["packages.reverse_text"]
    assert seen["packages.torch"].endswith("torch/__init__.py")


def test_an_engine_that_does_not_exist_is_a_finding():
    report = check_machine("nemo")

    assert report.status is FAIL
    assert report.checks[0].seen == "there is no nemo engine"


def test_require_passes_on_a_good_machine_and_stops_with_the_fix_elsewhere(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
):
    assert require("packages", "warm-start").status is not FAIL
    blocked = outputs.parent / "file"
    blocked.touch()
    monkeypatch.setenv("RLGUIDE_OUTPUTS", str(blocked))

    with pytest.raises(EngineMissing, match="outputs folder") as caught:
        require("outputs")
    assert "RLGUIDE_OUTPUTS" in caught.value.hint
    assert require("python")


def test_require_asks_only_what_is_named():
    report = require("python", "packages.reverse_text")

    assert [check.id for check in report.checks] == ["python", "packages.reverse_text"]
    assert report.verdict == "Nothing is missing of what was asked: Python, reverse_text."


def test_the_verdict_about_what_was_asked_is_about_nothing_else(outputs: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "")
    assert check_machine(only=["hub-token"]).verdict == "In doubt: Hugging Face token."
    both = check_machine(only=["hub-token", "python"]).verdict
    assert both == "Nothing is missing of what was asked: Python. In doubt: Hugging Face token."

    outputs.touch()
    assert check_machine(only=["outputs", "python"]).verdict == "Missing of what was asked: outputs folder."
    assert (
        check_machine(only=["ssh"]).verdict == "Nothing is missing of what was asked: the trl engine needs none of it."
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [("GPUs", "gpus"), ("Packages.Reverse_Text", "packages.reverse_text"), ("disk for outputs", "disk"),
     ("W&B account", "wandb")],
)  # fmt: skip
def test_a_check_may_be_named_as_it_is_shown(name: str, found: str):
    assert [check.id for check in check_machine(only=[name]).checks] == [found]


def test_a_guard_that_asks_for_a_check_that_does_not_exist_is_no_guard():
    with pytest.raises(ConfigError, match="no check disc\n") as caught:
        require("Disc", "memory")
    assert caught.value.hint.startswith("did you mean disk? checks: checkout, cores, disk, driver, git, gpus, ")


def test_an_engine_that_is_missing_stops_every_guard():
    with pytest.raises(EngineMissing, match="no nemo engine"):
        require("python", engine="nemo")


# ------------------------------------------------------------------------------------------------------ the runner


def question(look: Callable[[], Finding], *, deadline_s: float = 5.0, name: str = "one") -> Question:
    return Question(name, name, "something", look, deadline_s)


def test_a_check_that_raises_is_a_doubt_not_a_crash():
    def broken() -> Finding:
        raise OSError("no such thing")

    (check,) = ask([question(broken)])

    assert check.status is WARN
    assert check.seen == "could not be found out: OSError: no such thing"


def test_a_check_that_hangs_is_a_doubt_and_does_not_hold_up_the_others():
    release = threading.Event()
    hangs = question(lambda: Finding(PASS, str(release.wait(30))), deadline_s=0.2)
    quick = question(lambda: Finding(PASS, "yes"), name="two")

    slow, fast = ask([hangs, quick])
    release.set()

    assert (slow.status, slow.seen, slow.seconds) == (WARN, "no answer within 0.2 s", 0.2)
    assert fast.status is PASS


def test_where_no_thread_can_be_started_that_is_a_doubt(fresh_python: Callable[[str], str]):
    told = fresh_python(
        "import psutil, resource; from rlguide.checks import check_machine\n"
        "limit = psutil.Process().memory_info().vms + 2**24\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "print(check_machine().model_dump_json())"
    )

    doubts = [check for check in MachineReport.model_validate_json(told).checks if check.status is WARN]
    assert any("can't start new thread" in check.seen and "ulimit -a" in check.fix for check in doubts), told


def checked_under(kind: str, limit: float, check: str, fresh_python: Callable[[str], str]) -> Check:
    """What one check says in a process with a limit of that kind, in bytes."""
    told = fresh_python(
        "import resource; from rlguide.checks import check_machine\n"
        f"resource.setrlimit(resource.RLIMIT_{kind}, ({limit:.0f}, resource.RLIM_INFINITY))\n"
        f"print(check_machine('trl', only=['{check}']).model_dump_json())"
    )
    (found,) = MachineReport.model_validate_json(told).checks
    return found


@pytest.mark.parametrize(("kind", "letter"), [("AS", "v"), ("DATA", "d")])
@pytest.mark.parametrize(("limit_gb", "status"), [(2.5, FAIL), (4, PASS)])
def test_a_limit_of_addresses_counts_as_memory(
    limit_gb: float, status: Status, kind: str, letter: str, fresh_python: Callable[[str], str]
):
    memory = checked_under(kind, limit_gb * 1e9, "memory", fresh_python)

    assert memory.status is status, memory.seen
    assert status is PASS or ("a program may address 2.3 GiB" in memory.seen and f"ulimit -{letter}" in memory.fix)


@pytest.mark.parametrize(("limit_mb", "status"), [(2, FAIL), (100, PASS)])
def test_a_limit_of_the_size_of_files_counts_for_what_a_run_writes(
    limit_mb: int, status: Status, fresh_python: Callable[[str], str]
):
    outputs = checked_under("FSIZE", limit_mb * 1e6, "outputs", fresh_python)

    assert outputs.status is status, outputs.seen
    assert status is PASS or ("a file may have 2.0 MB" in outputs.seen and "ulimit -f" in outputs.fix)


def test_a_temporary_folder_that_is_gone_is_not_the_one_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))

    (check,) = check_machine("trl", only="temporary-disk").checks

    assert check.status is FAIL
    assert f"{tmp_path / 'gone'} is not there any more" in check.seen


def test_checks_run_at_the_same_time():
    both = threading.Barrier(2, timeout=5)

    found = ask([question(lambda: Finding(PASS, str(both.wait() >= 0)), name=name) for name in ("one", "two")])

    assert [check.seen for check in found] == ["True", "True"]


def test_what_many_ask_for_is_found_once_and_a_failure_is_tried_again():
    calls = []

    def find() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("not yet")
        return len(calls)

    get = once(find)
    with pytest.raises(OSError, match="not yet"):
        get()

    assert [get(), get()] == [2, 2]


def test_an_error_of_ours_keeps_its_words_and_its_way_out():
    def refused() -> Finding:
        raise ConfigError("no folder", hint="name one")

    (check,) = ask([question(refused)])

    assert (check.seen, check.fix) == ("could not be found out: no folder", "name one")


def test_what_a_terminal_would_obey_is_not_shown():
    (check,) = ask([question(lambda: Finding(FAIL, "a\x1b[31m\n\tb\udcff" + "c" * 9999, "do\x07"))])

    assert check.seen.startswith("a�[31m b�ccc")
    assert (len(check.seen), check.fix) == (500, "do�")


def test_a_fix_is_shown_only_where_something_is_wrong():
    good, bad = ask([
        question(lambda: Finding(PASS, "yes", "do this")),
        question(lambda: Finding(FAIL, "no", "do this"), name="two"),
    ])  # fmt: skip

    assert (good.fix, bad.fix) == (None, "do this")


# ------------------------------------------------------------------------------------------------- imports in a child


def test_imports_that_go_wrong_in_every_way_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    package(tmp_path, "good_one", "__version__ = '1.2'\nprint('noise on stdout')")
    package(tmp_path, "raises", "raise OSError('undefined symbol: foo')")
    package(tmp_path, "leaves", "raise SystemExit(3)")
    package(tmp_path, "crashes", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    trial = ImportTrial(["good_one", "absent_one", "raises", "leaves", "crashes", "after"])

    found = {name: trial.find(name) for name in trial.modules}

    assert found["good_one"] == Finding(PASS, f"1.2 from {tmp_path / 'good_one.py'}")
    assert "ModuleNotFoundError" in found["absent_one"].seen
    assert "undefined symbol: foo" in found["raises"].seen
    assert "SystemExit: 3" in found["leaves"].seen
    assert "exit code -11 (SIGSEGV) while importing it" in found["crashes"].seen
    assert found["after"].status is SKIP
    assert [found[name].status for name in ("absent_one", "raises", "leaves", "crashes")] == [FAIL] * 4
    assert found["absent_one"].fix == install_command()


@pytest.mark.parametrize("end", ["", "; import os; os.abort()"])
def test_what_a_package_puts_into_the_temporary_folder_goes_with_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    package(tmp_path, "untidy", f"import tempfile; tempfile.mkdtemp(); print(tempfile.gettempdir()){end}")

    assert ImportTrial(["untidy"]).find("untidy").status is (FAIL if end else PASS)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_without_code_is_no_package_and_a_broken_build_is_told_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "left_over").mkdir()
    package(tmp_path, "built", "raise ImportError('built.so: undefined symbol: _ZN3c105')")

    trial = ImportTrial(["left_over", "built"], fix="install anew")

    assert trial.find("left_over").status is FAIL
    assert f"only a folder without code: {tmp_path / 'left_over'}" in trial.find("left_over").seen
    assert "built for another version" in trial.find("built").fix


def test_a_package_that_leaves_a_program_behind_or_never_loads_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    package(tmp_path, "leaves_one", "import subprocess; subprocess.Popen(['sleep', '60'])")
    package(tmp_path, "hangs", "import time; time.sleep(60)")
    trial = ImportTrial(["leaves_one", "hangs", "after"], limit_s=3)

    assert trial.find("leaves_one").status is PASS
    assert "still importing after 3 s while importing it" in trial.find("hangs").seen
    assert trial.find("after").status is SKIP


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("echo 'unknown option -P' >&2; exit 2", "exit code 2 (unknown option -P) while importing it"),
        ("kill -9 $$", "exit code -9 (SIGKILL) while importing it"),
        ("echo '[]'; echo '{\"module\": 1}'; printf '\\377\\0'; exit 0", "exit code 0 while importing it"),
    ],
)
def test_an_interpreter_that_is_none_fails_at_the_first_package(tmp_path: Path, script: str, seen: str):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    trial = ImportTrial(["json", "after"], python=python)

    assert trial.find("json").status is FAIL
    assert seen in trial.find("json").seen
    assert trial.find("after").status is SKIP


def test_what_python_prints_at_its_start_does_not_disturb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    package(tmp_path, "sitecustomize", "print('hello'); print('{}'); print('[1]')")

    assert ImportTrial(["json"]).find("json").status is PASS


def test_the_working_directory_cannot_shadow_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package(tmp_path, "json", "raise OSError('shadowed')")
    monkeypatch.chdir(tmp_path)

    assert ImportTrial(["json"]).find("json").status is PASS


def test_the_programs_beside_the_trial_are_no_packages():
    assert "ModuleNotFoundError" in ImportTrial(["try_imports"]).find("try_imports").seen


def test_an_interpreter_that_is_not_there_is_a_doubt(tmp_path: Path):
    (check,) = ask([question(lambda: ImportTrial(["json"], python=tmp_path / "python").find("json"))])

    assert check.status is WARN
    assert "FileNotFoundError" in check.seen


# -------------------------------------------------------------------------------------------------- single checks


def machine(**changes: object) -> Machine:
    return Machine(**{"cores": 2, "memory_gib": 8.0} | changes)


@pytest.mark.parametrize(
    ("finding", "status"),
    [
        (hardware.look_at_cores(machine()), PASS),
        (hardware.look_at_cores(machine(cores=1)), WARN),
        (memory.look_at_memory(machine(), TINY, on_gpu=False), PASS),
        (memory.look_at_memory(machine(memory_gib=1.0), TINY, on_gpu=False), FAIL),
        (hardware.look_at_gpus(machine(), RunConfig()), PASS),
        (hardware.look_at_gpus(machine(gpus=(Gpu(index=0, name="X"),)), RunConfig()), WARN),
        (hardware.look_at_gpus(machine(gpu_problem="nvidia-smi did not answer"), RunConfig()), WARN),
    ],
)
def test_the_machine_is_judged(finding: Finding, status: Status):
    assert finding.status is status


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("model.safetensors", lambda file: file.write_bytes(file.read_bytes()[:-1]), "model.safetensors is not whole"),
        ("model.safetensors", Path.unlink, "there are no weights"),
        ("tokenizer.json", Path.unlink, "there is no tokenizer"),
        ("generation_config.json", Path.unlink, "generation_config.json is missing"),
    ],
)
def test_a_whole_checkpoint_passes_and_a_cut_or_missing_file_of_it_fails(
    tmp_path: Path, name: str, damage: Callable[[Path], object], said: str
):
    folder = Path(shutil.copytree(TINY_POLICY, tmp_path / "policy"))
    assert hub.look_at_checkpoint(folder).status is PASS

    damage(folder / name)

    found = hub.look_at_checkpoint(folder)
    assert (found.status, said in found.seen) == (FAIL, True)


def test_a_taken_processor_is_a_doubt_that_names_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert hardware.look_at_slot().status is PASS

    with cpu_slot("run one"):
        finding = hardware.look_at_slot()

    assert finding.status is WARN
    assert "run one" in finding.seen


def test_a_guard_judges_the_machine_for_a_configuration():
    with pytest.raises(EngineMissing, match="no model in that folder"):
        require("warm-start", config=load_config("tiny", {"model.name": "./no-such-folder"}))


def test_a_guard_may_name_a_check_that_this_engine_does_not_need():
    report = require("memory", "packages", "outputs", engine="replay")

    assert [check.id for check in report.checks] == ["outputs"]


# ------------------------------------------------------------------------------------------ GPUs and their driver


FREE = Gpu(index=0, name="NVIDIA H200", memory_gib=139.8, free_gib=139.3, owners=())
ADA = Gpu(index=1, name="NVIDIA H200", memory_gib=139.8, free_gib=20, owners=(GpuOwner(pid=7, who="python of ada"),))
UNKNOWN = Gpu(index=2, name="NVIDIA H200")


@pytest.mark.parametrize(
    ("changes", "status", "seen"),
    [
        ({}, PASS, "none"),
        ({"gpus": (ADA, FREE)}, PASS, "1 NVIDIA H200, 20 of 140 GiB free, python of ada (pid 7); "
         "0 NVIDIA H200, 139 of 140 GiB free, nobody on it: a run takes 0"),
        ({"gpus": (ADA,)}, WARN, "none is free for certain"),
        ({"gpus": (UNKNOWN,)}, WARN, "2 NVIDIA H200, memory unknown, who is on it is unknown: none is free"),
        ({"gpu_problem": "it hangs", "gpu_fix": "restart"}, WARN, "unknown: it hangs"),
        ({"gpu_notice": "a variable hides all 2", "gpu_fix": "unset it"}, WARN, "none (a variable hides all 2)"),
        ({"gpus": (FREE.model_copy(update={"slices": (ADA, UNKNOWN)}),)}, WARN, "divided into 2 slices"),
    ],
)  # fmt: skip
def test_gpus_are_told_with_memory_and_owners(
    changes: dict[str, object], status: Status, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch_says(tmp_path, FOR_CUDA_12_8, monkeypatch)

    finding = hardware.look_at_gpus(machine(**changes), RunConfig())

    assert finding.status is status
    assert seen in finding.seen
    assert "0 of" not in finding.seen.replace("20 of", "")
    assert finding.fix or status is PASS


@pytest.mark.parametrize(
    ("highest", "wheel", "status", "told"),
    [
        ((13, 0), "'12.8'", PASS, "CUDA up to 13.0, torch 2.9 is made for 12.8"),
        ((12, 8), "'12.8'", PASS, "made for 12.8"),
        ((12, 2), "'12.8'", WARN, "works in most cases"),
        ((12, 2), "'13.0'", WARN, "driver 535.183.01 runs CUDA up to 12.2, torch 2.9 is made for 13.0"),
        ((12, 10), "'12.9'", PASS, "made for 12.9"),
        (None, "'12.8'", WARN, "which one the driver can run is unknown"),
        ((12, 2), "None", WARN, "made for processors only"),
    ],
)
def test_the_driver_is_compared_with_what_torch_was_built_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, highest: tuple[int, int] | None, wheel: str, status: Status,
    told: str,
):  # fmt: skip
    torch_says(tmp_path, f"__version__ = '2.9'\ncuda: Optional[str] = {wheel}\n", monkeypatch)
    server = machine(gpus=(FREE,), driver="535.183.01", cuda=highest)

    finding = hardware.look_at_driver(server)

    assert finding.status is status
    assert told in finding.seen
    assert finding.fix or status is PASS
    if (status, highest) == (WARN, (12, 2)) and "most cases" not in told:
        assert hardware.look_at_driver(server, must=True).status is FAIL


def test_a_driver_that_is_too_old_is_nothing_where_no_gpu_is_and_not_compared_where_that_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch_says(tmp_path, "__version__ = '2.9'\ncuda = '13.0'\n", monkeypatch)

    assert hardware.look_at_driver(machine(cuda=(12, 2))).status is PASS
    assert hardware.look_at_driver(machine(gpu_problem="it hangs")).status is SKIP


@pytest.mark.parametrize(
    "text", ["", "nonsense(", "cuda = '12.8'", "__version__ = '2'", b"\xff\xfe", "__version__ = 1"]
)
def test_a_torch_that_does_not_say_what_it_is_is_a_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes
):
    torch_says(tmp_path, text, monkeypatch)

    (check,) = ask([question(lambda: hardware.look_at_driver(machine(gpus=(FREE,))))])

    assert check.status is WARN


def test_the_torch_of_this_installation_says_what_it_is():
    named, _, _ = metadata.version("torch").partition("+")  # a wheel may leave its build out there

    assert torch_build(torch_folder()).version.partition("+")[0] == named
