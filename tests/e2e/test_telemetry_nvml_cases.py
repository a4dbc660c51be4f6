"""The handed cases of NVML, played by a fake library that the real binding loads."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.analysis.columns import RunData
from loadgen.analysis.timeline_gpu import DeviceSeen, GpuSeen, gpu_seen
from loadgen.telemetry.nvml import NvmlMissingError, binding_of, import_pynvml
from loadgen.telemetry.samples import GpuSample, Sample
from loadgen.telemetry.series import GaugeSeen
from tests import nvml
from tests.cases import Case, cases
from tests.scrapes import scrape, seen

Observed = dict[str, Any]
Look = Callable[..., list[Sample]]

NOT_OURS = {"why", "not", "run_continues"}
"""Described; that a run goes on is shown by the end-to-end tests."""

OUR_WORD = {
    "driver_library_mismatch": "driver/library mismatch",
    "binding_missing": "no binding",
    "not_visible": "not visible: memory is used by processes of another namespace",
    "by MIG uuid": "MIG-00000000-0000-0000-0000-000000000001",
    "used_including_reserved": True,
    "pid above pid_max or used below 1 MiB": (
        "not plausible: binding and driver differ"
    ),
    "server kv cache gauge": "kv_usage",
}
"""The cases' words, where ours are others."""

MIB = 1 << 20
CODE = {
    "NVMLError_LibRmVersionMismatch": 18,
    "NVMLError_NotSupported": 3,
    "NVMLError_NoPermission": 4,
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A library as it is today, and one without memory v2."""
    folder = tmp_path_factory.mktemp("nvml")
    return nvml.build(folder / "new"), nvml.build(folder / "old", v2=False)


@pytest.fixture
def look(libraries: tuple[Path, Path], tmp_path: Path) -> Look:
    def looked(
        scenario: Sequence[str],
        *,
        looks: int = 3,
        v2: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> list[Sample]:
        file = tmp_path / "scenario"
        file.write_text("\n".join(scenario) + "\n")
        library = libraries[0] if v2 else libraries[1]
        return nvml.watch(library, file, looks=looks, **(variables or {}))

    return looked


def told(samples: list[Sample]) -> GpuSeen:
    return gpu_seen(samples, "on", RunData.collect([], 0))


def only(samples: list[Sample]) -> DeviceSeen:
    (device,) = told(samples).devices
    return device


def no_library(given: Case, look: Look) -> Observed:
    found = told(look([f"init {CODE[given['nvmlInit']]}"]))
    return {"gpu": found.devices or None, "reason": found.status}


def no_binding(given: Case, look: Look) -> Observed:
    assert given["import"].startswith("ModuleNotFoundError")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", None)
        with pytest.raises(NvmlMissingError) as missing:
            import_pynvml()
    return {"gpu": None, "reason": str(missing.value)}


def unified_memory(given: Case, look: Look) -> Observed:
    device = only(
        look(
            [
                "gpu GPU-0",
                f"name {given['name']}",
                f"memory_v1 !{CODE[given['memory_v1']]}",
                f"memory_v2 !{CODE[given['memory_v2']]}",
                f"utilization {given['utilization_gpu']}",
                f"power_mw {round(given['power_w'] * 1000)}",
                f"temperature {given['temp_c']}",
            ]
        )
    )
    assert device.utilization_pct is not None
    assert device.power_w is not None
    assert device.temperature_c is not None
    return {
        "memory_used": device.memory,
        "memory_total": device.memory,
        "utilization": device.utilization_pct.mean,
        "power_w": device.power_w.mean,
        "temp_c": device.temperature_c.mean,
        "supported": {
            name: name not in device.refused
            for name in ("memory", "utilization", "power")
        },
    }


def with_reserved(given: Case, look: Look) -> Observed:
    v1 = given["v1"]
    scenario = ["gpu GPU-0", f"total {v1['total']}", f"reserved {v1['used']}", "used 0"]
    samples = look(scenario, v2=False)
    memory = only(samples).memory
    assert memory is not None
    (first, *_) = [one for one in samples if isinstance(one, GpuSample)]
    return {
        "v1_identity_total_eq_used_plus_free": first.total_bytes
        == (first.used_bytes or 0) + (first.free_bytes or 0),
        "idle_used_bytes": memory.peak,
        "label": memory.used_includes_reserved,
    }


def old_library(given: Case, look: Look) -> Observed:
    v1 = given["call_v1"]
    scenario = ["gpu GPU-0", f"total {v1['total']}", f"used {v1['used']}"]
    samples = look(scenario, v2=False)
    memory = only(samples).memory
    assert memory is not None
    return {"used": memory.peak, "version": 1 if memory.used_includes_reserved else 2}


def slice_in_container(given: Case, look: Look) -> Observed:
    memory = given["handle_by_uuid"]
    scenario = [
        "gpu GPU-0",
        f"handle !{CODE[given['handle_by_index_0']]}",
        f"slice {given['visible']} GPU-0",
        f"total {memory['total']}",
        f"used {memory['used']}",
    ]
    device = only(look(scenario, variables={"CUDA_VISIBLE_DEVICES": given["visible"]}))
    assert device.memory is not None
    return {
        "memory_total": device.memory.total,
        "memory_used": device.memory.peak,
        "handle": device.uuid,
    }


def cut_in_slices(given: Case, look: Look) -> Observed:
    memory = given["memory"]
    scenario = [
        "gpu GPU-0",
        "mig 1",
        f"total {memory['total']}",
        f"used {memory['used']}",
        f"utilization !{CODE[given['utilization']]}",
    ]
    samples = look(scenario)
    device = only(samples)
    looks = [one for one in samples if isinstance(one, GpuSample)]
    assert device.memory is not None
    return {
        "memory_used": device.memory.peak,
        "utilization": device.utilization_pct,
        "sum_ok": all(
            one.total_bytes == (one.used_bytes or 0) + (one.free_bytes or 0)
            for one in looks
        ),
        "samples_kept": len(looks) == 3,
    }


def lost_in_the_run(given: Case, look: Look) -> Observed:
    scenario = []
    for number, used in given["gpus"].items():
        values = ["lost" if isinstance(one, str) else str(one) for one in used]
        scenario += [f"gpu GPU-{number}", "total 2000", f"used {' '.join(values)}"]
    found = told(look(scenario))
    peaks = [one.memory.peak if one.memory else None for one in found.devices]
    assert found.used_bytes is not None
    assert [one.code for one in found.findings] == ["gpu_lost"]
    return {
        "gpu0_peak": peaks[0],
        "gpu1_peak": peaks[1],
        "gpu1_lost": found.devices[1].lost_ns is not None,
        "total_used_after_loss": found.used_bytes.end,
    }


def other_namespace(given: Case, look: Look) -> Observed:
    used = given["device_used"]
    device = only(
        look(["gpu GPU-0", "total 80000000000", f"used {used}", "processes none"])
    )
    assert device.memory is not None
    return {
        "per_process": device.processes,
        "reason": device.processes_note,
        "device_used": device.memory.peak,
    }


def shuffled(given: Case, look: Look) -> Observed:
    (one,) = given["processes"]
    device = only(
        look(
            [
                "gpu GPU-0",
                f"total {given['total']}",
                "used 5000000000",
                f"processes {one['pid']}:{one['usedGpuMemory']}",
            ]
        )
    )
    return {
        "valid": device.processes is not None,
        "anomaly": device.processes_note,
        "per_process": device.processes,
    }


def second_is_first(given: Case, look: Look) -> Observed:
    scenario = []
    for number, used in enumerate(given["nvml_used"]):
        scenario += [f"gpu GPU-{number}", "total 80000", f"used {used}"]
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    device = only(look(scenario, variables={name: given[name] for name in names}))
    assert device.logical == given["logical_index"]
    assert device.memory is not None
    return {"nvml_index": device.index, "used": device.memory.peak}


def two_packages(given: Case, look: Look) -> Observed:
    module = types.SimpleNamespace(__file__=f"/site{given['module_file'][3:]}")
    notes: list[str] = []
    file = binding_of(module, notes)
    (warning,) = notes
    found = told(look(["driver 580.1", "gpu GPU-0", "total 1", "used 1"]))
    assert found.binding is not None
    version, _, real = found.binding.partition(", ")
    assert version.startswith("nvidia-ml-py ")
    recorded = {
        "module file": real,
        "binding version": version,
        "driver version": found.driver,
    }
    assert file == module.__file__
    assert all(recorded.values())
    return {"warn": warning.partition(" but ")[0], "record": list(recorded)}


def eight(given: Case, look: Look) -> Observed:
    scenario = []
    for number, used in enumerate(given["used_mib"]):
        scenario += [
            f"gpu GPU-{number}",
            f"total {81920 * MIB}",
            f"used {used * MIB}",
        ]
    found = told(look(scenario))
    working = [one for one in found.devices if one.working]
    assert [one.index for one in working] == given["server_gpus"]
    return {
        "per_gpu": len(found.devices) == 8,
        "server_peak_mib": [
            one.memory.peak // MIB for one in working if one.memory is not None
        ],
    }


def flat(given: Case, look: Look) -> Observed:
    total = 80_000 * MIB
    used = " ".join(str(round(total * share)) for share in given["used_fraction"])
    samples = look(["gpu GPU-0", f"total {total}", f"used {used}"], looks=4)
    looks = [one for one in samples if isinstance(one, GpuSample)]
    # the first look is the idle one
    t0_ns = looks[0].at_ns + 1
    at_t0 = [_moved(one, t0_ns) for one in samples]
    memory = only(at_t0).memory
    assert memory is not None
    assert "does" in memory.note
    pages = [
        scrape(f"vllm:kv_cache_usage_perc {share}\n", second)
        for second, share in enumerate(given["kv_cache_usage_perc"])
    ]
    usage = seen(pages).series["kv_usage"]
    assert isinstance(usage, GaugeSeen)
    assert usage.peak == max(given["kv_cache_usage_perc"])
    return {
        "memory_growth": memory.growth,
        "headroom_from_nvml": (
            "not inferable" if memory.per_in_flight_token is None else "inferred"
        ),
        "use": "kv_usage",
    }


def _moved(sample: Sample, t0_ns: int) -> Sample:
    return msgspec.structs.replace(sample, at_ns=sample.at_ns - t0_ns)


PLAYS: dict[str, Callable[[Case, Look], Observed]] = {
    "nvm-02-version-mismatch": no_library,
    "nvm-03-module-absent": no_binding,
    "nvm-04-gb10-not-supported": unified_memory,
    "nvm-05-v1-includes-reserved": with_reserved,
    "nvm-07-v2-missing-symbol": old_library,
    "nvm-08-mig-parent-no-permission": slice_in_container,
    "nvm-09-mig-no-utilization": cut_in_slices,
    "nvm-12-gpu-is-lost": lost_in_the_run,
    "nvm-13-no-processes-in-container": other_namespace,
    "nvm-15-pid-memory-swapped": shuffled,
    "nvm-17-visible-devices": second_is_first,
    "nvm-19-two-pynvml-packages": two_packages,
    "nvm-20-several-gpus": eight,
    "nvm-23-flat-memory": flat,
}
CASES = cases("nvml")


def test_every_case_is_played() -> None:
    assert set(PLAYS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_nvml_case(name: str, look: Look) -> None:
    case = CASES[name]
    observed = PLAYS[name](case["input"], look)
    for key, value in case["expect"].items():
        if key not in NOT_OURS:
            wanted = OUR_WORD.get(value, value) if isinstance(value, str) else value
            assert observed[key] == wanted, key
