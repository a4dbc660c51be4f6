"""What a machine can offer against what a schedule asks."""

from __future__ import annotations

import asyncio
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from loadgen.control.calibrate import Search, calibrate
from loadgen.control.capacity import (
    Calibration,
    Machine,
    Most,
    calibration_path,
    demand_of,
    read_calibration,
    shortfalls,
    this_machine,
    write_calibration,
)
from loadgen.control.null_rig import Load, Seen
from loadgen.control.processors import Processors, others_share
from loadgen.errors import LoadgenError
from loadgen.plan.schedule import Asked, Entry, Header, Schedule, load, seal
from loadgen.standin.null import NullStats
from loadgen.units import NS_PER_MS, NS_PER_S

MACHINE = Machine(
    host="h", processor="p", processors=2, system="s", python="3", loadgen="1"
)
CAN = Calibration(
    machine=MACHINE,
    measured_utc="2026-01-01T00:00:00+00:00",
    took_s=50.0,
    others_busy=0.0,
    processes=1,
    requests=Most(rate_rps=1000.0, limited_by="client"),
    streams=Most(rate_rps=100.0, limited_by="client"),
    stream_tokens=64,
    levels=[],
)


def schedule(
    at_ns: Sequence[int], max_tokens: Sequence[int | None] | None = None
) -> Schedule:
    limits = max_tokens or [1] * len(at_ns)
    duration_ns = at_ns[-1] + 1
    header = Header(
        api="openai-chat",
        path="/",
        model="m",
        stream=True,
        workload="w",
        seed=0,
        arrivals={"process": "given", "duration_ns": duration_ns},
        asked=Asked(rate_rps=1.0, duration_s=1.0),
        groups=["g"],
        created_by="test",
    )
    out = io.BytesIO()
    body = msgspec.Raw(b"{}")
    entries = [
        Entry(at, "g", None, limit, 7, body)
        for at, limit in zip(at_ns, limits, strict=True)
    ]
    seal(header, entries, out)
    return load(out.getvalue())


def words(schedule: Schedule, can: Calibration = CAN, processes: int = 1) -> list[str]:
    found = shortfalls(
        demand_of(schedule), can, processes=processes, lag_limit_ns=10 * NS_PER_MS
    )
    return list(found)


def test_a_demand_is_the_worst_second_and_the_streams_of_a_quick_server() -> None:
    """Answers of 50 and of 100 tokens at 10 ms a token, by hand."""
    demand = demand_of(
        schedule(
            [0, 400 * NS_PER_MS, 600 * NS_PER_MS, 1500 * NS_PER_MS], [50, 100, 100, 50]
        )
    )
    assert demand.peak_rps == 3
    assert demand.streams == 2  # the first has ended at 0.5 s, the second at 1.4 s
    assert demand.tokens_per_s == pytest.approx(190)  # 0.4 s to 1.4 s: 10 + 100 + 80


def test_an_answer_without_a_limit_is_reckoned_long() -> None:
    demand = demand_of(schedule([0, 2 * NS_PER_S], [None, 1]))
    assert demand.streams == 2


def test_what_fits_is_passed_over_in_silence() -> None:
    assert words(schedule([i * 2 * NS_PER_MS for i in range(900)])) == []


def test_too_many_requests_a_second() -> None:
    (said,) = words(schedule([i * NS_PER_MS // 2 for i in range(2000)]))
    assert said == (
        "2,000 requests come due within a second; "
        "this machine was measured to manage 1,000 requests"
    )


def test_a_burst_shorter_than_a_second_makes_sends_late() -> None:
    """100 at once, 1 ms each: the last ones go out some 99 ms late."""
    (said,) = words(schedule([0] * 100 + [NS_PER_S]))
    assert "will be sent about 98 ms late" in said
    assert "limit is 10 ms" in said


def test_too_many_tokens_a_second_named_with_the_streams() -> None:
    (said,) = words(schedule([i * NS_PER_MS * 5 for i in range(200)], [1000] * 200))
    assert "up to 200 streams bring 20,000 tokens a second" in said
    assert "manage 6,400 tokens" in said


def test_more_processes_carry_more() -> None:
    dense = schedule([i * NS_PER_MS // 2 for i in range(2000)])
    assert words(dense, processes=2) == []


@pytest.mark.parametrize(
    "can",
    [
        replace(CAN, requests=Most(rate_rps=1000.0, limited_by="server")),
        replace(CAN, others_busy=0.5),
    ],
    ids=["server", "busy machine"],
)
def test_a_lower_bound_is_called_one(can: Calibration) -> None:
    (said,) = words(schedule([i * NS_PER_MS // 2 for i in range(2000)]), can)
    assert "was measured up to 1,000 requests only" in said


def test_a_calibration_is_kept_for_exactly_this_machine(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    path = calibration_path(environment, MACHINE)
    assert path.parent == tmp_path / "loadgen"
    assert read_calibration(path, MACHINE) is None
    write_calibration(path, CAN)
    assert read_calibration(path, MACHINE) == CAN
    other = replace(MACHINE, loadgen="2")
    assert calibration_path(environment, other) != path
    assert read_calibration(path, other) is None
    path.write_bytes(b'{"schema":"loadgen.calibration/2"}')
    assert read_calibration(path, MACHINE) is None
    path.write_bytes(b"\xff")
    assert read_calibration(path, MACHINE) is None


def test_the_cache_is_the_users_own_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for environment in ({}, {"XDG_CACHE_HOME": "relative/ones/are/ignored"}):
        path = calibration_path(environment, MACHINE)
        assert path.parent == tmp_path / ".cache" / "loadgen"


def test_this_machine_is_the_same_twice() -> None:
    assert this_machine().key() == this_machine().key()
    assert this_machine().processors >= 1


@pytest.mark.parametrize("most", [3.0, 200.0, 777.0, 12_345.0])
def test_a_search_ends_within_a_tenth_below_the_most(most: float) -> None:
    search, tried = Search(200.0), []
    while (rate := search.next_rps()) is not None:
        tried.append(rate)
        search.told(rate, held=rate <= most)
    assert search.held_rps is not None
    assert most / 1.1 <= search.held_rps <= most
    assert len(tried) < 14


class FakeRig:
    """A client that manages so many tokens a second, in a time of its own."""

    def __init__(self, most_tokens: float, noise: Sequence[int] = ()) -> None:
        self.now = 0.0
        self.offered: list[Load] = []
        self._most = most_tokens
        self._noise = set(noise)

    def now_s(self) -> float:
        return self.now

    async def offer(self, load: Load) -> Seen:
        self.now += load.seconds + 0.3
        self.offered.append(load)
        fits = load.rate_rps * load.tokens <= self._most
        late = not fits or len(self.offered) in self._noise
        lag_ns = np.full(100, 20 * NS_PER_MS if late else NS_PER_MS // 10)
        return Seen(
            send_lag_ns=lag_ns,
            stamp_error_ns=np.full(100, 3000),
            tokens=6400,
            coalesced=0,
            not_ok=0,
            processor_share=0.5,
            waited_share=0.0,
            server=NullStats(requests=100, tokens=6400, late=0, busy=0.2),
        )


def measured(rig: FakeRig) -> tuple[Calibration, list[str]]:
    said: list[str] = []
    found = asyncio.run(calibrate(1, said.append, offer=rig.offer, now_s=rig.now_s))
    return found, said


def test_a_calibration_finds_both_rates_and_looks_below_them() -> None:
    rig = FakeRig(5000)
    found, said = measured(rig)
    assert 5000 / 1.1 <= found.requests.rate_rps <= 5000
    assert 5000 / 1.1 / 64 <= found.streams.rate_rps <= 5000 / 64
    assert (found.requests.limited_by, found.streams.limited_by) == ("client",) * 2
    assert [level.share for level in found.levels] == [0.25, 0.5, 0.9]
    assert found.levels[0].stamp_error_p99_ns == 3000
    assert found.levels[0].send_lag_p50_ns == NS_PER_MS // 10
    assert len(said) == len(rig.offered)
    assert found.took_s == rig.now < 60


def test_one_disturbed_second_is_looked_at_again() -> None:
    calm, disturbed = measured(FakeRig(5000))[0], measured(FakeRig(5000, [2]))[0]
    assert disturbed.requests == calm.requests


def test_measuring_ends_in_time_and_says_that_it_did() -> None:
    found, _ = measured(FakeRig(float("inf")))
    assert found.requests.limited_by == "time"
    assert found.took_s < 60


def test_a_machine_that_manages_nothing_is_told() -> None:
    with pytest.raises(LoadgenError, match="not even one request"):
        measured(FakeRig(0))


def test_who_is_to_blame() -> None:
    seen = asyncio.run(FakeRig(0).offer(Load(rate_rps=1, seconds=1, tokens=1)))
    slow = NullStats(requests=1, tokens=100, late=6, busy=0.1)
    full = NullStats(requests=1, tokens=100, late=0, busy=0.95)
    blames = [
        (changed(seen), "client"),
        (changed(seen, server=slow), "server"),
        (changed(seen, server=full), "server"),
        (changed(seen, server=full, waited_share=0.2), "machine"),
    ]
    assert [found.limited_by for found, _ in blames] == [who for _, who in blames]


def changed(seen: Seen, **changes: object) -> Seen:
    return dataclasses.replace(seen, **changes)  # type: ignore[arg-type]


def test_merged_tokens_are_too_much_but_only_in_streams() -> None:
    seen = asyncio.run(FakeRig(1e9).offer(Load(rate_rps=1, seconds=1, tokens=1)))
    merged = changed(seen, coalesced=100)
    assert merged.held(Load(rate_rps=1, seconds=1, tokens=1))
    assert not merged.held(Load(rate_rps=1, seconds=1, tokens=64))


def test_what_others_took_of_the_processors() -> None:
    before = Processors(total_s=100.0, taken_s=50.0, ours_s=10.0)
    after = Processors(total_s=120.0, taken_s=65.0, ours_s=14.0)
    assert others_share(before, after) == 0.55
    assert others_share(before, before) is None
    assert others_share(None, after) is None
