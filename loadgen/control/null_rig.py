"""One load offered to null servers on loopback, as both sides saw it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen import __version__
from loadgen.control.offer import offer
from loadgen.errors import LoadgenError
from loadgen.issue.config import IssueConfig
from loadgen.issue.stats import IssueStats
from loadgen.model import Outcome, RequestRecord
from loadgen.plan.schedule import Asked, Entry, Header, seal
from loadgen.standin.null import MODEL, NullStats, Served
from loadgen.store.lines import LineStream
from loadgen.units import NS_PER_MS, NS_PER_S, NS_PER_US

__all__ = ["ITL_NS", "Limit", "Load", "Seen", "measure"]

ITL_NS = 10 * NS_PER_MS
"""The pace of the streams; the first token comes after two of it."""

LATE_NS = 10 * NS_PER_MS
MAX_LATE_SHARE = 0.01
MAX_COALESCED_SHARE = 0.01
MAX_SERVER_LATE_SHARE = 0.05
MAX_SERVER_BUSY = 0.9
MAX_WAITED_SHARE = 0.1

Limit = Literal["client", "server", "machine"]
"""Who gave out: an issuing process, the null server, or the processors they share
with each other and with whatever else runs."""

_DRAIN_NS = NS_PER_S
_LIMIT_NS = 20 * NS_PER_S
_BODY = (
    b'{"model":"null","messages":[{"role":"user","content":"Sixteen words or so, as '
    b'a short question has them; what they say is of no matter here."}],'
    b'"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What each process offers: at a constant rate, answers of so many tokens."""

    rate_rps: float
    seconds: float
    tokens: int

    @property
    def paced(self) -> bool:
        """Streams come token by token; the answer of one token comes at once."""
        return self.tokens > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One load as the client and the server saw it.

    Attributes:
        send_lag_ns: sent - scheduled, of all that was sent.
        stamp_error_ns: our exact stamps minus the server's own of writing.
        tokens: counted by the client.
        coalesced: of these, with a stamp that is only an upper bound.
        not_ok: requests that failed, or were given up.
        processor_share: of one processor, what the busiest issuing process used.
        waited_share: of the time, how long it could have run and had no processor.
        server: the null servers' account, summed; ``busy`` is the busiest one's.
    """

    send_lag_ns: NDArray[np.int64]
    stamp_error_ns: NDArray[np.int64]
    tokens: int
    coalesced: int
    not_ok: int
    processor_share: float
    waited_share: float
    server: NullStats

    @property
    def coalesced_share(self) -> float:
        return self.coalesced / max(1, self.tokens)

    @property
    def server_late_share(self) -> float:
        return self.server.late / max(1, self.server.tokens)

    def held(self, load: Load) -> bool:
        """Whether the client did all of it, in time and without merging tokens."""
        late_share = float(np.mean(self.send_lag_ns > LATE_NS))
        merged = load.paced and self.coalesced_share > MAX_COALESCED_SHARE
        return not (self.not_ok or merged or late_share >= MAX_LATE_SHARE)

    @property
    def limited_by(self) -> Limit:
        """Who is to blame if it did not hold."""
        if self.waited_share > MAX_WAITED_SHARE:
            return "machine"
        slow = self.server_late_share > MAX_SERVER_LATE_SHARE
        return "server" if slow or self.server.busy > MAX_SERVER_BUSY else "client"


async def measure(load: Load, processes: int) -> Seen:
    """Offer the load by so many processes, each to a null server of its own.

    Raises:
        LoadgenError: a process died.
        KeyboardInterrupt: the user stopped it.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_schedule(folder / "schedule.jsonl", load, processes)
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(_null_server(load, folder, process))
                for process in range(processes)
            ]
            configs = [
                _config(folder, server.port, (process, processes))
                for process, server in enumerate(servers)
            ]
            offered = await offer(configs, lambda _: None)
            accounts = [await server.end() for server in servers]
        if offered.interrupts:
            raise KeyboardInterrupt
        return _seen(folder, offered.stats, accounts)


def _write_schedule(path: Path, load: Load, processes: int) -> None:
    duration_ns = round(load.seconds * NS_PER_S)
    rate_rps = load.rate_rps * processes
    header = Header(
        api="openai-chat",
        path="/v1/chat/completions",
        model=MODEL,
        stream=True,
        workload="calibration",
        seed=0,
        arrivals={"process": "constant", "duration_ns": duration_ns},
        asked=Asked(rate_rps=rate_rps, duration_s=load.seconds),
        groups=["all"],
        created_by=f"loadgen {__version__}",
    )
    body, count = msgspec.Raw(_BODY % load.tokens), max(1, int(rate_rps * load.seconds))
    entries = (
        Entry(i * duration_ns // count, "all", None, load.tokens, 16, body)
        for i in range(count)
    )
    with path.open("wb") as out:
        seal(header, entries, out)


def _config(folder: Path, port: int, stripe: tuple[int, int]) -> IssueConfig:
    return IssueConfig(
        schedule_path=str(folder / "schedule.jsonl"),
        records_path=str(folder / f"requests-{stripe[0]}.jsonl"),
        progress_path=str(folder / f"progress-{stripe[0]}.bin"),
        api="openai-chat",
        address=("127.0.0.1", port),
        family=socket.AF_INET,
        host_header="127.0.0.1",
        path="/v1/chat/completions",
        headers=[("content-type", "application/json")],
        request_id_prefix="c-",
        stripe=stripe,
        idle_ns=_LIMIT_NS,
        total_ns=_LIMIT_NS,
        drain_ns=_DRAIN_NS,
    )


class _NullServer:
    """A null server under way."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    async def end(self) -> NullStats:
        """Its account of itself; what it served is in its log from then on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        line = await self._process.stdout.readline()
        if not line:
            raise LoadgenError("the null server died")
        return msgspec.json.decode(line, type=NullStats)


class _Ready(msgspec.Struct):
    url: str


@asynccontextmanager
async def _null_server(
    load: Load, folder: Path, number: int
) -> AsyncIterator[_NullServer]:
    pace = {"--ttft-us": 2 * ITL_NS // NS_PER_US, "--itl-us": ITL_NS // NS_PER_US}
    flags = [f"{name}={value}" for name, value in pace.items() if load.paced]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "loadgen.standin.null"),
        f"--log={folder / f'served-{number}'}",
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line:
            raise LoadgenError("the null server did not start")
        ready = msgspec.json.decode(line, type=_Ready)
        yield _NullServer(process, int(ready.url.rpartition(":")[2]))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _seen(folder: Path, stats: Sequence[IssueStats], servers: list[NullStats]) -> Seen:
    """Join the records with what the servers logged."""
    for one in stats:
        if one.died is not None:
            raise LoadgenError(one.died)
    wrote: dict[str, list[int]] = {}
    lags: list[int] = []
    errors: list[NDArray[np.int64]] = []
    for number, one in enumerate(stats):
        served = LineStream(folder / f"served-{number}", Served)
        wrote.update((request.request_id, request.token_ns) for request in served)
        for record in LineStream(folder / f"requests-{number}.jsonl", RequestRecord):
            if record.sent_ns is not None:
                lags.append(record.sent_ns - record.scheduled_ns)
            theirs = wrote.get(record.request_id, [])
            if len(theirs) == len(record.token_ns):
                error_ns = np.array(record.token_ns) + one.t0_ns - np.array(theirs)
                errors.append(error_ns[np.array(record.token_exact, bool)])
    tokens = sum(one.tokens for one in stats)
    window_s = max(one.end_ns for one in stats) / NS_PER_S
    return Seen(
        send_lag_ns=np.array(lags, np.int64),
        stamp_error_ns=np.concatenate(errors) if errors else np.empty(0, np.int64),
        tokens=tokens,
        coalesced=tokens - sum(one.tokens_exact for one in stats),
        not_ok=sum(one.scheduled - one.outcomes.get(Outcome.OK, 0) for one in stats),
        processor_share=max(one.cpu_s for one in stats) / window_s,
        waited_share=max(one.waited_s or 0.0 for one in stats) / window_s,
        server=NullStats(
            requests=sum(one.requests for one in servers),
            tokens=sum(one.tokens for one in servers),
            late=sum(one.late for one in servers),
            busy=max(one.busy for one in servers),
        ),
    )
