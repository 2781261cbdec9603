"""What something was made with: versions without imports, the commit of a checkout, hardware, date."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from toy import toy_plan

import rlguide
from rlguide.origin import commit_of, processor
from rlguide.paths import RunFiles
from rlguide.records import Plan, Provenance, RunRecord, State
from rlguide.store import write_record


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@t.example")
    argv = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that looks like this project, with one commit."""
    (tmp_path / "rlguide").mkdir()
    for name in ("pyproject.toml", "rlguide/paths.py"):
        (tmp_path / name).touch()
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_versions_are_those_of_the_installed_packages():
    found = rlguide.provenance()

    assert found.packages["rlguide"] == rlguide.__version__
    assert found.python == sys.version.split()[0]
    assert "not-installed" not in found.packages
    assert datetime.fromisoformat(found.made_at).tzinfo is not None


def test_finding_out_imports_nothing_of_what_it_names(fresh_python: Callable[[str], str]):
    code = "import rlguide, sys; rlguide.provenance(); print({'torch', 'trl', 'papermill'} & set(sys.modules))"

    assert fresh_python(code) == "set()\n"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Of a run of prime-rl; what is installed in its virtual environment fails when it is imported."""
    venv = tmp_path / "prime-rl" / ".venv"
    site = venv / "lib" / "python3.12" / "site-packages"
    for name, version in {"torch": "2.11.0+cu128", "vllm": "0.20.2", "flash_attn": "2.8.3", "other": "1"}.items():
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").write_text("raise SystemExit('imported')")
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (site / "transformers-5.5.0.dist-info").mkdir()  # cut off: nothing tells its version
    made = toy_plan(tmp_path / "run")
    launcher = made.processes[0].model_copy(update={"argv": (str(venv / "bin" / "rl"), "@", "rl.toml")})
    release = "the guide's release, 024abb204"
    return made.model_copy(update={"engine": "prime-rl", "release": release, "processes": (launcher,)})


def test_a_run_of_prime_rl_names_its_release_and_what_its_own_python_has(plan: Plan):
    found, ours = rlguide.provenance(plan).packages, rlguide.provenance().packages

    assert {name: version for name, version in found.items() if name not in ours} == {
        "prime-rl": "the guide's release, 024abb204",
        "torch (prime-rl)": "2.11.0+cu128",
        "vllm (prime-rl)": "0.20.2",
        "flash-attn (prime-rl)": "2.8.3",
    }
    assert ours.items() <= found.items()


def test_what_is_gone_or_shared_is_not_named_twice(plan: Plan, tmp_path: Path):
    shutil.rmtree(tmp_path / "prime-rl")
    ours = rlguide.provenance().packages

    assert rlguide.provenance(plan).packages == ours | {"prime-rl": plan.release}
    assert rlguide.provenance(toy_plan(tmp_path / "run")).packages == ours


def test_a_report_names_what_the_engine_of_its_run_was_made_of(plan: Plan, tmp_path: Path):
    files = RunFiles(tmp_path / "run")
    files.directory.mkdir()
    write_record(files, RunRecord(name="run", plan=plan, state=State.FAILED, created_at="2026-11-30T12:00:00+00:00"))

    page = rlguide.report(files.directory).read_text()

    assert "torch (prime-rl)" in page
    assert "2.11.0+cu128" in page


def test_a_record_survives_json():
    found = rlguide.provenance()

    assert Provenance.model_validate_json(found.model_dump_json()) == found


def test_a_checkout_names_its_commit_and_whether_the_package_was_changed(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")

    assert commit_of(checkout) == (commit, False)

    (checkout / "page.ipynb").touch()
    assert commit_of(checkout) == (commit, False)

    (checkout / "rlguide" / "new.py").touch()
    assert commit_of(checkout) == (commit, True)


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path, checkout: Path):
    (checkout / "pyproject.toml").unlink()

    assert commit_of(checkout) == (None, None)
    assert commit_of(tmp_path / "absent") == (None, None)


def test_without_git_the_commit_is_unknown(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(checkout))

    assert commit_of(checkout) == (None, None)


def test_the_processor_has_a_name(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Example 9000\n")

    assert processor(tmp_path / "cpuinfo") == "Example 9000"
    assert processor(tmp_path / "absent")
