"""`CUDA_VISIBLE_DEVICES` is read as CUDA reads it; what programs read differently is a problem, never an absence."""

import pytest

from rlguide.cuda_devices import Visible, visible
from rlguide.records import Gpu

UUIDS = ("GPU-aaa", "GPU-abb", "GPU-bcc", "GPU-cdd")
GPUS = tuple(Gpu(index=index, name="X", uuid=uuid) for index, uuid in enumerate(UUIDS))
SLICES = tuple(Gpu(index=4, name="X slice", uuid=f"MIG-{n}1111111-2222") for n in range(2))
DIVIDED = (*GPUS, Gpu(index=4, name="X", uuid="GPU-eee", slices=SLICES))


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("3,1", [3, 1]),
        (" 3 , 1 ", [3, 1]),
        ("1,", [1]),
        ("1,,", [1]),
        ("01", [1]),
        ("2,-1,3", [2]),
        ("GPU-aaa,GPU-bcc", [0, 2]),
        ("GPU-b", [2]),
        ("GPU-cdd,GPU-ab", [3, 1]),
    ],
)
def test_legal_forms_leave_gpus_in_their_order(variable: str | None, indices: list[int]):
    found = visible(GPUS, variable)

    assert [gpu.index for gpu in found.gpus] == indices
    assert found.problem is None


@pytest.mark.parametrize("variable", ["", " ", "-1", "NoDevFiles"])
def test_forms_that_mean_no_gpu_are_no_problem_but_are_told(variable: str):
    assert visible(GPUS, variable) == Visible((), notice=f"CUDA_VISIBLE_DEVICES={variable!r} hides all 4")


@pytest.mark.parametrize("variable", ["", "0", "all", "GPU-aaa"])
def test_where_there_is_no_gpu_no_form_is_a_problem(variable: str):
    assert visible((), variable) == Visible(())


@pytest.mark.parametrize(
    ("variable", "indices", "named"),
    [
        ("1,9,2", [1], "9"),
        ("7", [], "7"),
        ("99999999999999999999", [], "99999999999999999999"),
        ("1,,2", [1], "2"),
        ("1,-1,2", [1], "2"),
        ("GPU-zzz", [], "GPU-zzz"),
        ("GPU-b,GPU-z", [2], "GPU-z"),
        ("MIG-11111111-2222-3333-4444-555555555555", [], "MIG-11111111-2222-3333-4444-555555555555"),
    ],
)
def test_what_is_not_there_ends_the_list_and_is_named(variable: str, indices: list[int], named: str):
    found = visible(GPUS, variable)

    assert [gpu.index for gpu in found.gpus] == indices
    assert f"names {named}, which CUDA does not reach" in found.notice


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("0,0", "names 0 twice"),
        ("0,00", "names 00 twice"),
        ("GPU-aaa,GPU-aa", "names GPU-aa twice"),
        ("GPU-a", "GPU-a begins the UUIDs of 2 GPUs"),
        ("GPU-", "GPU- begins the UUIDs of 4 GPUs"),
        ("0,GPU-bcc", "mixes UUIDs and indices"),
        ("MIG-0,GPU-aaa", "mixes UUIDs and slices"),
        ('"0,1"', "is not a list"),
        ("0 1", "is not a list"),
        ("0;1", "is not a list"),
        ("all", "is not a list"),
        ("none", "is not a list"),
        ("cuda:0", "is not a list"),
        ("1gpu", "is not a list"),
        ("0.5", "is not a list"),
        ("0x1", "is not a list"),
        ("+1", "is not a list"),
        ("-2", "is not a list"),
        ("²", "is not a list"),
        ("٣", "is not a list"),
        ("gpu-aaa", "is not a list"),
        ("0\n1", "is not a list"),
    ],
)
def test_illegal_and_ambiguous_forms_are_problems(variable: str, told: str):
    found = visible(GPUS, variable)

    assert found.gpus == ()
    assert told in found.problem
    assert variable.strip('"') in found.problem.encode().decode("unicode_escape") or repr(variable) in found.problem


def test_a_slice_is_found_by_the_beginning_of_its_uuid():
    assert visible(DIVIDED, "MIG-1").gpus == (SLICES[1],)
    assert visible(DIVIDED, f"{SLICES[0].uuid}").gpus == (SLICES[0],)
    assert "begins the UUIDs of 2 GPUs" in visible(DIVIDED, "MIG-").problem


def test_a_uuid_may_be_that_of_a_gpu_whose_uuid_is_unknown():
    found = visible((*GPUS, Gpu(index=4, name="lost")), "GPU-zzz")

    assert "may be a GPU whose UUID is unknown" in found.problem
