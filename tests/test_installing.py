"""prime-rl is installed part by part: what is there is left alone, a failure is told in words, another call goes on.

Programs are real: git itself, stand-ins for uv, rl and hf, a package index on loopback, a virtual environment.
"""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkouts import AUGUST, checkout, git, repository
from disks import full, needs_mount, read_only, small_disk
from installer_stand_in import BEHAVIOUR, write_program
from wheels import NAME, Index, index, wheel

from rlguide.checkout import HOME, OTHERWISE, REVISION, VARIABLE, venv_python
from rlguide.errors import ConfigError, EngineMissing
from rlguide.installing import Installation, install
from rlguide.prime_rl_parts import GUIDE_POLICY, Home
from rlguide.readiness import MODULES, require_ready
from rlguide.records import Status

__all__ = ["small_disk"]
pytestmark = pytest.mark.usefixtures("nothing_left")

PARTS = ["source", "packages", "environment", "verification", "policy"]
SECRET = "hf_ThisIsASecretOfTheTests"
Say = Callable[[str], object]


class World:
    """One newcomer's machine, before prime-rl is there."""

    def __init__(self, folder: Path, served: Index):
        self.folder, self.index = folder, served
        self.checkout = folder / "with blanks in it" / "prime-rl"
        self.calls_file = folder / "calls"
        self.behaviour: dict[str, Any] = {"calls": str(self.calls_file)}
        revision = repository(folder / "home")
        sha256 = hashlib.sha256(served.pages.get(NAME, b"")).hexdigest()
        self.home = Home(str(folder / "home"), revision, f"{served.url}/@1/{NAME}", sha256)
        self.said: list[str] = []

    def tell(self, monkeypatch: pytest.MonkeyPatch, **behaviour: Any) -> None:
        monkeypatch.setenv(BEHAVIOUR, json.dumps(self.behaviour | behaviour))

    def install(self, **options: Any) -> Installation:
        self.said.clear()
        wanted = {"checkout": self.checkout, "home": self.home, "say": self.said.append} | options
        return install("prime-rl", **wanted)

    def failing(self, **options: Any) -> EngineMissing:
        with pytest.raises(EngineMissing) as failed:
            self.install(**options)
        return failed.value

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]

    @property
    def site(self) -> Path:
        return next((self.checkout / ".venv" / "lib").glob("python3*/site-packages"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    write_program(tmp_path / "bin" / "uv", "uv")
    for name in ("git", "env", "mv", "sh", "mount", "umount"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.delenv(VARIABLE, raising=False)
    with index() as served:
        made = World(tmp_path, served)
        made.calls_file.touch()
        made.tell(monkeypatch)
        yield made


def states(found: Installation) -> list[tuple[str, str]]:
    return [(part.title, part.state) for part in found.parts]


# ------------------------------------------------------------------------------------------------------- all is well


def test_everything_is_installed_and_verified_on_a_machine_without_anything(world: World, outputs: Path):
    found = world.install()

    assert states(found) == [(title, "done" if title != "verification" else "there") for title in PARTS]
    assert found.is_complete
    assert {name: seen.status for name, seen in found.imports.items()} == dict.fromkeys(MODULES, Status.PASS)
    assert git(world.checkout, "rev-parse", "HEAD") == world.home.revision
    require_ready(world.checkout)


def test_imports_that_went_well_are_tried_again_only_when_something_was_removed_there(world: World, outputs: Path):
    world.install()
    require_ready(world.checkout)
    python = world.checkout / ".venv" / "bin" / "python"
    python.rename(python.with_name("away"))

    require_ready(world.checkout)  # no Python was started
    site = next((world.checkout / ".venv").glob("lib/python*/site-packages"))
    (site / "reverse_text.py").unlink()
    with pytest.raises(EngineMissing, match="prime-rl cannot start here"):
        require_ready(world.checkout)


def test_a_second_time_everything_is_there_and_nothing_is_changed(world: World):
    world.install()
    world.calls_file.write_text("")
    before = {path: path.stat().st_mtime_ns for path in world.checkout.rglob("*")}

    found = world.install()

    assert states(found) == [(title, "there") for title in PARTS]
    assert world.calls == [["rl", "--help"]]
    assert world.said == []
    assert {path: path.stat().st_mtime_ns for path in world.checkout.rglob("*") if "__pycache__" not in str(path)} == {
        path: time for path, time in before.items() if "__pycache__" not in str(path)
    }


def test_a_dry_run_shows_the_very_commands_and_does_nothing(world: World):
    plan = world.install(dry_run=True)

    assert states(plan) == [(title, "to do") for title in PARTS]
    assert not plan.is_complete
    assert world.calls == []
    assert not (world.folder / "with blanks in it").exists()
    world.install()
    shown = [word for part in plan.parts for word in shlex.split(part.command)]
    uv_calls = [call for call in world.calls if call[0] == "uv"]
    assert [shown[shown.index(call[1]) :][: len(call) - 1] for call in uv_calls[:1]] == [uv_calls[0][1:]]
    assert uv_calls[1][-1] in shown
    assert str(world.home.revision) in shown


def test_the_commands_that_are_shown_do_the_same_in_a_shell(world: World):
    plan = world.install(dry_run=True)
    world.checkout.parent.mkdir()

    subprocess.run("set -e\n" + "\n".join(part.command for part in plan.parts), shell=True, check=True)

    assert states(world.install()) == [(title, "there") for title in PARTS]


def test_a_dry_run_says_how_much_each_part_downloads(world: World):
    plan = world.install(dry_run=True)

    assert [part.download for part in plan.parts] == [
        "2 MB",
        "more than 4 GB, which takes several minutes",
        "some kB",
        "",
        "1.2 GB",
    ]
    for part in plan.parts:
        told = f"{part.title}, downloads {part.download}:" if part.download else f"{part.title}:"
        assert f"{told}\n  {part.command}" in plan.text
    assert "downloads" not in world.install().text


def without(world: World, program: str) -> None:
    (world.folder / "bin" / program).unlink()


@pytest.mark.parametrize(
    ("hinder", "options", "part", "seen", "fix"),
    [
        (lambda world: without(world, "git"), {}, "source", "git is not installed", "install git"),
        (lambda world: without(world, "uv"), {}, "packages", "uv: not found on PATH", "pip install uv"),
        (lambda world: None, {"platform": "plan9"}, "packages", "made for plan9 only", "machine with the GPUs"),
        (lambda world: None, {"wheel": "/absent.whl"}, "environment", "No such file", "give the file with --wheel"),
    ],
)
def test_a_dry_run_names_what_cannot_be_done_here_with_its_fix_and_goes_on_to_the_other_parts(
    world: World, hinder: Callable[[World], None], options: dict[str, str], part: str, seen: str, fix: str
):
    hinder(world)
    asked = {"wheel": options["wheel"]} if "wheel" in options else {}
    home = world.home._replace(**({} if asked else options))

    plan = world.install(dry_run=True, home=home, **asked)

    assert states(plan) == [(title, "cannot be done" if title == part else "to do") for title in PARTS]
    (hindered,) = (found for found in plan.parts if found.title == part)
    assert seen in hindered.seen
    assert fix in hindered.fix
    assert hindered.seen in plan.text
    assert f"fix: {hindered.fix}" in plan.text
    assert world.calls == []


def test_a_dry_run_finds_an_rl_that_no_earlier_part_will_repair(world: World, monkeypatch: pytest.MonkeyPatch):
    world.install()
    world.tell(monkeypatch, help_code=1)

    plan = world.install(dry_run=True)

    assert [found.title for found in plan.parts if found.state == "cannot be done"] == ["verification"]
    assert "then install again" in plan.parts[3].fix


def test_it_is_shown_where_things_are_and_which_python_is_which(world: World):
    found = world.install()

    for form in (found.text, found.html):
        assert str(venv_python(world.checkout)) in form
        assert sys.executable in form
        assert "flash_attn" in form
    assert repr(found) == found.text
    assert "<table>" in found._repr_html_()


def test_what_programs_print_is_said_as_it_comes_and_kept(world: World, outputs: Path):
    world.install()

    assert "Installed 280 packages in 3ms" in world.said
    assert any("100%|####|" in line for line in world.said)
    assert "Installed 280 packages" in (outputs / "installation" / "packages.log").read_text()
    assert any(line.startswith("packages: env UV_PROJECT_ENVIRONMENT=.venv uv") for line in world.said)


def test_the_checkout_is_made_of_the_canonical_home_at_the_guides_revision():
    assert Home()[:2] == (HOME, REVISION)
    assert HOME == "https://github.com/PrimeIntellect-ai/prime-rl.git"
    assert len(Home().sha256) == 64


# -------------------------------------------------------------------------------------------- what is there already


def test_a_checkout_with_changes_keeps_them(world: World):
    git(world.folder, "clone", "--quiet", str(world.folder / "home"), str(world.checkout))
    (world.checkout / "pyproject.toml").open("a").write("# mine\n")
    (world.checkout / "mine.py").write_text("mine")
    before = git(world.checkout, "status", "--porcelain")

    found = world.install()

    assert found.parts[0].state == "there"
    assert git(world.checkout, "status", "--porcelain").replace("?? .venv/\n", "") == before


def test_a_folder_with_something_else_in_it_is_refused_and_kept(world: World):
    world.checkout.mkdir(parents=True)
    (world.checkout / "thesis.tex").write_text("mine")

    failed = world.failing()

    assert "and not empty" in failed.message
    assert (world.checkout / "thesis.tex").read_text() == "mine"
    shown = world.install(dry_run=True)
    assert states(shown) == [("source", "cannot be done")]
    assert "name another folder with --checkout" in shown.text


def test_an_empty_folder_is_filled(world: World):
    world.checkout.mkdir(parents=True)

    assert world.install().is_complete


def test_the_release_of_august_is_refused_and_as_a_dry_run_shown_with_what_differs(world: World):
    checkout(world.checkout, AUGUST)

    assert "the release of August 2026" in world.failing().message
    shown = world.install(dry_run=True)
    assert states(shown) == [("source", "cannot be done")]
    assert all(word in shown.text for row in OTHERWISE for word in row)
    assert world.calls == []


def test_the_variable_names_the_checkout(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, str(world.checkout))

    assert world.install(checkout=None).is_complete


@pytest.mark.parametrize("central", [False, True])
def test_an_exact_sync_by_the_user_costs_the_environment_and_only_that_is_repaired(
    world: World, monkeypatch: pytest.MonkeyPatch, central: bool
):
    world.install()
    world.tell(monkeypatch, central=central)
    subprocess.run(["uv", "--directory", world.checkout, "sync", "--extra", "flash-attn"], check=True)
    with pytest.raises(EngineMissing, match="reverse_text: ModuleNotFoundError") as missing:
        require_ready(world.checkout)

    assert "rlguide install --engine prime-rl --checkout" in missing.value.hint
    found = world.install()

    assert [title for title, state in states(found) if state == "done"] == ["environment"]
    assert (world.checkout / ".venv").is_symlink() == central
    require_ready(world.checkout)


def test_a_sync_of_ours_removes_nothing(world: World):
    world.install()
    (world.site / "vllm.py").unlink()

    found = world.install()

    assert [title for title, state in states(found) if state == "done"] == ["packages"]


def test_an_environment_of_another_python_is_made_anew(world: World):
    world.install()
    cfg = world.checkout / ".venv" / "pyvenv.cfg"
    cfg.write_text(cfg.read_text().replace(f"version = {sys.version.split()[0]}", "version = 3.9.1"))
    (world.site / "flash_attn.py").unlink()

    assert world.install().is_complete
    assert any("Removed virtual environment" in line for line in world.said)


def test_another_place_for_environments_in_the_users_variables_does_not_count(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", str(world.folder / "elsewhere"))

    assert world.install().is_complete
    assert not (world.folder / "elsewhere").exists()


# ----------------------------------------------------------------------------------------------------------- the wheel


def test_where_uv_cannot_the_wheel_is_unpacked_as_in_the_guide(world: World, monkeypatch: pytest.MonkeyPatch):
    world.tell(monkeypatch, fails={"pip": "error: No solution found when resolving dependencies"})

    assert world.install().is_complete
    assert any("unpacking the wheel instead" in line for line in world.said)
    assert (world.site / "reverse_text-0.1.5.dist-info" / "METADATA").is_file()


def test_a_wheel_that_was_unpacked_in_half_is_unpacked_again(world: World):
    world.install()
    (world.site / "reverse_text.py").write_text("def load_envi")

    found = world.install()

    assert [title for title, state in states(found) if state == "done"] == ["environment"]
    assert found.imports["reverse_text"].status is Status.PASS


def test_a_wheel_that_is_not_to_be_had_is_told_with_its_code_and_that_it_is_needed(world: World):
    world.index.pages.clear()

    failed = world.failing()

    assert "404" in failed.message
    assert "--wheel" in failed.hint
    assert any("the package reverse-text is not to be had (404 at" in line for line in world.said)
    assert any("and it is needed" in line for line in world.said)


def test_another_wheel_than_the_lock_file_names_is_not_installed(world: World):
    world.index.pages[NAME] = wheel({"reverse_text.py": b"evil = 1\n"})

    assert "its SHA-256 is" in world.failing().message
    assert not (world.site / "reverse_text.py").exists()


def test_the_wheel_may_come_from_a_mirror_or_a_file(world: World, monkeypatch: pytest.MonkeyPatch):
    (world.folder / NAME).write_bytes(wheel())
    world.index.pages["mirrored.whl"] = wheel()
    monkeypatch.chdir(world.folder)

    assert world.install(wheel=NAME).is_complete
    (world.site / "reverse_text.py").unlink()
    assert world.install(wheel=f"{world.index.url}/mirrored.whl").is_complete


def test_a_wheel_of_the_users_that_lies_never_reaches_uv(world: World):
    (world.folder / "lies.whl").write_bytes(wheel(record=b"reverse_text.py,sha256=AAAA,1\n"))

    failed = world.failing(wheel=str(world.folder / "lies.whl"))

    assert "does not agree with" in failed.message
    assert not any("pip" in call for call in world.calls)


def test_an_address_with_a_password_is_refused_without_showing_it(world: World):
    with pytest.raises(ConfigError) as refused:
        world.install(wheel="https://ada:lovelace@hub.example/x.whl")

    assert "lovelace" not in str(refused.value)
    assert world.calls == []


# --------------------------------------------------------------------------------------------------------- failures


def test_without_uv_it_is_said_how_to_get_it(world: World):
    (world.folder / "bin" / "uv").unlink()

    failed = world.failing()

    assert "uv: not found on PATH" in failed.message
    assert "pip install uv" in failed.hint


@pytest.mark.parametrize("version", ["uv 0.9.24", "uv 0.9.9 (Homebrew)", "uv 0.8.100"])
def test_an_old_uv_is_told_by_number(world: World, monkeypatch: pytest.MonkeyPatch, version: str):
    world.tell(monkeypatch, version=version)

    failed = world.failing()

    assert version.split()[1] in failed.message
    assert "0.9.25" in failed.message
    assert world.calls == []


@pytest.mark.parametrize("version", ["uv 0.10.0", "uv 1.0.0", "uv (development)", "", "something else 3.1"])
def test_a_newer_uv_and_one_that_says_something_strange_are_tried(
    world: World, monkeypatch: pytest.MonkeyPatch, version: str
):
    world.tell(monkeypatch, version=version)

    assert world.install().is_complete
    assert any("trying it all the same" in line for line in world.said) != version.startswith(("uv 0", "uv 1"))


def test_without_git_it_is_said(world: World):
    (world.folder / "bin" / "git").unlink()

    assert "git is not installed" in world.failing().message
    assert not world.checkout.exists()


def test_a_repository_without_that_revision_is_told_and_leaves_nothing(world: World):
    failed = world.failing(home=world.home._replace(revision="0123456789" * 4))

    assert "the repository does not have that revision" in failed.message
    assert not world.checkout.exists()


def test_a_checkout_that_was_not_finished_is_begun_anew(world: World):
    part = world.checkout.with_name(".prime-rl.part")
    git(world.folder, "init", "--quiet", str(part))
    (part / ".git" / "index.lock").touch()
    (part / "pyproject.toml").write_text("half")

    assert world.install().is_complete
    assert not part.exists()


def test_a_package_of_another_environment_that_is_missing_is_said_not_to_be_needed(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    url = "https://hub.example/other/other_env-0.2-py3-none-any.whl"
    refused = (
        f"error: Failed to download `other-env==0.2`\n  cause: HTTP status client error (404 Not Found) for url ({url})"
    )
    world.tell(monkeypatch, fails={"sync": refused})

    failed = world.failing()

    assert f"the package other-env is not to be had (404 at {url}); it is not needed here" in failed.message
    assert "only for the extra 'envs'" in failed.message
    world.tell(monkeypatch)
    assert world.install().is_complete


def test_a_file_where_the_environment_should_be_is_told(world: World):
    checkout(world.checkout)
    (world.checkout / ".venv").write_text("mine")

    failed = world.failing()

    assert "is no virtual environment" in failed.message
    assert (world.checkout / ".venv").read_text() == "mine"


def test_packages_that_came_and_do_not_import_are_named(world: World, monkeypatch: pytest.MonkeyPatch):
    world.tell(monkeypatch, without=["flash_attn"])
    assert "flash_attn: ModuleNotFoundError" in world.failing().message

    world.tell(monkeypatch, broken={"vllm": "raise ImportError('libcuda: undefined symbol')"})
    assert "vllm: ImportError: libcuda: undefined symbol" in world.failing().message

    world.tell(monkeypatch, broken={"vllm": "import os; os.kill(os.getpid(), 11)"})
    assert "vllm: " in world.failing().message


def test_what_the_python_there_prints_at_its_start_is_no_answer(world: World):
    world.install()
    (world.site / "sitecustomize.py").write_text("print('hello'); print('{}')")

    assert states(world.install()) == [(title, "there") for title in PARTS]


def test_an_rl_that_does_not_answer_is_no_installation(world: World, monkeypatch: pytest.MonkeyPatch):
    world.tell(monkeypatch, help_code=1)

    failed = world.failing()

    assert "ended with 1: ImportError: undefined symbol" in failed.message
    assert "install again" in failed.hint


def test_an_interrupted_download_is_ended_with_its_program_and_goes_on_the_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    world.tell(monkeypatch, stays=True)

    def interrupt(line: str) -> None:
        if line.startswith("Downloading"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.install(say=interrupt)

    world.tell(monkeypatch)
    assert world.install().is_complete


def test_a_log_that_cannot_be_kept_is_told(world: World, outputs: Path):
    outputs.write_text("a file where the outputs should be")

    assert "cannot run git" in world.failing().message


@needs_mount
def test_an_environment_that_cannot_be_written_or_has_no_room_is_told(
    world: World, small_disk: Path, monkeypatch: pytest.MonkeyPatch
):
    world.checkout = small_disk / "prime-rl"
    world.install()
    (world.site / "reverse_text.py").unlink()
    world.tell(monkeypatch, fails={"pip": "error: Read-only file system (os error 30)"})

    with read_only(small_disk):
        failed = world.failing()
    assert "cannot unpack the wheel: [Errno 30] Read-only file system" in failed.message
    with full(small_disk):
        failed = world.failing()
    assert "No space left on device" in failed.message
    assert world.install().is_complete


def test_an_engine_that_plays_recordings_needs_no_packages():
    found = install("replay")

    assert found.is_complete
    assert found.text == "replay needs no packages"


# ---------------------------------------------------------------------------------------- policy, secrets, asking


def test_a_policy_in_a_folder_needs_no_download(world: World):
    from rlguide.paths import TINY_POLICY

    found = world.install(policy=str(TINY_POLICY))

    assert found.parts[-1].seen == f"no download: {TINY_POLICY}"
    assert not any(call[0] == "hf" for call in world.calls)


def test_a_policy_that_came_in_part_is_fetched_again(world: World, monkeypatch: pytest.MonkeyPatch):
    world.tell(monkeypatch, policy="part")
    assert f"{GUIDE_POLICY} is only in part" in world.failing().message

    world.tell(monkeypatch)
    assert world.install().is_complete
    assert [call for call in world.calls if call[0] == "hf"] == [["hf", "download", GUIDE_POLICY]] * 2


def test_a_policy_that_the_hub_refuses_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    world.tell(monkeypatch, policy="refused")

    failed = world.failing()

    assert "the Hub does not show this policy" in failed.message
    assert "HF_TOKEN" in failed.hint


def test_no_secret_is_shown_or_kept(world: World, outputs: Path):
    found = world.install()

    logs = "".join(path.read_text() for path in (outputs / "installation").iterdir())
    assert "asking with [HF_TOKEN]" in logs
    assert SECRET not in logs + "".join(world.said) + found.text + found.html


def test_only_what_takes_long_is_asked_for(world: World):
    asked: list[str] = []

    world.install(ask=asked.append)

    assert len(asked) == 2
    assert "more than 4 GB" in asked[0]
    assert "1.2 GB" in asked[1]
    world.install(ask=asked.append)
    assert len(asked) == 2


def test_a_no_ends_it_before_anything_is_done(world: World):
    def no(question: str) -> None:
        raise RuntimeError(question)

    with pytest.raises(RuntimeError):
        world.install(ask=no)

    assert world.calls == []
    assert not (world.checkout / ".venv").exists()
