"""The head's handle and the node behind it, joined without Ray."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loadgen.control.offer import Offered, Snapshot
from loadgen.control.offer import offer as offer_all
from loadgen.errors import UsageError
from loadgen.issue.config import IssueConfig, PromptTokens
from loadgen.issue.node import About, Node
from loadgen.issue.progress import read_once
from loadgen.issue.ray import RayIssuing
from loadgen.model import TokenSource
from loadgen.plan.cut import cut
from loadgen.units import NS_PER_MS, NS_PER_S
from tests.e2e.issuer_rig import (
    WAIT_S,
    answer,
    configure,
    read_records,
    serving,
    write_schedule,
)

AHEAD_NS = 3600 * NS_PER_S
"""By how much the far clock of these tests is ahead of ours."""


class GoneError(Exception):
    """What a call to a node that is gone raises."""


class Actor:
    """Calls a node as Ray does: ``actor.method.remote(...)`` gives an awaitable."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.gone = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return Method(self, getattr(self.node, name))


class Method:
    def __init__(self, actor: Actor, call: Callable[..., Awaitable[Any]]) -> None:
        self._actor, self._call = actor, call

    def remote(self, *arguments: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self._until_gone(*arguments))

    async def _until_gone(self, *arguments: Any) -> Any:
        gone = asyncio.create_task(self._actor.gone.wait())
        call = asyncio.ensure_future(self._call(*arguments))
        await asyncio.wait([gone, call], return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if self._actor.gone.is_set():
            call.cancel()
            raise GoneError("the node is gone\nand a page of details")
        return await call


class FarNode(Node):
    """A node whose clock reads otherwise than ours."""

    async def clock(self) -> int:
        return time.monotonic_ns() + AHEAD_NS

    async def go(self, t0_ns: int) -> None:
        assert t0_ns > time.monotonic_ns() + AHEAD_NS - NS_PER_S
        await super().go(t0_ns - AHEAD_NS)


class Joined:
    """An engine of such nodes."""

    lead_ns = 50 * NS_PER_MS
    tick_s = 0.05
    remote = True

    def __init__(self, make: Callable[[], Node] = Node) -> None:
        self._make = make
        self.actors: list[Actor] = []

    def check(self, processes: int) -> None:
        """Nothing is lacking."""

    async def start(self, configs: Sequence[IssueConfig]) -> list[RayIssuing]:
        self.actors = [Actor(self._make()) for _ in configs]
        shares = deal(Path(configs[0].schedule_path), len(configs))
        gate = asyncio.Semaphore(1)
        return [
            RayIssuing(actor, config, share, gate, GoneError, 0.05)
            for actor, config, share in zip(self.actors, configs, shares, strict=True)
        ]


def deal(whole: Path, count: int) -> list[Path]:
    shares = [whole.with_name(f"share-{i}") for i in range(count)]
    with ExitStack() as stack, whole.open("rb") as source:
        cut(source, [stack.enter_context(share.open("wb")) for share in shares])
    return shares


def offer(
    folder: Path,
    address: tuple[str, int],
    engine: Joined,
    on_tick: Callable[[Snapshot], None] = lambda _: None,
    requests: int = 40,
) -> Offered:
    write_schedule(
        folder / "schedule.jsonl", [i * 20 * NS_PER_MS for i in range(requests)]
    )
    (folder / "lengths").write_bytes(
        b"".join((100 + i).to_bytes(4, "little") for i in range(requests))
    )
    configs = [
        configure(
            folder,
            address,
            stripe=(process, 2),
            records_path=str(folder / f"requests-{process}.jsonl"),
            progress_path=str(folder / f"progress-{process}.bin"),
            prompt_tokens=PromptTokens(
                path=str(folder / "lengths"), source=TokenSource.TOKENIZE
            ),
        )
        for process in range(2)
    ]

    async def run() -> Offered:
        try:
            running = offer_all(configs, on_tick, engine=engine)
            return await asyncio.wait_for(running, WAIT_S)
        finally:
            for actor in engine.actors:  # a lost one clears up after itself
                await actor.node.end()

    return asyncio.run(run())


def test_records_counters_and_lengths_come_back(tmp_path: Path) -> None:
    ticks: list[Snapshot] = []
    with serving(answer) as server:
        offered = offer(tmp_path, server.address, Joined(), ticks.append)
    assert [stats.outcomes for stats in offered.stats] == [{"ok": 20}, {"ok": 20}]
    for process in range(2):
        records = read_records(tmp_path / f"requests-{process}.jsonl")
        assert [record.seq for record in records] == list(range(process, 40, 2))
        assert [record.prompt_tokens for record in records] == [
            100 + record.seq for record in records
        ]
        assert read_once(tmp_path / f"progress-{process}.bin")["ended"] == 20
    assert ticks[-1]["scheduled"] == 40
    assert len({request.request_id for request in server.requests}) == 40
    assert not list(tmp_path.glob("share-*"))


def test_a_far_clock_is_reckoned_with(tmp_path: Path) -> None:
    """t0 is told in the node's own time; the offset is known within its bound."""
    ticks: list[Snapshot] = []
    with serving(answer) as server:
        offered = offer(tmp_path, server.address, Joined(FarNode), ticks.append)
    assert [stats.outcomes for stats in offered.stats] == [{"ok": 20}, {"ok": 20}]
    for clock in offered.clocks:
        assert abs(clock.offset_ns - AHEAD_NS) <= clock.error_ns
        assert clock.after_offset_ns is not None
        assert clock.after_error_ns is not None
        assert abs(clock.after_offset_ns - AHEAD_NS) <= clock.after_error_ns
        assert clock.bound_ns is not None
    assert abs(ticks[-1]["t0_ns"] - time.monotonic_ns()) < WAIT_S * NS_PER_S


def test_a_lost_node_counts_as_having_offered_all_it_may_have(tmp_path: Path) -> None:
    """What was due long after it fell silent was never offered."""
    engine = Joined()

    def lose(snapshot: Snapshot) -> None:
        if snapshot["ended"] >= 10:
            engine.actors[1].gone.set()

    with serving(answer) as server:
        offered = offer(tmp_path, server.address, engine, lose)
    fine, lost = offered.stats
    assert fine.outcomes == {"ok": 20}
    assert lost.died is not None
    assert lost.died.startswith("the issuing process 2 of 2 on ")
    assert lost.died.endswith("was lost: the node is gone")
    assert lost.offered == lost.scheduled == 20
    assert not (tmp_path / "requests-1.jsonl").exists()
    assert offered.clocks[0].bound_ns is not None
    assert offered.clocks[1].bound_ns is None


class OldNode(Node):
    async def about(self) -> About:
        return About("elsewhere", "3.11.0", "0.0.1")


class FullNode(Node):
    def _shortages(self, config: IssueConfig) -> list[Any]:
        raise UsageError("planted")


class ElsewhereNode(Node):
    async def about(self) -> About:
        return (await super().about())._replace(host="elsewhere")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (OldNode, "elsewhere has loadgen 0.0.1"),
        (ElsewhereNode, "127.0.0.1 is not this machine for elsewhere"),
        (FullNode, "planted"),
    ],
)
def test_a_node_that_cannot_do_it_stops_the_run_before_t0(
    tmp_path: Path, make: Callable[[], Node], said: str
) -> None:
    with serving(answer) as server, pytest.raises(UsageError, match=said):
        offer(tmp_path, server.address, Joined(make))
    assert server.requests == []
    assert not list(tmp_path.glob("share-*"))


def test_a_head_not_heard_of_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node cut off from its head drains, and keeps what it has."""
    monkeypatch.setattr("loadgen.issue.node.SILENCE_S", 0.2)

    async def deaf(self: RayIssuing) -> None:
        """The head has stopped asking."""

    monkeypatch.setattr(RayIssuing, "_mirror", deaf)
    with serving(answer) as server:
        offered = offer(tmp_path, server.address, Joined(), requests=200)
    for stats in offered.stats:
        assert stats.stop == "interrupted"
        assert 0 < stats.outcomes["ok"] < 100
        assert stats.outcomes["ok"] + stats.outcomes["unsent"] == 100
    assert json.loads((tmp_path / "requests-0.jsonl").read_bytes().split(b"\n")[0])
