"""The known answers as bytes, and what the client makes of them.

``cases/signatures.jsonl`` holds answers of real systems with the layer and
resource they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from loadgen.model import Ending, RequestRecord
from loadgen.wire.http import Response
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Facts, Reading
from tests.cases import Case, cases

Row = Case

# Answers whose chunked body breaks off.
CUT = frozenset({"trtllm-serve-cut", "vllm-router-midcut"})
CUT |= {"envoy-stream-idle-cut", "envoy-midstream-cut"}
# What no client can tell: another row has the very same bytes, and other truth.
SAME_BYTES = {
    "nginx-limit-conn-503": "nginx sends limit_req's page",
    "dynamo-worker-limit-529": "relayed with the frontend's own body",
    "envoy-stream-idle-cut": "cut as an engine that died cuts",
    "prodstack-failover-500": "the bare 500 of any Python server",
}


def rows() -> list[Row]:
    """Every answer with a status; the others are told apart by their ending."""
    every = cases("signatures").values()
    return [row for row in every if row["status"] is not None]


def response_bytes(row: Row) -> bytes:
    """The answer as it goes over the wire, chunked."""
    head = [f"HTTP/1.1 {row['status']} Answer", "Date: Mon, 30 Nov 2026 21:08:23 GMT"]
    if row["content_type"]:
        head.append(f"Content-Type: {row['content_type']}")
    head += [f"{name}: {value}" for name, value in row["headers"].items()]
    body = row["body"].encode()
    if not body:
        return "\r\n".join([*head, "Content-Length: 0", "", ""]).encode()
    head += ["Transfer-Encoding: chunked", "", ""]
    end = b"" if row["id"] in CUT else b"0\r\n\r\n"
    return "\r\n".join(head).encode() + b"%x\r\n%b\r\n" % (len(body), body) + end


def record_of(reads: Iterable[bytes]) -> RequestRecord:
    """What the client records of an answer that comes in these reads, then closes."""
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    response = Response(reading)
    ending: Ending | None = None
    at_ns = 0
    for data in reads:
        at_ns += 1_000_000
        ending = response.feed(data, at_ns, True)
        if ending is not None:
            break
    facts = reading.close(ending or response.eof(), at_ns)
    response.release()
    return recorded(facts)


def recorded(facts: Facts) -> RequestRecord:
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return RequestRecord(
        seq=0, request_id="r", group="g", scheduled_ns=0, sent_ns=0, **fields
    )


def replayed(row: Row) -> RequestRecord:
    """The record of one row, without a socket."""
    return record_of([response_bytes(row)])


def answer(
    body: str,
    status: int = 200,
    content_type: str = "application/json",
    **headers: str,
) -> Row:
    """A row made on the spot; header names are given with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "id": "here",
        "status": status,
        "headers": named,
        "content_type": content_type,
        "body": body,
    }


def changed(record: RequestRecord, **fields: object) -> RequestRecord:
    return msgspec.structs.replace(record, **fields)
