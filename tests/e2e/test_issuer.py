"""The issuing process against servers that behave, and servers that do not."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loadgen.issue.attempt import STALE_CONNECTION
from loadgen.model import Ending, Outcome, RequestRecord
from loadgen.units import NS_PER_MS
from tests.certificate import make_certificate
from tests.e2e.issuer_rig import (
    BODY,
    STREAM_HEAD,
    WAIT_S,
    Peer,
    Request,
    Talk,
    answer,
    offer,
    plain,
    serving,
    token,
)


def only(records: list[RequestRecord]) -> RequestRecord:
    (record,) = records
    return record


def one(tmp_path: Path, talk: Talk, **settings: Any) -> RequestRecord:
    """The record of one request to a server that does this."""
    with serving(talk) as server:
        return only(offer(tmp_path, server.address, **settings).records)


def test_a_whole_answer_is_a_whole_record(tmp_path: Path) -> None:
    record = one(tmp_path, answer)
    assert record.outcome is Outcome.OK
    assert record.ending is Ending.COMPLETE
    assert (record.status, record.finish_reason, record.done) == (200, "stop", True)
    assert (record.group, record.planned_prompt_tokens, record.max_tokens) == (
        "g",
        7,
        16,
    )
    assert record.request_id == "t-0"
    assert len(record.token_ns) == len(record.token_exact) == 3
    assert record.receive_clock == "kernel"
    assert record.conn_reused is False
    order = [
        record.scheduled_ns,
        record.started_ns,
        record.connected_ns,
        record.sent_ns,
        record.headers_ns,
        record.first_token_ns,
        record.last_token_ns,
        record.end_ns,
    ]
    known = [at for at in order if at is not None]
    assert len(known) == len(order)
    assert known == sorted(known)


def test_what_the_server_reads_is_what_was_sealed(tmp_path: Path) -> None:
    """Byte for byte, once each, under unique ids; twice the same."""

    def body(i: int) -> bytes:
        return b'{"n":%d,"text":"%b"}' % (i, "é漢".encode() * (i * 997 % 5000))

    at_ns = [i * NS_PER_MS for i in range(40)]
    read = []
    for _ in range(2):
        (tmp_path / "requests-0.jsonl").unlink(missing_ok=True)
        with serving(answer) as server:
            told = offer(tmp_path, server.address, at_ns, body=body)
        assert [record.outcome for record in told.records] == [Outcome.OK] * 40
        by_id = {request.request_id: request for request in server.requests}
        assert len(by_id) == len(server.requests) == 40
        for record in told.records:
            request = by_id[record.request_id]
            assert request.body == body(record.seq)
            assert request.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        read.append({i: (r.head, r.body) for i, r in by_id.items()})
    assert read[0] == read[1]


def test_held_back_headers_come_when_they_come(tmp_path: Path) -> None:
    def slow(peer: Peer, request: Request) -> None:
        time.sleep(0.15)
        answer(peer, request)

    record = one(tmp_path, slow)
    assert record.outcome is Outcome.OK
    assert record.headers_ns is not None
    assert record.sent_ns is not None
    assert record.headers_ns - record.sent_ns >= 150 * NS_PER_MS


def test_a_stream_cut_in_the_middle_is_truncated(tmp_path: Path) -> None:
    def cut(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD, token("a"))
        peer.sock.shutdown(socket.SHUT_RDWR)

    record = one(tmp_path, cut)
    assert (record.outcome, record.ending) == (Outcome.TRUNCATED, Ending.EOF)
    assert len(record.token_ns) == 1


def test_a_reset_in_the_middle_is_the_server_s(tmp_path: Path) -> None:
    def reset(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD, token("a"))
        time.sleep(0.05)  # what is unread when a reset comes is lost
        peer.reset()

    record = one(tmp_path, reset)
    assert (record.outcome, record.ending) == (Outcome.RESET, Ending.RESET)
    assert record.detail is not None
    assert record.detail.startswith("ECONNRESET")
    assert STALE_CONNECTION not in record.findings
    assert len(record.token_ns) == 1


@pytest.mark.parametrize("begun", [False, True])
def test_silence_is_stalled_at_the_idle_limit(tmp_path: Path, begun: bool) -> None:
    """No byte, no FIN, no RST: the run ends all the same."""
    over = threading.Event()

    def silent(peer: Peer, request: Request) -> None:
        if begun:
            peer.send(STREAM_HEAD, token("a"))
        over.wait(WAIT_S)

    record = one(tmp_path, silent, idle_ns=200 * NS_PER_MS)
    over.set()
    assert (record.outcome, record.ending) == (Outcome.STALLED, Ending.IDLE)
    assert record.end_ns is not None
    assert record.sent_ns is not None
    assert record.end_ns - record.sent_ns >= 200 * NS_PER_MS
    assert "0.2 s" in (record.detail or "")


def test_an_endless_answer_ends_at_the_total_limit(tmp_path: Path) -> None:
    def endless(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD)
        while True:
            peer.send(token("a"))
            time.sleep(0.01)

    record = one(tmp_path, endless, total_ns=300 * NS_PER_MS)
    assert (record.outcome, record.ending) == (Outcome.TIMEOUT, Ending.TOTAL)
    assert record.token_ns
    assert record.bad_events == 0


def test_nobody_listening_is_a_connect_error(tmp_path: Path) -> None:
    with serving(answer) as server:
        address = server.address
    record = only(offer(tmp_path, address).records)
    assert (record.outcome, record.ending) == (Outcome.CONNECT_ERROR, Ending.CONNECT)
    assert (record.sent_ns, record.connected_ns) == (None, None)
    assert (record.detail or "").startswith("ECONNREFUSED")


def test_a_handshake_nobody_takes_ends_at_the_connect_limit(tmp_path: Path) -> None:
    """The listen queue is full: the kernel drops our SYN."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        told = offer(tmp_path, listener.getsockname(), connect_ns=300 * NS_PER_MS)
        for filler in fillers:
            filler.close()
    record = only(told.records)
    assert (record.outcome, record.ending) == (Outcome.CONNECT_ERROR, Ending.CONNECT)
    assert "connect limit of 0.3 s" in (record.detail or "")


def test_a_200_kb_header_and_a_3_mb_event_are_read(tmp_path: Path) -> None:
    """No limit of ours turns a long answer into an error."""

    def long(peer: Peer, request: Request) -> None:
        head = STREAM_HEAD[:-2] + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n"
        peer.send(head, token("b" * 3_000_000, "stop"))
        peer.send(b"0\r\n\r\n")

    record = one(tmp_path, long)
    assert record.outcome is Outcome.OK
    assert record.bytes_received > 3_000_000


def test_an_endless_header_is_refused_by_name(tmp_path: Path) -> None:
    def endless(peer: Peer, request: Request) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            peer.send(b"X: " + b"a" * 9_000 + b"\r\n")

    record = one(tmp_path, endless)
    assert (record.outcome, record.ending) == (Outcome.PROTOCOL_ERROR, Ending.PROTOCOL)
    assert (record.detail or "").startswith("header_too_large")


def test_answers_that_follow_each_other_share_a_connection(tmp_path: Path) -> None:
    with serving(answer) as server:
        at_ns = [i * 100 * NS_PER_MS for i in range(4)]
        told = offer(tmp_path, server.address, at_ns)
    assert server.connections == 1
    assert [record.conn_reused for record in told.records] == [False, True, True, True]
    assert [record.connected_ns is None for record in told.records][1:] == [True] * 3
    assert len({record.local_port for record in told.records}) == 1
    assert told.stats.connections.reused == 3


def test_fresh_connections_are_never_shared(tmp_path: Path) -> None:
    with serving(answer) as server:
        at_ns = [i * 50 * NS_PER_MS for i in range(4)]
        told = offer(tmp_path, server.address, at_ns, fresh_connections=True)
    assert server.connections == 4
    assert not any(record.conn_reused for record in told.records)
    assert all(b"connection: close" in request.head for request in server.requests)


@pytest.mark.parametrize(
    "header", ["Connection: close", "Keep-Alive: timeout=0", "Keep-Alive: max=0"]
)
def test_a_server_that_keeps_nothing_is_believed(tmp_path: Path, header: str) -> None:
    def reply(peer: Peer, request: Request) -> None:
        peer.send(plain("503 Service Unavailable", b"{}", header))

    with serving(reply) as server:
        offer(tmp_path, server.address, [0, 100 * NS_PER_MS])
        assert server.connections == 2


def test_a_kept_connection_closed_in_time_is_not_used(tmp_path: Path) -> None:
    """The server closes an idle connection without having said so."""

    def once(peer: Peer, request: Request) -> None:
        answer(peer, request)
        peer.sock.shutdown(socket.SHUT_RDWR)

    with serving(once) as server:
        told = offer(tmp_path, server.address, [0, 200 * NS_PER_MS])
    assert [record.outcome for record in told.records] == [Outcome.OK] * 2
    assert [record.conn_reused for record in told.records] == [False, False]
    assert server.connections == 2
    assert told.stats.connections.dropped == 1


@pytest.mark.parametrize("way", ["reset", "close"])
def test_a_kept_connection_that_dies_under_a_request_is_our_doing(
    tmp_path: Path, way: str
) -> None:
    """No second attempt, and the finding says whose fault it is."""

    def once(peer: Peer, request: Request) -> None:
        if request.number == 0:
            answer(peer, request)
        elif way == "reset":
            peer.reset()
        else:
            peer.sock.shutdown(socket.SHUT_RDWR)

    with serving(once) as server:
        told = offer(tmp_path, server.address, [0, 200 * NS_PER_MS])
    second = told.records[1]
    assert second.conn_reused
    assert second.outcome is Outcome.RESET
    assert STALE_CONNECTION in second.findings
    assert "kept connection" in (second.detail or "")
    assert len(server.requests) == 2


def test_bytes_after_the_answer_are_found_and_end_the_connection(
    tmp_path: Path,
) -> None:
    def chatty(peer: Peer, request: Request) -> None:
        peer.send(plain("429 Too Many Requests", b"{}") + b"more")

    with serving(chatty) as server:
        told = offer(tmp_path, server.address, [0, 100 * NS_PER_MS])
    assert server.connections == 2
    assert all("extra_bytes" in record.findings for record in told.records)


def test_a_refusal_before_the_body_is_read_is_still_heard(tmp_path: Path) -> None:
    """413 and a reset while 8 MB are on their way."""
    body = b'{"text":"' + b"a" * 8_000_000 + b'"}'

    def serve(listener: socket.socket) -> None:
        sock, _ = listener.accept()
        sock.recv(1000)
        sock.sendall(plain("413 Payload Too Large", b'{"error":"too large"}'))
        time.sleep(0.1)
        Peer(sock, 0).reset()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        told = offer(tmp_path, listener.getsockname(), body=lambda i: body)
        thread.join(WAIT_S)
    record = only(told.records)
    assert (record.outcome, record.status) == (Outcome.HTTP_REJECT, 413)
    assert record.sent_ns is None


def test_connections_opened_ahead_serve_the_first_requests(tmp_path: Path) -> None:
    with serving(answer) as server:
        told = offer(tmp_path, server.address, [0] * 5, preconnect=5)
    assert server.connections == 5
    assert told.stats.connections.opened_ahead == 5
    assert not any(record.conn_reused for record in told.records)
    assert all(record.connected_ns is None for record in told.records)
    assert all(record.outcome is Outcome.OK for record in told.records)


def test_stamps_of_user_space_are_called_so(tmp_path: Path) -> None:
    with serving(answer) as server:
        told = offer(tmp_path, server.address, stamps="user")
    assert only(told.records).receive_clock == "user"
    assert told.stats.receive_clock == "user"
    assert told.stats.clock is None


def test_tls_with_stamps_and_reuse(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)

    def paced(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD)
        for text, finish in (("a", None), ("b", None), ("c", "stop")):
            time.sleep(0.01)
            peer.send(token(text, finish))
        time.sleep(0.01)
        peer.send(b"0\r\n\r\n")

    with serving(paced, tls=certificate.server_context()) as server:
        told = offer(
            tmp_path,
            server.address,
            [0, 200 * NS_PER_MS],
            tls={"server_name": "localhost", "ca_file": str(certificate.path)},
        )
    assert [record.outcome for record in told.records] == [Outcome.OK] * 2
    assert [record.conn_reused for record in told.records] == [False, True]
    assert [record.receive_clock for record in told.records] == ["kernel"] * 2
    assert [record.token_exact for record in told.records] == [[True] * 3] * 2


def test_a_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with serving(answer, tls=certificate.server_context()) as server:
        record = only(offer(tmp_path, server.address, tls={}).records)
        assert record.ending is Ending.TLS
        assert "certificate not accepted" in (record.detail or "")
        assert not server.requests
        (tmp_path / "requests-0.jsonl").unlink()
        trusting = offer(tmp_path, server.address, tls={"verify": False})
    assert only(trusting.records).outcome is Outcome.OK


def test_secrets_stay_out_of_the_records(tmp_path: Path) -> None:
    def tattle(peer: Peer, request: Request) -> None:
        peer.send(plain("401 Unauthorized", b'{"error":{"message":"bad sk-123"}}'))

    with serving(tattle) as server:
        offer(
            tmp_path,
            server.address,
            headers=[("authorization", "Bearer sk-123")],
            secrets=["sk-123"],
        )
    assert b"authorization: Bearer sk-123" in server.requests[0].head
    assert server.requests[0].body == BODY
    for path in tmp_path.iterdir():
        assert b"sk-123" not in path.read_bytes()
