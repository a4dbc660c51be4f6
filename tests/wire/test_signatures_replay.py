"""Every known answer, sent over a real socket and read as any other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.signatures import load_signatures
from loadgen.model import Attribution, RequestRecord
from loadgen.wire.http import RequestHead
from tests.signature_rows import SAME_BYTES, Row, record_of, response_bytes, rows

WANTED_SHARE = 0.97
READ_BYTES = 65_536


@pytest.fixture(scope="module")
def answers() -> Iterator[tuple[str, int]]:
    """A server that gives request ``x-request-id: N`` the answer of row N."""
    every = rows()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, every), daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(timeout=10)
        assert not thread.is_alive()


def serve(listener: socket.socket, every: list[Row]) -> None:
    for _ in every:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(READ_BYTES)
            number = request.partition(b"x-request-id: ")[2].partition(b"\r\n")[0]
            connection.sendall(response_bytes(every[int(number)]))


def exchange(address: tuple[str, int], number: int) -> RequestRecord:
    head = RequestHead("/v1/chat/completions", "test", [], close=True)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head.request(str(number), b"{}"))
        return record_of(iter(lambda: connection.recv(READ_BYTES), b""))


@pytest.fixture(scope="module")
def judged(answers: tuple[str, int]) -> list[tuple[Row, Attribution]]:
    attribute = Attributor(load_signatures())
    found = []
    for number, row in enumerate(rows()):
        attribution = attribute(exchange(answers, number))
        assert attribution is not None, row["id"]
        found.append((row, attribution))
    return found


def is_right(row: Row, attribution: Attribution) -> bool:
    return (attribution.layer.value, attribution.limiting_resource.value) == (
        row["layer"],
        row["limiting_resource"],
    )


def test_layer_and_resource(judged: list[tuple[Row, Attribution]]) -> None:
    missed = {row["id"] for row, found in judged if not is_right(row, found)}
    assert missed <= set(SAME_BYTES)
    assert len(missed) <= (1 - WANTED_SHARE) * len(judged)


def test_no_wrong_layer_is_asserted(judged: list[tuple[Row, Attribution]]) -> None:
    wrong = {
        row["id"]: found.confidence.value
        for row, found in judged
        if found.layer.value not in (row["layer"], "unknown")
    }
    assert set(wrong) <= set(SAME_BYTES)
    assert "high" not in wrong.values()


def test_acceptance(judged: list[tuple[Row, Attribution]]) -> None:
    """Acceptance may stay open; where it is stated, it is right."""
    stated = {"yes": True, "no": False}
    wrong = [
        row["id"]
        for row, found in judged
        if is_right(row, found)
        and stated.get(found.accepted.value, row["after_acceptance"])
        is not row["after_acceptance"]
    ]
    assert wrong == []


def test_evidence_is_short_and_printable(
    judged: list[tuple[Row, Attribution]],
) -> None:
    for row, found in judged:
        assert found.evidence, row["id"]
        assert len(found.evidence) <= 6
        assert all(len(line) <= 160 and line.isprintable() for line in found.evidence)
