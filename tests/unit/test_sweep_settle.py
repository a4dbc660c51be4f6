"""Rest between runs, in a time that the test moves."""

from __future__ import annotations

import asyncio

from loadgen.analysis.curve import Settle
from loadgen.clock import VirtualClock
from loadgen.control.queue import EngineQueue, open_in
from loadgen.control.settle import Unasked, pause, settle
from loadgen.telemetry.exposition import Point
from loadgen.telemetry.vocabulary import load_vocabulary
from loadgen.units import NS_PER_S

ENGINES = load_vocabulary().engines.values()


class Told:
    """A queue that is so long, look by look; the last stays."""

    def __init__(self, *lengths: int | str) -> None:
        self._lengths = list(lengths)

    async def open_requests(self) -> int | str:
        return self._lengths.pop(0) if len(self._lengths) > 1 else self._lengths[0]


def settled(
    *lengths: int | str, fixed_s: float = 5, breaks_off: bool = False
) -> Settle:
    clock = VirtualClock()

    async def rest(seconds: float) -> bool:
        clock.advance_to_ns(clock.now_ns() + round(seconds * NS_PER_S))
        return breaks_off

    return asyncio.run(settle(Told(*lengths), round(fixed_s * NS_PER_S), clock, rest))


def test_it_waits_until_the_queue_was_empty_twice() -> None:
    found = settled(4, 1, 0, 2, 0, 0)
    assert found.how == "queue empty"
    assert found.note is None
    assert found.waited_s > 1


def test_a_queue_that_never_empties_is_told_with_its_length() -> None:
    found = settled(3)
    assert found.how == "not empty"
    assert found.waited_s >= 120
    assert "3 requests" in (found.note or "")


def test_where_nobody_knows_it_waits_a_fixed_time_and_says_why() -> None:
    found = settled("nothing there (404)")
    assert found == Settle(how="fixed time", waited_s=5.0, note="nothing there (404)")


def test_a_fixed_time_of_zero_is_no_rest() -> None:
    assert settled("off", fixed_s=0).how == "none"


def test_an_interrupt_breaks_it_off() -> None:
    found = settled(5, breaks_off=True)
    assert found.note == "broken off"


def test_a_pause_ends_with_the_event_or_the_time() -> None:
    async def both() -> tuple[bool, bool]:
        event = asyncio.Event()
        quiet = await pause(0.001, event)
        event.set()
        return quiet, await pause(60.0, event)

    assert asyncio.run(both()) == (False, True)


def test_who_is_not_asked_says_why() -> None:
    assert asyncio.run(Unasked("--metrics-url none").open_requests()) == (
        "--metrics-url none"
    )


def test_an_engine_queue_without_addresses_says_why() -> None:
    queue = EngineQueue([], load_vocabulary(), "http://x/metrics: nothing there (404)")
    assert "404" in str(asyncio.run(queue.open_requests()))


def point(name: str, value: float | None, **labels: str) -> Point:
    return Point(name, labels, value)


def test_running_and_waiting_of_all_engines_are_summed() -> None:
    rows = [
        point("vllm:num_requests_running", 3.0, engine="0"),
        point("vllm:num_requests_running", 2.0, engine="1"),
        point("vllm:num_requests_waiting", 4.0, engine="0"),
        point("vllm:kv_cache_usage_perc", 0.5),
    ]
    assert open_in(rows, ENGINES) == 9


def test_a_gateway_is_asked_only_where_no_engine_tells() -> None:
    gateway = [point("envoy_cluster_upstream_rq_active", 5.0)]
    engine = [point("vllm:num_requests_running", 0.0)]
    assert open_in([*gateway, *engine], ENGINES) == 0
    assert open_in(gateway, ENGINES) == 5


def test_a_page_without_a_queue_is_no_empty_queue() -> None:
    assert open_in([point("vllm:kv_cache_usage_perc", 0.0)], ENGINES) is None
    assert open_in([point("vllm:num_requests_running", None)], ENGINES) is None
