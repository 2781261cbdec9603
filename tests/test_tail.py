import os
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlguide.tail import CHUNK_BYTES, LINE_BYTES, SHOWN, LineReader, last_lines

NOISY = (
    b"plain\r\n"
    b"\r 5%|#\r 10%|##{'loss': 0.1}\n"
    b"\x1b[2m17:43:39\x1b[0m \x1b[32mSUCCESS\x1b[0m Step 7 | \x1b[1mReward 0.43\x1b[0m\n"
    b"\x1b]0;title\x07nul\0byte\n"
    b"\n"
    b"caf\xc3\xa9 \xf0\x9f\x99\x82\n"
    b"broken \xff utf-8\n"
)
CLEAN = [
    "plain",
    " 10%|##{'loss': 0.1}",
    "17:43:39 SUCCESS Step 7 | Reward 0.43",
    "nulbyte",
    "",
    "café 🙂",
    "broken \ufffd utf-8",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as handle:
        handle.write(data)


def test_a_missing_file_has_no_lines(log: Path):
    assert LineReader(log).read() == []
    assert last_lines(log, 5) == []


def test_control_characters_are_cleaned_away(log: Path):
    append(log, NOISY)

    assert LineReader(log).read() == CLEAN
    assert last_lines(log, 100) == CLEAN


@given(cuts=st.lists(st.integers(0, len(NOISY)), max_size=12))
def test_the_same_lines_come_out_however_the_writes_are_cut(tmp_path_factory, cuts: list[int]):
    log = tmp_path_factory.mktemp("cut") / "a.log"
    reader, lines = LineReader(log), []

    for start, end in pairwise(sorted({0, len(NOISY), *cuts})):
        append(log, NOISY[start:end])
        lines += reader.read()

    assert lines == CLEAN


def test_an_incomplete_line_is_held_back_but_shown_at_the_end_of_a_tail(log: Path):
    append(log, b"one\ntwo")
    reader = LineReader(log)

    assert reader.read() == ["one"]
    assert last_lines(log, 5) == ["one", "two"]

    append(log, b" more\n")
    assert reader.read() == ["two more"]
    assert reader.read() == []


def test_a_truncated_file_is_read_from_its_beginning(log: Path):
    append(log, b"one\ntwo\nhal")
    reader = LineReader(log)
    reader.read()

    log.write_bytes(b"new\n")

    assert reader.read() == ["new"]


@pytest.mark.parametrize("grown", [b"other 1\nother 2\nother 3\n", b"x\n"])
def test_a_recreated_file_is_read_from_its_beginning_even_when_it_has_grown(log: Path, grown: bytes):
    append(log, b"one\ntwo\n")
    reader = LineReader(log)
    reader.read()

    log.unlink()
    log.write_bytes(grown)

    assert reader.read() == grown.decode().splitlines()


def test_a_file_that_was_cut_under_a_writer_who_does_not_append_is_read_behind_the_hole(log: Path):
    reader = LineReader(log)
    with log.open("wb", buffering=0) as writer:  # as prime-rl's launcher opens the logs of its components
        writer.write(b"one\n" * 500_000)
        reader.read()

        os.truncate(log, 0)
        writer.write(b"two\n")

    assert reader.read() == ["two"]


def test_what_was_added_before_a_file_was_rotated_is_read_from_its_copy(log: Path):
    told = []
    reader = LineReader(log, tell=told.append)
    append(log, b"one\ntw")
    append(log.with_name("other.log"), b"one\ntw and else\n")
    assert reader.read() == ["one"]

    append(log, b"o\nthree\n")
    log.with_name("a.log.1").write_bytes(log.read_bytes())
    log.write_bytes(b"four\n")

    assert reader.read() == ["two", "three", "four"]
    assert len(told) == 1
    assert reader.read() == []


def test_a_file_that_appears_later_is_read(log: Path):
    reader = LineReader(log)
    reader.read()

    append(log, b"one\n")

    assert reader.read() == ["one"]


def test_a_very_long_line_is_cut_and_the_next_one_is_whole(log: Path):
    append(log, b"y" * 5_000_000 + b"\nnext\n")

    long, following = LineReader(log).read()

    assert long == "y" * LINE_BYTES
    assert following == "next"


def test_a_bar_that_never_ends_its_line_needs_bounded_memory(log: Path):
    append(log, b"".join(b"\r%9d%%" % number for number in range(3_000_000)))
    reader = LineReader(log)
    tracemalloc.start()

    assert reader.read() == []
    append(log, b"\r{'reward': 1}\n")
    assert reader.read() == ["{'reward': 1}"]

    assert tracemalloc.get_traced_memory()[1] < 8 * CHUNK_BYTES
    tracemalloc.stop()


def test_the_last_lines_of_a_large_file_are_found_without_reading_it_all(log: Path):
    append(log, b"".join(b"line %d\n" % number for number in range(300_000)))
    tracemalloc.start()

    assert last_lines(log, 2) == ["line 299998", "line 299999"]
    assert last_lines(log, 0) == []

    assert tracemalloc.get_traced_memory()[1] < 20 * CHUNK_BYTES
    tracemalloc.stop()


def test_a_long_line_is_shown_as_far_as_a_terminal_shows_it(log: Path):
    append(log, b"one\n" + b"y" * 200_000 + b"\nthree\n")

    assert last_lines(log, 3) == ["one", "y" * SHOWN + " … (199,000 more characters)", "three"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_of_a_line_longer_than_what_is_read_the_end_is_shown(log: Path, end: bytes):
    append(log, b"one\n" + b"y" * 5_000_000 + b"!" + end)

    assert last_lines(log, 2) == ["… " + "y" * (SHOWN - 1) + "! (the end of a line of more than 1,048,576 bytes)"]


def test_nothing_of_a_secret_is_shown_where_a_line_is_cut_or_the_reading_begins(
    log: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_KEY", secret := "hf_abcdefghijklmnop")
    append(log, secret.encode() * (2 * CHUNK_BYTES // len(secret)))
    (beginning,) = last_lines(log, 1)
    append(log, b"\n" + b"y" * (SHOWN - 10) + secret.encode() + b"\n" + secret[:9].encode())
    append(log, b"\n" + secret[9:].encode() + b"\nlast\n")

    shown = [beginning, *(line for n in range(1, 5) for line in last_lines(log, n))]

    pieces = [secret[at : at + 5] for at in range(len(secret) - 4)]
    assert not [line for line in shown for piece in pieces if piece in line]
    assert shown[-3:] == ["[A_KEY]", "", "last"]
