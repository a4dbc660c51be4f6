"""The parent is not held up by an issuing process that has said its last word."""

from __future__ import annotations

import asyncio
import socket

import msgspec

from loadgen.issue.config import IssueConfig
from loadgen.issue.launch import Issuing
from loadgen.issue.stats import ConnectionStats, IssueStats, Quantiles

NOTHING = Quantiles(
    n=0, mean_ns=None, p50_ns=None, p90_ns=None, p99_ns=None, max_ns=None
)
STATS = IssueStats(
    scheduled=0,
    offered=0,
    sent=0,
    ended=0,
    records_lost=0,
    outcomes={},
    start_lag=NOTHING,
    send_lag=NOTHING,
    loop_lag=NOTHING,
    turns=0,
    receive_clock="user",
    clock=None,
    connections=ConnectionStats(
        opened=0, opened_ahead=0, reused=0, dropped=0, peak_in_flight=0
    ),
    tokens=0,
    tokens_exact=0,
    stop=None,
    internal=[],
    gc_collections=0,
    cpu_s=0.0,
    waited_s=None,
    preempted=0,
    t0_ns=0,
    end_ns=0,
    schedule_digest="",
    stripe=(0, 1),
)
CONFIG = IssueConfig(
    schedule_path="",
    records_path="",
    api="openai-chat",
    address=("127.0.0.1", 1),
    family=int(socket.AF_INET),
    host_header="",
    path="/",
    request_id_prefix="",
)


def test_an_input_that_stays_open_elsewhere_does_not_hold_the_run_up() -> None:
    """asyncio's own wait() would last as long as the grandchild sleeps."""
    line = msgspec.json.encode(STATS).decode()
    script = f"sleep 30 <&0 >/dev/null 2>&1 & echo $! >&2; echo '{line}'"

    async def hear_out() -> tuple[IssueStats, str]:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        issuing = Issuing(process, CONFIG)
        async with asyncio.timeout(20):
            stats = await issuing.wait()
            await issuing.end()
        return stats, await issuing._complaint

    stats, sleeper = asyncio.run(hear_out())
    assert stats == STATS
    asyncio.run(_kill(sleeper.strip()))


async def _kill(pid: str) -> None:
    process = await asyncio.create_subprocess_exec("kill", pid)
    await process.wait()
