"""The pacer in virtual time: absolute steps, tickets, and the counters."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadgen.clock import VirtualClock
from loadgen.sim.engine import Engine, EngineSpec, Refusal, StepCost
from loadgen.standin.meters import Meters
from loadgen.standin.pacer import MAX_CATCH_UP_NS, Pacer, Ticket

COST = StepCost(base_ns=100, prefill_token_ns=0, decode_seq_ns=0, kv_token_ns=0)


class VirtualTime:
    """Sleeps end when the test moves the clock past them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.late_ns = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    async def sleep_until(self, instant_ns: int) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (instant_ns, id(future), future))
        await future

    async def advance_to(self, instant_ns: int) -> None:
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= instant_ns:
            due_ns, _, future = heapq.heappop(self._sleepers)
            self.clock.advance_to_ns(due_ns + self.late_ns)
            future.set_result(None)
            await self._settle()
        self.clock.advance_to_ns(instant_ns)

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


class Rig:
    """A pacer under virtual time, and a look at its meters."""

    def __init__(self, spec: EngineSpec, speed: float = 1.0) -> None:
        self.time = VirtualTime()
        self.engine = Engine(spec)
        self.meters = Meters("m", self.engine)
        self.pacer = Pacer(
            self.engine, self.meters, self.time.clock, self.time.sleep_until, speed
        )

    def submit(self, prompt_tokens: int, max_tokens: int) -> Ticket:
        arrived_ns = self.time.clock.now_ns()
        return self.pacer.submit(prompt_tokens, max_tokens, arrived_ns, "length")

    def metric(self, name: str, **labels: str) -> float:
        text = self.meters.render().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        raise AssertionError(f"no sample {name} {labels}")


def run(rig: Rig, scenario: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        running = asyncio.create_task(rig.pacer.run())
        try:
            await scenario(rig)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    asyncio.run(main())


def test_tokens_come_at_the_instants_of_the_steps() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.time.advance_to(1000)
        ticket = rig.submit(4, 3)
        await rig.time.advance_to(1099)
        assert ticket.sequence.output_tokens == 0
        await rig.time.advance_to(1100)
        assert await ticket.next_token() == 1
        await rig.time.advance_to(1300)
        assert [await ticket.next_token(), await ticket.next_token()] == [2, 3]
        assert (ticket.times.first_ns, ticket.times.last_ns) == (1100, 1300)
        rig.pacer.release(ticket)

    run(Rig(EngineSpec(cost=COST)), scenario)


def test_late_wake_ups_do_not_add_up() -> None:
    async def scenario(rig: Rig) -> None:
        rig.time.late_ns = 30
        ticket = rig.submit(4, 10)
        await rig.time.advance_to(2000)
        assert ticket.times.last_ns == 10 * 100 + 30

    run(Rig(EngineSpec(cost=COST)), scenario)


def test_a_long_stall_is_not_caught_up() -> None:
    async def scenario(rig: Rig) -> None:
        ticket = rig.submit(4, 2)
        stall_ns = rig.time.late_ns = 10 * MAX_CATCH_UP_NS
        await rig.time.advance_to(100)
        rig.time.late_ns = 0
        await rig.time.advance_to(20 * MAX_CATCH_UP_NS)
        assert ticket.times.first_ns == 100 + stall_ns
        assert ticket.times.last_ns == 100 + stall_ns  # already due, at once

    run(Rig(EngineSpec(cost=COST)), scenario)


def test_speed_divides_the_duration_of_a_step() -> None:
    async def scenario(rig: Rig) -> None:
        ticket = rig.submit(4, 1)
        await rig.time.advance_to(25)
        assert ticket.times.last_ns == 25

    run(Rig(EngineSpec(cost=COST), speed=4), scenario)


def test_between_the_two_checks_nothing_is_reserved() -> None:
    async def scenario(rig: Rig) -> None:
        first_checks = [rig.pacer.refusal() for _ in range(40)]
        assert first_checks == [None] * 40
        refused = 0
        for _ in range(40):
            if rig.pacer.refusal() is Refusal.QUEUED_REQS:
                refused += 1
            else:
                rig.submit(100, 5)
        assert refused == 32
        assert (
            rig.metric("vllm:admission_rejections_total", reason="max_num_queued_reqs")
            == 32
        )
        await rig.time.advance_to(10_000)
        assert rig.metric("vllm:request_success_total", finished_reason="length") == 8

    run(Rig(EngineSpec(max_num_queued_reqs=8, cost=COST)), scenario)


def test_who_leaves_is_aborted_and_counted_nowhere() -> None:
    async def scenario(rig: Rig) -> None:
        tickets = [rig.submit(20, 50) for _ in range(6)]
        await rig.time.advance_to(500)
        assert rig.metric("vllm:num_requests_running") == 4
        assert rig.metric("vllm:num_requests_waiting") == 2
        assert rig.metric("vllm:kv_cache_usage_perc") > 0
        for ticket in tickets:
            rig.pacer.release(ticket)
            rig.pacer.release(ticket)
        for gauge in ("num_requests_running", "num_requests_waiting"):
            assert rig.metric(f"vllm:{gauge}") == 0
        await rig.time.advance_to(10_000)
        for reason in ("abort", "length", "stop"):
            assert rig.metric("vllm:request_success_total", finished_reason=reason) == 0
        assert rig.metric("vllm:generation_tokens_total") == 4 * 5

    run(Rig(EngineSpec(cost=COST)), scenario)


def test_the_counters_tell_what_was_done() -> None:
    async def scenario(rig: Rig) -> None:
        rig.submit(20, 5)
        rig.submit(30, 1)
        await rig.time.advance_to(10_000)
        assert rig.metric("vllm:prompt_tokens_total") == 50
        assert rig.metric("vllm:generation_tokens_total") == 6
        for histogram, samples in (
            ("time_to_first_token_seconds", 2),
            ("inter_token_latency_seconds", 4),
            ("e2e_request_latency_seconds", 2),
            ("request_queue_time_seconds", 2),
            ("request_time_per_output_token_seconds", 1),
            ("iteration_tokens_total", 5),
        ):
            assert rig.metric(f"vllm:{histogram}_count") == samples
        mean_s = rig.metric("vllm:request_time_per_output_token_seconds_sum")
        assert mean_s == pytest.approx(100e-9)

    run(Rig(EngineSpec(cost=COST)), scenario)


def test_preemptions_are_counted() -> None:
    async def scenario(rig: Rig) -> None:
        for _ in range(2):
            rig.submit(15, 40)
        await rig.time.advance_to(100_000)
        assert rig.metric("vllm:num_preemptions_total") == rig.engine.preemptions > 0
        assert rig.metric("vllm:request_num_preemptions_sum") == rig.engine.preemptions

    run(Rig(EngineSpec(max_model_len=64, kv_blocks=4, cost=COST)), scenario)
