"""A wheel is unpacked whole or not at all, and nothing of it lands outside of its own names."""

import hashlib
import importlib.util
import stat
from pathlib import Path

import pytest
from wheels import FILES, INFO, NAME, index, wheel

from rlguide.errors import EngineMissing
from rlguide.wheel import LARGEST_BYTES, checked_files, place_files, read_wheel

OWN = "reverse_text"


def unpack(data: bytes, site: Path) -> None:
    place_files(checked_files(data, OWN), OWN, site)


def loaded(site: Path) -> str:
    spec = importlib.util.spec_from_file_location("unpacked", site / "reverse_text.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load_environment()


# ----------------------------------------------------------------------------------------------------- unpacking


def test_a_whole_wheel_can_be_imported_and_has_its_description(tmp_path: Path):
    unpack(wheel(), tmp_path)

    assert loaded(tmp_path) == "an environment"
    assert {path.name for path in tmp_path.iterdir()} == {"reverse_text.py", INFO}
    assert {path.name for path in (tmp_path / INFO).iterdir()} == {"METADATA", "WHEEL", "RECORD"}


def test_unpacking_twice_is_unpacking_once(tmp_path: Path):
    unpack(wheel(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    unpack(wheel(), tmp_path)

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_an_interrupted_or_older_one_left_is_replaced(tmp_path: Path):
    (tmp_path / f".{OWN}.unpacking" / OWN).mkdir(parents=True)
    (tmp_path / OWN).mkdir()  # a package of that name would come before the module
    (tmp_path / OWN / "__init__.py").write_text("")
    (tmp_path / "reverse_text-0.1.4.dist-info").mkdir()
    (tmp_path / "reverse_text.py").write_text("half of a l")
    (tmp_path / "reverse_text_other.py").write_text("somebody else's")

    unpack(wheel(), tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {"reverse_text.py", "reverse_text_other.py", INFO}
    assert loaded(tmp_path) == "an environment"


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "site").mkdir()
    (tmp_path / "mine.py").write_text("mine")
    (tmp_path / "site" / "reverse_text.py").symlink_to(tmp_path / "mine.py")

    unpack(wheel(), tmp_path / "site")

    assert (tmp_path / "mine.py").read_text() == "mine"
    assert loaded(tmp_path / "site") == "an environment"


@pytest.mark.parametrize(
    "name",
    [
        "../reverse_text.py",
        "/etc/reverse_text.py",
        "reverse_text/../../x.py",
        "reverse_text/..",
        "reverse_text/..\\..\\x.py",
        "C:/reverse_text.py",
        "torch/__init__.py",
        "reverse_text.pth",
        "sitecustomize.py",
        "reverse_text-0.1.5.data/scripts/rl",
        "reverse_text.py/x",
        f"other-{INFO}/METADATA",
        "",
    ],
)
def test_a_name_that_is_no_part_of_it_is_refused_and_nothing_is_written(tmp_path: Path, name: str):
    site = tmp_path / "deep" / "site"
    site.mkdir(parents=True)

    with pytest.raises(EngineMissing, match="is no part of reverse_text"):
        unpack(wheel(FILES | {name: b"evil"}), site)

    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_link_in_it_is_refused(tmp_path: Path):
    linked = wheel(FILES | {"reverse_text.py": b"/etc/passwd"}, mode=stat.S_IFLNK)

    with pytest.raises(EngineMissing, match="is a link"):
        unpack(linked, tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"reverse_text.py,sha256=AAAA,1\n", "METADATA"),
        (f"reverse_text.py,sha256=AAAA,1\n{INFO}/METADATA,,\n{INFO}/WHEEL,,\n".encode(), "does not agree"),
        (b"\xff\xff", "does not agree"),
        (b"reverse_text.py\n", "does not agree"),
    ],
)
def test_a_record_that_lies_is_noticed(tmp_path: Path, record: bytes, problem: str):
    with pytest.raises(EngineMissing, match=problem):
        unpack(wheel(record=record), tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_record_of_a_file_that_is_not_there_is_noticed(tmp_path: Path):
    whole = wheel()
    record = checked_files(whole, OWN)[f"{INFO}/RECORD"] + b"reverse_text/more.py,sha256=AAAA,3\n"

    with pytest.raises(EngineMissing, match=r"'reverse_text/more\.py'"):
        checked_files(wheel(record=record), OWN)


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>sign in</html>", wheel()[:300], wheel()[:60] + b"XXXX" + wheel()[64:]],
    ids=["empty", "a page", "cut off", "with some bytes changed"],
)
def test_what_is_no_whole_archive_is_refused(tmp_path: Path, data: bytes):
    with pytest.raises(EngineMissing, match="is not installed"):
        unpack(data, tmp_path)


def test_a_small_archive_that_unpacks_to_a_lot_is_refused(tmp_path: Path):
    bomb = wheel({"reverse_text.py": bytes(LARGEST_BYTES + 1)})

    assert len(bomb) < LARGEST_BYTES / 100
    with pytest.raises(EngineMissing, match="more than 50 MiB"):
        unpack(bomb, tmp_path)


def test_a_folder_that_cannot_be_written_keeps_what_it_had(tmp_path: Path):
    site = tmp_path / "site"
    site.write_text("a file where the packages should be")

    with pytest.raises(OSError, match="Not a directory"):
        unpack(wheel(), site)

    assert site.read_text() == "a file where the packages should be"


# ------------------------------------------------------------------------------------------------------- fetching


def test_a_wheel_is_fetched_from_an_index_or_read_from_a_file(tmp_path: Path):
    (tmp_path / "a file.whl").write_bytes(wheel())
    with index() as served:
        assert read_wheel(f"{served.url}/@1/{NAME}") == wheel()

    assert read_wheel(str(tmp_path / "a file.whl")) == wheel()


def test_a_wheel_that_is_not_there_is_told_with_its_code():
    with index() as served, pytest.raises(EngineMissing, match="404") as refused:
        read_wheel(f"{served.url}/none.whl")

    assert "training needs it" in refused.value.hint


def test_a_download_that_breaks_off_is_no_wheel():
    with index() as served:
        served.cut_at = 100
        with pytest.raises(EngineMissing, match="IncompleteRead"):
            read_wheel(f"{served.url}/{NAME}")


@pytest.mark.parametrize("source", ["http://127.0.0.1:1/x.whl", "nothing://x", "http://[", "/nowhere/x.whl"])
def test_an_address_that_leads_nowhere_is_told(source: str):
    with pytest.raises(EngineMissing, match="cannot be fetched"):
        read_wheel(source)


def test_another_wheel_than_the_lock_file_names_is_refused():
    right = hashlib.sha256(wheel()).hexdigest()
    with index() as served:
        assert read_wheel(f"{served.url}/{NAME}", sha256=right)
        with pytest.raises(EngineMissing, match=f"its SHA-256 is {right}, not 0000"):
            read_wheel(f"{served.url}/{NAME}", sha256="0000")


def test_a_proxy_is_asked_as_the_environment_says(monkeypatch: pytest.MonkeyPatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with index() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)

        assert read_wheel(f"http://hub.example/{NAME}") == wheel()

    assert proxy.asked == [f"http://hub.example/{NAME}"]
