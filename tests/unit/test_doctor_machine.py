"""What a load machine's numbers mean, and how they are read from /proc and /sys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadgen.doctor.check import Check, Status
from loadgen.doctor.machine.facts import (
    MachineFacts,
    governors,
    memory_bytes,
    quota_cores,
    read_facts,
)
from loadgen.doctor.machine.judge import machine_checks

GOOD = MachineFacts(
    system="Linux 6.1",
    descriptors_now=1024,
    descriptors=1_048_576,
    ports=28_232,
    time_wait_reuse=2,
    cores=8,
    quota_cores=None,
    load=0.2,
    clock_source="tsc",
    clock_read_ns=30.0,
    clock_width_ns=60,
    kernel_stamps=True,
    memory_bytes=16 << 30,
    governors=("performance",),
)


def judged(**changed: Any) -> dict[str, Check]:
    checks = machine_checks(replace(GOOD, **changed))
    return {check.id.removeprefix("machine."): check for check in checks}


def test_a_good_machine_has_nothing_to_do() -> None:
    for check in judged().values():
        assert (check.status, check.do) == (Status.OK, None), check.id


@pytest.mark.parametrize(
    ("thing", "changed", "status"),
    [
        ("file-descriptors", {"descriptors": 4095}, Status.WARN),
        ("file-descriptors", {"descriptors": 255}, Status.FAIL),
        ("local-ports", {"ports": 9_999}, Status.WARN),
        ("port-reuse", {"time_wait_reuse": None}, Status.UNKNOWN),
        ("port-reuse", {"time_wait_reuse": 1}, Status.OK),
        ("port-reuse", {"time_wait_reuse": 0}, Status.OK),
        ("cores", {"cores": 1}, Status.WARN),
        ("cores", {"quota_cores": 1.5}, Status.WARN),
        ("cores", {"quota_cores": 2.0}, Status.OK),
        ("cores", {"quota_cores": 0.5}, Status.WARN),
        ("other-work", {"load": 4.01}, Status.WARN),
        ("other-work", {"load": None}, Status.UNKNOWN),
        ("clock-source", {"clock_source": "hpet"}, Status.WARN),
        ("clock-source", {"clock_read_ns": 501.0}, Status.WARN),
        ("clock-source", {"clock_source": None}, Status.UNKNOWN),
        ("kernel-stamps", {"kernel_stamps": False}, Status.WARN),
        ("memory", {"memory_bytes": (1 << 30) - 1}, Status.WARN),
        ("memory", {"memory_bytes": (1 << 28) - 1}, Status.FAIL),
        ("memory", {"memory_bytes": None}, Status.UNKNOWN),
        ("cpu-governor", {"governors": ("performance", "powersave")}, Status.WARN),
        ("cpu-governor", {"governors": None}, Status.UNKNOWN),
    ],
)
def test_each_shortage_is_seen(
    thing: str, changed: dict[str, Any], status: Status
) -> None:
    checks = judged(**changed)
    assert checks.pop(thing).status is status
    assert {check.status for check in checks.values()} == {Status.OK}


def test_a_warning_says_what_to_do() -> None:
    bad = judged(descriptors=100, ports=1, cores=1, load=99.0, kernel_stamps=False)
    for check in bad.values():
        assert (check.do is None) is (check.status is Status.OK), check.id


def test_a_file_that_loadgen_raises_by_itself_is_no_warning() -> None:
    assert judged()["file-descriptors"].found.endswith("loadgen raises it)")
    same = judged(descriptors_now=GOOD.descriptors)
    assert same["file-descriptors"].found == "1,048,576 at most"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "1 0\n"}, None),
        ({"cpu.max": "nonsense\n"}, None),
        (
            {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_container_limits_processors(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    assert quota_cores(write(tmp_path, files)) == cores


MEMINFO = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        (MEMINFO, 2048 * 1024),
        (
            MEMINFO
            | {
                "sys/fs/cgroup/memory.max": "1000000\n",
                "sys/fs/cgroup/memory.current": "400000\n",
            },
            600_000,
        ),
        (
            MEMINFO
            | {
                "sys/fs/cgroup/memory.max": "max\n",
                "sys/fs/cgroup/memory.current": "400000\n",
            },
            2048 * 1024,
        ),
        (
            MEMINFO
            | {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
            },
            2048 * 1024,
        ),
        ({"proc/meminfo": "MemAvailable: much\n"}, None),
        (
            {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_free_memory_within_a_container(
    tmp_path: Path, files: dict[str, str], free: int | None
) -> None:
    assert memory_bytes(write(tmp_path, files)) == free


def test_each_governor_is_named_once(tmp_path: Path) -> None:
    files = {f"cpu{n}/cpufreq/scaling_governor": "schedutil\n" for n in range(3)} | {
        "cpu3/cpufreq/scaling_governor": "performance\n"
    }
    assert governors(write(tmp_path, files)) == ("performance", "schedutil")
    assert governors(tmp_path / "nowhere") is None


def test_this_machine_can_be_read() -> None:
    facts = read_facts()
    assert facts.cores >= 1
    assert facts.descriptors >= facts.descriptors_now > 0
    assert facts.clock_read_ns > 0
    assert len(machine_checks(facts)) == len(machine_checks(GOOD))


def test_a_machine_that_shows_nothing_is_unknown_not_bad(tmp_path: Path) -> None:
    facts = read_facts(tmp_path)
    hidden = (facts.time_wait_reuse, facts.clock_source, facts.memory_bytes)
    assert hidden == (None, None, None)
    checks = {check.id: check.status for check in machine_checks(facts)}
    for thing in ("port-reuse", "memory", "cpu-governor"):
        assert checks[f"machine.{thing}"] is Status.UNKNOWN
