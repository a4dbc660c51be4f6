"""Which GPUs CUDA programs see: NVML knows nothing of CUDA_VISIBLE_DEVICES. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Visible", "visible"]

VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_EVERYTHING = ("all", "void", "none")


class Visible(NamedTuple):
    """What to look at.

    ``indices`` are NVML's, in CUDA's order; None: all of them. ``uuids`` are
    slices named by their UUID. ``note`` says what was made of the variable.
    """

    indices: tuple[int, ...] | None
    uuids: tuple[str, ...] = ()
    note: str = ""


def visible(environment: Mapping[str, str], gpus: Sequence[tuple[str, str]]) -> Visible:
    """Resolve the variables as CUDA does.

    Args:
        environment: of a process beside the server.
        gpus: (UUID, name) of each GPU in NVML's order.
    """
    name = next((one for one in VARIABLES if one in environment), None)
    if name is None:
        return Visible(None)
    text = environment[name].strip()
    if name == "NVIDIA_VISIBLE_DEVICES" and (text in _EVERYTHING or not text):
        return Visible(None)
    shown = f"{name}={text!r}"
    indices: list[int] = []
    uuids: list[str] = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        if word.startswith("MIG-"):
            uuids.append(word)
            continue
        index = _index(word, gpus)
        if index is None:  # CUDA sees nothing from the first invalid one on
            break
        indices.append(index)
    if not indices and not uuids:
        return Visible((), (), f"{shown} hides every GPU")
    if _ambiguous(environment, indices, text, gpus):
        return Visible(
            None,
            (),
            f"{shown} numbers GPUs by speed, NVML by bus: all are looked at "
            "(CUDA_DEVICE_ORDER=PCI_BUS_ID would tell them apart)",
        )
    return Visible(tuple(indices), tuple(uuids), f"{shown}: the others are left out")


def _index(word: str, gpus: Sequence[tuple[str, str]]) -> int | None:
    if word.isdecimal():
        return int(word) if int(word) < len(gpus) else None
    if not word.startswith("GPU-"):
        return None
    found = [i for i, (uuid, _) in enumerate(gpus) if uuid.startswith(word)]
    return found[0] if len(found) == 1 else None


def _ambiguous(
    environment: Mapping[str, str],
    indices: Sequence[int],
    text: str,
    gpus: Sequence[tuple[str, str]],
) -> bool:
    """Whether CUDA's numbers may not be NVML's: GPUs of several kinds, by speed."""
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    by_number = any(word.strip().isdecimal() for word in text.split(","))
    several_kinds = len({name for _, name in gpus}) > 1
    return by_number and bool(indices) and several_kinds and not by_bus
