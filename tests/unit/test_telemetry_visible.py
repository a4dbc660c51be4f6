"""Which GPUs a process sees, as CUDA reads its variables."""

from __future__ import annotations

import pytest

from loadgen.telemetry.visible import visible

TWO = [("GPU-aa11", "H200"), ("GPU-bb22", "H200")]
MIXED = [("GPU-aa11", "H200"), ("GPU-bb22", "T4")]
MIG = "MIG-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("value", "indices", "uuids"),
    [
        ("1", (1,), ()),
        ("1,0", (1, 0), ()),
        (" 0 , 1 ", (0, 1), ()),
        ("GPU-bb22", (1,), ()),
        ("GPU-bb", (1,), ()),
        ("GPU-", (), ()),  # names both, so it names none
        ("0,7,1", (0,), ()),  # from the first invalid one on nothing is seen
        ("-1", (), ()),
        ("", (), ()),
        (MIG, (), (MIG,)),
        ("NoDevFiles", (), ()),
    ],
)
def test_cudas_variable_is_read_as_cuda_does(
    value: str, indices: tuple[int, ...], uuids: tuple[str, ...]
) -> None:
    seen = visible({"CUDA_VISIBLE_DEVICES": value}, TWO)
    assert (seen.indices, seen.uuids) == (indices, uuids)
    assert seen.note


def test_without_the_variable_all_are_seen() -> None:
    assert visible({}, TWO) == (None, (), "")


@pytest.mark.parametrize("value", ["all", "void", "none", ""])
def test_a_containers_variable_hides_nothing_by_these_words(value: str) -> None:
    assert visible({"NVIDIA_VISIBLE_DEVICES": value}, TWO).indices is None


def test_a_containers_slice_is_found_by_its_name() -> None:
    assert visible({"NVIDIA_VISIBLE_DEVICES": MIG}, TWO).uuids == (MIG,)


def test_numbers_by_speed_are_not_numbers_by_bus() -> None:
    fast = {"CUDA_VISIBLE_DEVICES": "0"}
    assert visible(fast, MIXED).indices is None
    assert "PCI_BUS_ID" in visible(fast, MIXED).note
    assert visible({**fast, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED).indices == (0,)
    assert visible({"CUDA_VISIBLE_DEVICES": "GPU-aa"}, MIXED).indices == (0,)
