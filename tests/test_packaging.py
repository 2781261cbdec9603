"""What is installed is what was tested: ranges, pinned versions, and the content of the wheel."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SETS = {"cpu.txt": ("local", "notebooks", "wandb", "dev"), "gpu.txt": ("gpu", "notebooks", "wandb", "dev")}
"""Constraints file → the extras that it pins."""

HOSTS = {
    "0.0.0.0",  # in the log of a server that listens everywhere
    "127.0.0.1", "localhost", "github.com", "huggingface.co", "wandb.ai", "api.wandb.ai", "hub.primeintellect.ai",
    "www.apache.org", "www.w3.org", "arxiv.org", "doi.org", "docs.python.org", "keepachangelog.com", "semver.org",
    "pytorch.org", "api.forge.coreweave.com",
}  # fmt: skip
"""Hosts that files of the project may name. Names in `.example` and `.invalid` are reserved: RFC 2606."""


def project_files() -> list[Path]:
    """Every text file that git has or would take."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    paths = [ROOT / name for name in listed if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def pins(name: str) -> Iterator[tuple[str, str, str]]:
    """Rows (package, version, reason) of a constraints file."""
    for line in (ROOT / "constraints" / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            found = re.fullmatch(r"([a-z0-9-]+)==(\S+)  # (.{5,})", line)
            assert found, f"{name}: {line!r}"
            assert not found.group(3).endswith("needed by")
            yield found.group(1), found.group(2), found.group(3)


@pytest.mark.parametrize("name", SETS)
def test_every_pin_has_an_exact_version_and_a_reason_and_stands_once_in_order(name: str):
    packages = [package for package, _, _ in pins(name)]

    assert packages == sorted(set(packages))


@pytest.mark.parametrize("name", SETS)
def test_pins_lie_in_the_ranges_of_the_project(name: str):
    pinned = {package: version for package, version, _ in pins(name)}
    texts = [*PROJECT["dependencies"], *(text for extra in SETS[name] for text in EXTRAS[extra])]

    for requirement in map(Requirement, texts):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not pinned in {name}"
        assert requirement.specifier.contains(version), f"{requirement}: pinned at {version}"


def test_every_dependency_has_its_reason_beside_it():
    lines = PYPROJECT.read_text(encoding="utf-8").splitlines()
    dependencies = [
        line for line in lines if re.search(r'"[A-Za-z0-9_.-]+(\[\w+\])?[<>=][^"]*"', line) and "=[" not in line
    ]
    dependencies = [line for line in dependencies if not line.startswith(("requires-python", "version"))]

    assert len(dependencies) > 20
    assert not [line for line in dependencies if "#" not in line]


def test_flash_attn_stands_apart():
    others = [text for extra, texts in EXTRAS.items() if extra != "flash-attn" for text in texts]

    assert not [text for text in others if "flash" in text]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy of what git would take, without a network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


def test_the_wheel_holds_every_module_and_all_data(wheel: zipfile.ZipFile):
    package = ROOT / "rlguide"
    environment = package / "environment" / "reverse_text"
    wanted = {
        str(path.relative_to(ROOT))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and environment not in path.parents
    }

    assert wanted <= set(wheel.namelist())
    assert any(name.startswith("rlguide/data/") for name in wanted)


def test_the_wheel_has_the_environment_under_its_own_name_once(wheel: zipfile.ZipFile):
    found = [name for name in wheel.namelist() if "reverse_text/__init__.py" in name]

    assert found == ["reverse_text/__init__.py"]


def test_the_wheel_works_where_it_is_unpacked(wheel: zipfile.ZipFile, tmp_path: Path):
    wheel.extractall(tmp_path)
    code = "import rlguide; print(rlguide.__file__); print(rlguide.load_config().run_name)"

    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.splitlines() == [str(tmp_path / "rlguide" / "__init__.py"), "reverse-text"]


def test_rlguide_is_found_from_the_folder_that_holds_its_clone(tmp_path: Path):
    (tmp_path / "rlguide" / "rlguide").mkdir(parents=True)

    done = subprocess.run([sys.executable, "-c", "import rlguide; print(rlguide.__version__)"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip

    assert done.stdout.strip() == PROJECT["version"], f"{done.stderr}\nhint: install with make install"


def test_the_version_is_the_same_everywhere():
    from rlguide import __version__

    assert PROJECT["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_file_names_a_path_of_one_machine():
    pattern = re.compile(r"(?<![\w.:/}])/(?:home|root|work|Users|opt|mnt)/\w")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in project_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]

    assert not found


def test_no_file_names_a_host_that_does_not_belong():
    found = {
        f"{path.relative_to(ROOT)}: {host}"
        for path in project_files()
        for host in re.findall(
            r"https?://(?:[^/\s\"'@{}]*@)?([A-Za-z0-9.-]+\.[A-Za-z0-9-]+)", path.read_text(encoding="utf-8")
        )
        if host not in HOSTS and not host.endswith((".example", ".invalid"))
    }

    assert not found
