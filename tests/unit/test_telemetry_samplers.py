"""Samplers in virtual time: the grid, slow answers, settling, and the log."""

from __future__ import annotations

import asyncio
import errno
import json
import types
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loadgen.clock import VirtualClock
from loadgen.telemetry import gpu
from loadgen.telemetry.client import ClientReader
from loadgen.telemetry.exposition import Point
from loadgen.telemetry.gpu import GpuSampler
from loadgen.telemetry.nvml import NvmlMissingError
from loadgen.telemetry.prometheus import PERIOD_NS, Phase, ServerSampler
from loadgen.telemetry.samples import SampleLog, ServerSample
from loadgen.units import NS_PER_MS, NS_PER_S


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Scripted:
    """A server whose k-th answer takes so long and counts so far."""

    def __init__(
        self, clock: VirtualClock, took_ns: Sequence[int], counts: Sequence[int]
    ) -> None:
        self._clock = clock
        self._took_ns = took_ns
        self._counts = counts
        self.asked: list[tuple[Phase, int]] = []

    async def scrape(self, phase: Phase) -> ServerSample:
        at_ns, turn = self._clock.now_ns(), len(self.asked)
        self.asked.append((phase, at_ns))
        took_ns = self._took_ns[min(turn, len(self._took_ns) - 1)]
        self._clock.advance_to_ns(at_ns + took_ns)
        count = self._counts[min(turn, len(self._counts) - 1)]
        status = "ok" if count >= 0 else "no answer within 2 s"
        points = [Point("a", {}, float(count))] if count >= 0 else []
        return ServerSample(
            at_ns=at_ns, took_ns=took_ns, phase=phase, status=status, points=points
        )


def sampled(
    tmp_path: Path,
    *,
    took_ns: Sequence[int] = (NS_PER_MS,),
    counts: Sequence[int] = (1,),
    run_ns: int = 0,
) -> tuple[Scripted, list[dict[str, Any]]]:
    """Begin, let ``run_ns`` pass, end."""
    clock = VirtualClock()
    server = Scripted(clock, took_ns, counts)
    log = SampleLog(tmp_path / "telemetry.jsonl")
    log.begin(0)

    async def sleep(seconds: float) -> None:
        clock.advance_to_ns(clock.now_ns() + round(seconds * NS_PER_S))
        await asyncio.sleep(0)

    async def watched() -> None:
        sampler = ServerSampler([server], log, clock, sleep)
        await sampler.begin()
        until_ns = clock.now_ns() + run_ns
        while clock.now_ns() < until_ns:  # noqa: ASYNC110 - the clock is virtual
            await asyncio.sleep(0)
        await sampler.end()

    asyncio.run(watched())
    log.close()
    return server, lines(tmp_path / "telemetry.jsonl")


def test_there_is_a_look_before_and_one_after(tmp_path: Path) -> None:
    _, samples = sampled(tmp_path)
    assert [one.get("phase") for one in samples] == ["before", "after"]


def test_in_between_looks_are_on_the_grid(tmp_path: Path) -> None:
    server, _ = sampled(tmp_path, run_ns=5 * PERIOD_NS)
    instants = [at_ns for phase, at_ns in server.asked if phase == "run"]
    assert len(instants) >= 4
    gaps = {b - a for a, b in pairwise(instants)}
    assert gaps == {PERIOD_NS}


def test_a_slow_answer_skips_instants_and_keeps_the_grid(tmp_path: Path) -> None:
    slow = (NS_PER_MS, NS_PER_MS, 1700 * NS_PER_MS, NS_PER_MS)
    server, _ = sampled(tmp_path, took_ns=slow, run_ns=8 * PERIOD_NS)
    instants = [at_ns for phase, at_ns in server.asked if phase == "run"]
    assert instants[1] - instants[0] == 4 * PERIOD_NS
    assert len({at_ns % PERIOD_NS for at_ns in instants}) == 1


def test_counters_that_still_move_are_waited_for(tmp_path: Path) -> None:
    server, samples = sampled(tmp_path, counts=(1, 2, 3, 3))
    assert [phase for phase, _ in server.asked].count("before") == 4
    assert samples[0]["points"] == [["a", {}, 3.0]]


def test_a_server_that_never_rests_is_waited_for_a_while_only(tmp_path: Path) -> None:
    server, samples = sampled(tmp_path, counts=range(100))
    before = [at_ns for phase, at_ns in server.asked if phase == "before"]
    assert len(before) < 15
    assert before[-1] - before[0] < 2 * NS_PER_S
    assert [one.get("phase") for one in samples] == ["before", "after"]


def test_a_server_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    server, samples = sampled(tmp_path, counts=(-1,))
    assert [phase for phase, _ in server.asked] == ["before", "after"]
    assert {one["status"] for one in samples} == {"no answer within 2 s"}


def test_a_failure_while_settling_does_not_lose_the_answer(tmp_path: Path) -> None:
    _, samples = sampled(tmp_path, counts=(4, -1, 4))
    assert samples[0]["points"] == [["a", {}, 4.0]]


def scrape_at(at_ns: int) -> ServerSample:
    return ServerSample(at_ns=at_ns, took_ns=1)


def test_samples_before_t0_is_known_are_kept_for_it(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    log = SampleLog(path)
    log.add(scrape_at(900))
    assert not path.exists()
    log.begin(1000)
    log.add(scrape_at(1200))
    log.close()
    log.add(scrape_at(1300))
    assert [one["at_ns"] for one in lines(path)] == [-100, 200]


def test_a_full_disk_ends_the_writing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def full(descriptor: int, line: bytes) -> int:
        tried.append(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    log = SampleLog(tmp_path / "telemetry.jsonl")
    log.begin(0)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        log.add(scrape_at(1))
        log.add(scrape_at(2))
    assert len(tried) == 1
    assert log.trouble == "No space left on device"
    log.close()


class FakeError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def driver(answer: Callable[[str], Any]) -> types.SimpleNamespace:
    """A binding of one GPU that tells of nothing but its power, through ``answer``."""

    def refuse(*_: Any) -> None:
        raise FakeError(3)

    names = (
        *("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion"),
        *("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMigMode"),
        *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates"),
        *("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetClockInfo"),
        *("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        *("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetTotalEccErrors"),
        *("nvmlEventSetCreate",),
    )
    return types.SimpleNamespace(
        **dict.fromkeys(names, refuse),
        NVMLError=FakeError,
        NVMLError_FunctionNotFound=FakeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetPowerUsage=lambda handle: answer("power"),
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlMemory_v2=2,
        __file__="pynvml.py",
    )


def looked(
    tmp_path: Path, bind: Callable[[VirtualClock], Any], rounds: int = 3
) -> list[dict[str, Any]]:
    clock = VirtualClock()
    log = SampleLog(tmp_path / "telemetry.jsonl")
    log.begin(0)
    left = rounds

    def wait(seconds: float) -> bool:
        nonlocal left
        left -= 1
        clock.advance_to_ns(clock.now_ns() + round(seconds * NS_PER_S))
        return left <= 0

    GpuSampler(lambda: bind(clock), {}, log, clock, wait).run()
    log.close()
    return lines(tmp_path / "telemetry.jsonl")


def test_gpus_are_looked_at_on_the_grid(tmp_path: Path) -> None:
    samples = looked(tmp_path, lambda _: driver(lambda _: 250_000), rounds=4)
    looks = [one for one in samples if one["source"] == "gpu"]
    period_ns = gpu.PERIOD_NS
    assert [one["at_ns"] for one in looks] == [n * period_ns for n in range(4)]
    assert {one["power_w"] for one in looks} == {250.0}
    assert not any("used_bytes" in one for one in looks)
    (about,) = [one for one in samples if one["source"] == "gpu-about"]
    (device,) = about["devices"]
    assert device["refused"]["memory"] == "not supported"
    assert device["memory_version"] is None


def test_a_slow_driver_skips_instants(tmp_path: Path) -> None:
    def slow(clock: VirtualClock) -> Any:
        def power(_: str) -> int:
            clock.advance_to_ns(clock.now_ns() + 250 * NS_PER_MS)
            return 1000

        return driver(power)

    looks = [one for one in looked(tmp_path, slow) if one["source"] == "gpu"]
    period_ns = gpu.PERIOD_NS
    assert [one["at_ns"] for one in looks] == [0, 3 * period_ns, 6 * period_ns]


def test_a_driver_that_breaks_is_told_and_takes_nothing_along(tmp_path: Path) -> None:
    def broken(_: str) -> int:
        raise RuntimeError("what?")

    (about,) = looked(tmp_path, lambda _: driver(broken))
    assert about["status"].startswith("failed: RuntimeError")


def test_no_binding_is_told(tmp_path: Path) -> None:
    def missing(_: VirtualClock) -> Any:
        raise NvmlMissingError("no binding")

    (about,) = looked(tmp_path, missing)
    assert about["status"] == "no binding"


def proc(folder: Path, *, name: str = "python3") -> Path:
    one = folder / "77"
    (one / "fd").mkdir(parents=True)
    for number in range(3):
        (one / "fd" / str(number)).touch()
    fields = ["S", *["1"] * 10, "150", "50", *["0"] * 8, "9", "0"]
    (one / "stat").write_text(f"77 ({name}) {' '.join(fields)}\n")
    (one / "status").write_text(
        "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t34\n"
    )
    (folder / "stat").write_text("cpu  100 0 50 800 0 0 0 50 7 0\ncpu0 1 2\n")
    return folder


@pytest.mark.parametrize("name", ["python3", "a) b (c", "x y"])
def test_the_kernel_tells_of_a_process(tmp_path: Path, name: str) -> None:
    sample = ClientReader([77], proc(tmp_path, name=name)).sample(5, {"sent": 9})
    assert (sample.at_ns, sample.processes, sample.sent) == (5, 1, 9)
    assert (sample.cpu_s, sample.fds) == (2.0, 3)
    assert (sample.voluntary, sample.involuntary) == (12, 34)
    assert (sample.machine_s, sample.steal_s) == (10.0, 0.5)


def test_a_process_that_is_gone_leaves_the_counters(tmp_path: Path) -> None:
    sample = ClientReader([78], tmp_path / "nothing").sample(5, {"ended": 4})
    assert (sample.processes, sample.ended) == (0, 4)
    assert sample.cpu_s is None
    assert sample.rss_bytes is None
    assert sample.steal_s is None
