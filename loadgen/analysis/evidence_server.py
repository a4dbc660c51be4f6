"""An engine's own log, read from text and joined with the run's requests.

vLLM names a request by our X-Request-Id where request logging is on. Its HTTP
server's access lines carry only the client's address, so these are joined by
port: on one connection requests follow each other, so the n-th line of a port
is the n-th request sent from it, and only if all of them agree.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from loadgen.analysis.evidence import EngineLine, NotInEngineLog
from loadgen.model import RequestRecord

__all__ = ["ServerLog", "join", "parse_server_log"]

MAX_LINE_CHARS = 8192
MAX_SUFFIXES = 2

_ACCESS = re.compile(
    r"(?P<host>[\w.:\[\]-]+):(?P<port>\d{1,5}) - "
    r'"POST (?P<path>[^ "]+)[^"]*" (?P<status>\d{3})\b'
)
_TIME = re.compile(r"\b(?:\d{4}-)?\d\d-\d\d[ T](?P<clock>\d\d:\d\d:\d\d)")
_NAMED = (
    ("received", re.compile(r"Received request (?P<id>[^\s:,]+)")),
    ("added", re.compile(r"Added request (?P<id>[^\s:,]+?)\.?(?:\s|$)")),
    ("aborted", re.compile(r"Request (?P<id>\S+) aborted")),
    ("failed", re.compile(r"Request (?P<id>\S+) failed(?: \([^)]*\))?: (?P<why>.*)")),
)
# What an engine puts around our id.
_BEFORE = re.compile(r"^(?:chatcmpl|cmpl|resp|msg|pool|embd)-")
_AFTER = re.compile(r"-(?:\d{1,3}|[0-9a-f]{8})$")


@dataclass(slots=True)
class ServerLog:
    """What a log says: by our request id, and by client port.

    ``clock`` of an access line is the time of day last seen before it, as the
    server's clock has it, ``HH:MM:SS``; None before any.
    """

    by_id: dict[str, EngineLine] = field(default_factory=dict)
    by_port: dict[int, list[tuple[str | None, EngineLine]]] = field(
        default_factory=dict
    )


def parse_server_log(lines: Iterable[str], wanted: Container[str]) -> ServerLog:
    """Read a log of vLLM or of another server on uvicorn; other lines are skipped.

    Args:
        lines: the log.
        wanted: the run's request ids.
    """
    log = ServerLog()
    clock: str | None = None
    for line in lines:
        text = line[:MAX_LINE_CHARS]
        time = _TIME.search(text)
        if time is not None:
            clock = time["clock"]
        access = _ACCESS.search(text)
        if access is not None:
            port = int(access["port"])
            told = EngineLine(client_port=port, status=int(access["status"]))
            log.by_port.setdefault(port, []).append((clock, told))
            continue
        _take_named(log, text, wanted)
    return log


def _take_named(log: ServerLog, text: str, wanted: Container[str]) -> None:
    for what, pattern in _NAMED:
        match = pattern.search(text)
        if match is None:
            continue
        request_id = _ours(match["id"], wanted)
        if request_id is None:
            return
        known = log.by_id.get(request_id, EngineLine(request_id=request_id))
        if what == "failed":
            log.by_id[request_id] = replace(known, failed=match["why"].strip()[:512])
        elif what == "received":
            log.by_id[request_id] = replace(known, received=True)
        elif what == "added":
            log.by_id[request_id] = replace(known, added=True)
        else:
            log.by_id[request_id] = replace(known, aborted=True)
        return


def _ours(engine_id: str, wanted: Container[str]) -> str | None:
    """The X-Request-Id inside an engine's id; None if it is not of this run."""
    candidate = _BEFORE.sub("", engine_id)
    for _ in range(MAX_SUFFIXES):
        if candidate in wanted:
            return candidate
        candidate = _AFTER.sub("", candidate)
    return candidate if candidate in wanted else None


def join(
    records: Iterable[RequestRecord], log: ServerLog
) -> Iterator[tuple[int, EngineLine | NotInEngineLog]]:
    """What the log says of each request: by its id, else by its port.

    Yields:
        ``seq`` and the evidence. A request it does not name is reported as such
        only where it names others of the run. Nothing for requests never sent.
    """
    sent = [record for record in records if record.sent_ns is not None]
    named = {
        record.seq: log.by_id[record.request_id]
        for record in sent
        if record.request_id in log.by_id
    }
    by_port = dict(_by_port(sent, log))
    for record in sent:
        line = named.get(record.seq)
        access = by_port.get(record.seq)
        if line is not None and access is not None:
            yield (
                record.seq,
                replace(line, client_port=access.client_port, status=access.status),
            )
        elif line is not None or access is not None:
            yield record.seq, line or access or NotInEngineLog()
        elif named:
            yield record.seq, NotInEngineLog()


def _by_port(
    sent: Sequence[RequestRecord], log: ServerLog
) -> Iterator[tuple[int, EngineLine]]:
    of_port: dict[int, list[RequestRecord]] = {}
    for record in sorted(sent, key=lambda record: record.sent_ns or 0):
        if record.local_port is not None:
            of_port.setdefault(record.local_port, []).append(record)
    for port, requests in of_port.items():
        lines = [line for _, line in log.by_port.get(port, [])]
        if len(lines) == len(requests) and all(
            request.status in (None, line.status)
            for request, line in zip(requests, lines, strict=True)
        ):
            for request, line in zip(requests, lines, strict=True):
                yield request.seq, line
