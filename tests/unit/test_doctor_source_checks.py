"""What a source's defaults and metrics mean for overload."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.doctor.check import Check, Status, any_failed
from loadgen.doctor.source import look_at_source
from loadgen.telemetry.vocabulary import load_vocabulary
from tests.unit.doctor_sources import NEW, OLD, write_tree


def look(files: dict[str, str], folder: Path, *asked: str) -> dict[str, Check]:
    checks = look_at_source(write_tree(files, folder), load_vocabulary(), asked)
    assert len({check.id for check in checks}) == len(checks)
    return {check.id: check for check in checks}


def test_a_version_that_could_refuse_but_does_not(tmp_path: Path) -> None:
    checks = look(NEW, tmp_path)
    seqs = checks["vllm.max-num-seqs"]
    assert seqs.found == "default 128 (class default)"
    assert "takes 256 or 128 * world_size" in seqs.meaning
    for cap in ("vllm.max-num-queued-reqs", "vllm.max-num-queued-tokens"):
        assert checks[cap].found == "default None (class default)"
        assert checks[cap].status is Status.WARN
    assert checks["vllm.admission"].found == "every request is accepted and waits"
    assert checks["vllm.admission"].status is Status.WARN


def test_the_signals_of_a_new_version(tmp_path: Path) -> None:
    checks = look(NEW, tmp_path)
    old = checks["vllm.signal.gpu_cache_usage_perc"]
    assert old.found == "MISSING"
    assert old.do == "read vllm:kv_cache_usage_perc instead"
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions_total",
        "admission_rejections_total",
    ):
        assert checks[f"vllm.signal.{name}"].found.startswith("present"), name
    assert not any_failed(list(checks.values()))


def test_an_old_version_has_no_caps_at_all(tmp_path: Path) -> None:
    checks = look(OLD, tmp_path)
    seqs = checks["vllm.max-num-seqs"]
    assert seqs.found == "default None (class default)"
    assert "takes 128, 1024 or 256" in seqs.meaning
    cap = checks["vllm.max-num-queued-reqs"]
    assert cap.found == "no such setting in this version"
    assert checks["vllm.admission"].found == "every request is accepted and waits"
    assert "no caps" in checks["vllm.admission"].meaning


def test_the_signals_of_an_old_version(tmp_path: Path) -> None:
    checks = look(OLD, tmp_path)
    assert checks["vllm.signal.gpu_cache_usage_perc"].status is Status.OK
    new = checks["vllm.signal.kv_cache_usage_perc"]
    assert new.status is Status.WARN
    assert new.found == "MISSING, still vllm:gpu_cache_usage_perc here"
    refusals = checks["vllm.signal.admission_rejections_total"]
    assert (refusals.found, refusals.meaning) == ("MISSING", "it came with 0.33")
    assert not any_failed(list(checks.values()))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("vllm:gpu_cache_usage_perc", Status.FAIL),
        ("vllm:num_requests_runing", Status.FAIL),
        ("vllm:kv_offload_stores_skipped", Status.UNKNOWN),
        ('vllm:num_requests_waiting{model_name="m"}', Status.OK),
        ("vllm:num_preemptions_total", Status.OK),
        ("vllm:num_preemptions", Status.OK),
    ],
)
def test_a_series_that_is_said_to_be_read_must_be_there(
    tmp_path: Path, name: str, status: Status
) -> None:
    checks = look(NEW, tmp_path, name)
    bare = name.partition("{")[0].removeprefix("vllm:")
    asked = [c for c in checks.values() if c.id.startswith(f"vllm.signal.{bare}")]
    assert status in [check.status for check in asked]
    assert any_failed(list(checks.values())) is (status is Status.FAIL)


def test_a_signal_under_a_condition_is_a_warning(tmp_path: Path) -> None:
    checks = look(OLD, tmp_path, "vllm:num_requests_swapped")
    swapped = checks["vllm.signal.num_requests_swapped"]
    assert swapped.status is Status.WARN
    assert "only with some setting" in swapped.found


def test_a_default_cap_is_told(tmp_path: Path) -> None:
    path = "vllm/config/scheduler.py"
    capped = NEW[path].replace(
        "reqs: int | None = Field(default=None", "reqs: int = Field(288"
    )
    checks = look(NEW | {path: capped}, tmp_path)
    assert checks["vllm.max-num-queued-reqs"].status is Status.OK
    assert checks["vllm.admission"].found == "refuses above max-num-queued-reqs 288"


def test_a_default_that_only_running_would_tell_is_unknown(tmp_path: Path) -> None:
    path = "vllm/config/scheduler.py"
    odd = NEW[path].replace(
        "reqs: int | None = Field(default=None", "reqs: int = guess(1"
    )
    checks = look(NEW | {path: odd}, tmp_path)
    assert checks["vllm.max-num-queued-reqs"].status is Status.UNKNOWN
    assert checks["vllm.admission"].status is Status.UNKNOWN


def test_a_reference_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    files = {
        "vllm/__init__.py": "",
        "vllm/a.py": (
            "class SchedulerConfig:\n    max_num_seqs: int = EngineArgs.max_num_seqs\n"
            "class EngineArgs:\n    max_num_seqs: int = SchedulerConfig.max_num_seqs\n"
        ),
    }
    seqs = look(files, tmp_path)["vllm.max-num-seqs"]
    assert "SchedulerConfig.max_num_seqs" in seqs.found or "EngineArgs" in seqs.found


def test_a_source_that_defines_nothing_of_it(tmp_path: Path) -> None:
    checks = look({"vllm/__init__.py": ""}, tmp_path)
    assert checks["vllm.version"].status is Status.UNKNOWN
    assert checks["vllm.max-num-seqs"].status is Status.UNKNOWN
    assert checks["vllm.signal.num_requests_running"].status is Status.FAIL
    assert checks["vllm.metrics"].status is Status.FAIL


def test_files_that_could_not_be_read_are_told(tmp_path: Path) -> None:
    files = NEW | {"vllm/future.py": 'match "vllm:x" as:\n'}
    check = look(files, tmp_path)["vllm.unreadable"]
    assert (check.status, check.found) == (Status.WARN, "1: vllm/future.py")
