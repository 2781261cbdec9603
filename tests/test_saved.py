from pathlib import Path

import pytest
from toy import toy_plan

from rlguide.records import Layout
from rlguide.saved import newest_checkpoint, newest_weights, remove_half_checkpoints

BOTH = ("engine/checkpoints/step_{step}/trainer/.metadata", "engine/other/step_{step}/progress.pt")


def layout_of(folder: Path, markers: tuple[str, ...] = BOTH) -> Layout:
    return toy_plan(folder).layout.model_copy(update={"checkpoint_markers": markers})


def save(folder: Path, step: int, markers: tuple[str, ...] = BOTH) -> Path:
    """A checkpoint of which these markers are there."""
    for name in markers:
        marker = folder / name.replace("{step}", str(step))
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    checkpoint = folder / "engine" / "checkpoints" / f"step_{step}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    return checkpoint


@pytest.mark.parametrize("half", [(), BOTH[:1], BOTH[1:]], ids=["neither", "the first", "the second"])
def test_a_checkpoint_without_all_its_markers_does_not_count(tmp_path: Path, half: tuple[str, ...]):
    whole = save(tmp_path, 5)
    save(tmp_path, 10, half)

    assert newest_checkpoint(tmp_path, layout_of(tmp_path)) == whole


def test_the_newest_is_the_one_of_the_highest_number(tmp_path: Path):
    for step in (9, 100, 20):
        save(tmp_path, step)
    (tmp_path / "engine" / "checkpoints" / "step_final").mkdir()

    assert newest_checkpoint(tmp_path, layout_of(tmp_path)).name == "step_100"


def test_without_markers_a_checkpoint_is_complete_once_it_is_named(tmp_path: Path):
    assert newest_checkpoint(tmp_path, layout_of(tmp_path, ())) is None

    assert save(tmp_path, 3, ()) == newest_checkpoint(tmp_path, layout_of(tmp_path, ()))


def test_only_half_checkpoints_are_removed(tmp_path: Path):
    whole, half = save(tmp_path, 5), save(tmp_path, 10, BOTH[:1])
    other = whole.with_name("step_final")
    other.mkdir()

    remove_half_checkpoints(tmp_path, layout_of(tmp_path))

    assert whole.is_dir()
    assert other.is_dir()
    assert not half.exists()


def test_without_markers_no_checkpoint_is_removed(tmp_path: Path):
    checkpoint = save(tmp_path, 5, ())

    remove_half_checkpoints(tmp_path, layout_of(tmp_path, ()))

    assert checkpoint.is_dir()


def test_weights_without_their_marker_do_not_count(tmp_path: Path):
    for step, marker in ((5, "STABLE"), (10, "model.safetensors")):
        folder = tmp_path / "engine" / "weights" / f"step_{step}"
        folder.mkdir(parents=True)
        (folder / marker).touch()

    assert newest_weights(tmp_path, layout_of(tmp_path)).name == "step_5"
