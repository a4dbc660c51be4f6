"""Scrapes over a real socket: bad answers are a status, never an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler

import aiohttp
import pytest

from loadgen.clock import MonotonicClock
from loadgen.telemetry import prometheus
from loadgen.telemetry.prometheus import Metrics
from loadgen.telemetry.samples import ServerSample
from tests.metrics_server import MetricsServer, metrics_server

Answer = Callable[[MetricsServer, BaseHTTPRequestHandler], None]
WANTED = frozenset({"a"})


def ask(url: str) -> ServerSample:
    async def asked() -> ServerSample:
        async with aiohttp.ClientSession() as session:
            source = Metrics(
                session, url, 0, {"X-Key": "k"}, WANTED, WANTED, MonotonicClock()
            )
            return await source.scrape("before")

    return asyncio.run(asked())


def says(
    body: bytes, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()
) -> Answer:
    def answer(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def endless(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _number in range(50):
        request.wfile.write(b"a 1\n" * 250_000)


def bomb(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    import gzip

    request.send_response(200)
    request.send_header("Content-Encoding", "gzip")
    request.end_headers()
    request.wfile.write(gzip.compress(bytes(100 << 20), 1))


def drip(server: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _number in range(600):
        request.wfile.write(b"# a little at a time\n")
        if server.release.wait(0.01):
            return


def hang(server: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    server.release.wait(60)


def cut(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"a 1\n")
    request.close_connection = True


def no_http(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"SSH-2.0-nothing here\r\n\r\n")


BAD: dict[str, tuple[Answer, str]] = {
    "50 MB": (endless, "longer than 16 MiB"),
    "a bomb": (bomb, "longer than 16 MiB"),
    "html": (says(b"<html>no</html>\n"), "an HTML page"),
    "binary": (says(b"\0\1\2"), "binary"),
    "json": (says(b'{"error": 1}'), "not metrics"),
    "401": (says(b"", status=401), "not let in (401)"),
    "403": (says(b"", status=403), "not let in (403)"),
    "404": (says(b"", status=404), "nothing there (404)"),
    "501": (says(b"{}", status=501), "metrics disabled (501)"),
    "500": (says(b"a 1\n", status=500), "status 500"),
    "redirect": (
        says(b"", status=302, headers=[("Location", "/elsewhere")]),
        "a redirect (302)",
    ),
    "drip": (drip, "no answer within 0.2 s"),
    "hang": (hang, "no answer within 0.2 s"),
    "cut": (cut, "no answer (ClientPayloadError)"),
    "no http": (no_http, "no answer (ClientResponseError)"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_a_status(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, status = BAD[name]
    if "0.2 s" in status:
        monkeypatch.setattr(prometheus, "LIMIT_S", 0.2)
    with metrics_server(answer) as server:
        sample = ask(server.url)
    assert sample.status == status
    assert sample.points == []
    assert len(server.asked) == 1


def test_nobody_there_is_a_status() -> None:
    with metrics_server(says(b"")) as server:
        url = server.url
    assert ask(url).status.startswith("no connection")


def test_a_page_is_read_with_its_names_and_our_headers() -> None:
    with metrics_server(says(b"a 1\nz 2\n")) as server:
        sample = ask(server.url)
    assert sample.status == "ok"
    assert [(point.name, point.value) for point in sample.points] == [("a", 1)]
    assert sample.names == ["a", "z"]
    assert server.asked[0]["x-key"] == "k"
    assert "text/plain" in server.asked[0]["accept"]


def test_openmetrics_is_read_by_its_content_type() -> None:
    kind = "application/openmetrics-text; version=1.0.0"
    body = b'# TYPE a counter\na_total 5 # {trace_id="x"} 1.0\n# EOF\n'
    with metrics_server(says(body, headers=[("Content-Type", kind)])) as server:
        sample = ask(server.url)
    assert [(point.name, point.value) for point in sample.points] == [("a_total", 5)]
