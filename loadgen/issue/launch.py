"""The parent's side of an issuing process: start it, steer it, hear it out."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import msgspec

from loadgen.errors import ExitCode, LoadgenError, UsageError
from loadgen.issue.config import IssueConfig, encode_config
from loadgen.issue.progress import NAMES, read_once
from loadgen.issue.stats import ConnectionStats, IssueStats, Quantiles

__all__ = [
    "Issuing",
    "IssuingError",
    "Ready",
    "posthumous",
    "start",
    "which_process",
]

_END_S = 2.0


class IssuingError(LoadgenError):
    """An issuing process died without a word."""

    exit_code = ExitCode.INVALID


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What an issuing process says before t0.

    Attributes:
        ready: False where ``error`` says why it cannot begin.
        requests: in its share of the schedule.
        schedule_digest: of the whole schedule, as it computed it.
        opened_ahead: connections that stand already.
        descriptors: how many files and sockets it may have open.
    """

    ready: bool
    error: str = ""
    requests: int = 0
    schedule_digest: str = ""
    opened_ahead: int = 0
    descriptors: int = 0


class Issuing:
    """One issuing process. ``start`` makes it; call ``end`` whatever happens."""

    def __init__(self, process: asyncio.subprocess.Process, config: IssueConfig):
        self._process = process
        self._config = config
        self._said: Ready | None = None
        self._complaint = asyncio.create_task(_tail(process.stderr))

    clock = None
    """It shares our clock: see ``engine.Issues``."""

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> Ready:
        """Wait until it could begin.

        Raises:
            UsageError: it cannot, with its reason.
            IssuingError: it died.
        """
        line = await self._line()
        if line is None:
            raise IssuingError(await self._obituary())
        said = msgspec.json.decode(line, type=Ready)
        if not said.ready:
            raise UsageError(said.error)
        self._said = said
        return said

    async def go(self, t0_ns: int) -> None:
        """Begin at that instant of CLOCK_MONOTONIC, which should lie ahead."""
        await self._tell(msgspec.json.encode({"t0_ns": t0_ns}))

    def drain(self) -> None:
        """Offer no more, let what is in flight end, save."""
        self._write(b"drain\n")

    def cut(self) -> None:
        """End everything now and save."""
        self._write(b"cut\n")

    async def wait(self) -> IssueStats:
        """Its account of itself, once all is over.

        A process that dies gives none; then ``died`` is set and the counts are
        those it left in the progress block.

        Raises:
            IssuingError: it died and had no progress block.
        """
        line = await self._line()
        # asyncio does not call a process ended while our end of its input is open.
        self._hang_up()
        await self._process.wait()
        if line is not None:
            return msgspec.json.decode(line, type=IssueStats)
        died = await self._obituary()
        if self._config.progress_path is None:
            raise IssuingError(died)
        return posthumous(self._config, died)

    async def end(self) -> None:
        """Make sure that it is gone; nothing happens if it already is."""
        if self._process.returncode is None:
            self.cut()
            self._hang_up()
            try:
                await asyncio.wait_for(self._process.wait(), _END_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        self._hang_up()
        await self._complaint

    async def _line(self) -> bytes | None:
        """Its next line; None when it says no more."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        return line if line.endswith(b"\n") else None

    def _write(self, data: bytes) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    async def _tell(self, line: bytes) -> None:
        self._write(line + b"\n")
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # gone: wait() will say how
            await self._process.stdin.drain()

    def _hang_up(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def _obituary(self) -> str:
        code = await self._process.wait()
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        last = (await self._complaint).strip().rpartition("\n")[2]
        said = f": {last}" if last else ""
        return f"{which_process(self._config.stripe)} died ({how}){said}"


def which_process(stripe: tuple[int, int]) -> str:
    """``issuing process 2 of 3``, counted as people do."""
    part, parts = stripe
    return "the issuing process" + (f" {part + 1} of {parts}" if parts > 1 else "")


async def start(config: IssueConfig) -> Issuing:
    """Start an issuing process and tell it what to do.

    It leads a session of its own: an interrupt typed at the terminal reaches the
    parent alone, which passes it on as ``drain`` or ``cut``.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # a module of the user's folder is none of ours, whatever its name
        "-m",
        "loadgen.issue",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=1 << 20,
    )
    issuing = Issuing(process, config)
    await issuing._tell(encode_config(config).rstrip(b"\n"))
    return issuing


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """The last 4 KiB of what it complains about."""
    assert stream is not None
    kept = b""
    while data := await stream.read(4096):
        kept = (kept + data)[-4096:]
    return kept.decode("utf-8", "replace")


def posthumous(config: IssueConfig, died: str) -> IssueStats:
    """The account of a process that gave none, by what its progress block holds."""
    assert config.progress_path is not None
    try:
        left = read_once(Path(config.progress_path))
    except (OSError, ValueError):  # taken away, or cut
        left = dict.fromkeys(NAMES, 0)
    unknown = Quantiles(
        n=0, mean_ns=None, p50_ns=None, p90_ns=None, p99_ns=None, max_ns=None
    )
    return IssueStats(
        scheduled=left["scheduled"],
        offered=left["due"],
        sent=left["sent"],
        ended=left["ended"],
        records_lost=left["due"] - left["ended"],
        outcomes={
            name.removeprefix("outcome_"): count
            for name, count in left.items()
            if name.startswith("outcome_") and count
        },
        start_lag=unknown,
        send_lag=unknown,
        loop_lag=unknown,
        turns=0,
        receive_clock="kernel" if config.stamps == "auto" else "user",
        clock=None,
        connections=ConnectionStats(
            opened=0, opened_ahead=0, reused=0, dropped=0, peak_in_flight=0
        ),
        tokens=left["tokens"],
        tokens_exact=0,
        stop=died,
        internal=[],
        gc_collections=0,
        gc_pause_max_ns=0,
        cpu_s=0.0,
        waited_s=None,
        preempted=0,
        t0_ns=left["t0_ns"],
        end_ns=0,
        schedule_digest="",
        stripe=config.stripe,
        died=died,
    )
