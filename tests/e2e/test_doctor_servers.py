"""Whatever a server does, doctor ends soon, says it in a row and harms nobody."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from loadgen.cli.__main__ import main
from loadgen.doctor.server import ask, idle
from tests.certificate import make_certificate
from tests.e2e.doctor_servers import CHAT, MODELS, Site, answer, serving


@pytest.fixture(autouse=True)
def brief_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle connection is watched for a moment only."""
    monkeypatch.setattr(idle, "WATCHED_S", 0.5)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that do not answer."""
    monkeypatch.setattr(ask, "LIMIT_S", 0.5)
    monkeypatch.setattr(ask, "SERVER_INFO_LIMIT_S", 0.5)
    monkeypatch.setattr(ask, "TOTAL_S", 0.6)
    monkeypatch.setattr(idle, "ANSWER_S", 0.5)


Told = tuple[int, dict[str, dict[str, Any]]]


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> Told:
    """Exit code and the server's checks by what they are about."""
    code = main(["doctor", *arguments, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "loadgen.doctor/1"
    return code, {
        check["id"].removeprefix("server."): check
        for check in told["checks"]
        if check["id"].startswith("server.")
    }


def test_a_sound_server(capsys: pytest.CaptureFixture[str]) -> None:
    site = Site({"/v1/models": MODELS, "/health": b"", "/metrics": b"vllm:x 1\n"})
    with serving(site) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 0
    assert checks["engine"]["found"] == "vLLM, version not told"
    assert checks["keep-alive"]["found"] == "closes the connection after its answer"
    assert {method for method, _ in site.asked} == {"GET"}
    assert len(site.asked) == len(set(site.asked)) + 1  # /health twice: left idle once


def test_a_probe_is_one_request(capsys: pytest.CaptureFixture[str]) -> None:
    site = Site({"/v1/models": MODELS, "/v1/chat/completions": CHAT})
    with serving(site) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}", "--probe")
    assert code == 0
    assert "3 prompt and 1 output tokens" in checks["generation"]["found"]
    posts = [path for method, path in site.asked if method == "POST"]
    assert posts == ["/v1/chat/completions"]


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, checks = doctor(capsys, "--url", f"http://127.0.0.1:{port}")
    assert code == 4
    assert list(checks) == ["reach"]
    assert "Connection refused" in checks["reach"]["found"]


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def junk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x16\x03\x01\x00220 mail.example ready\x1b[2J\r\n\r\n")
    await writer.drain()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("handler", "words"),
    [(hang, "no answer within 0.5 s"), (junk, "no HTTP answer")],
)
def test_no_answer_that_is_one(
    capsys: pytest.CaptureFixture[str], handler: Any, words: str
) -> None:
    with serving(handler) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 4
    assert list(checks) == ["reach"]
    assert words in checks["reach"]["found"]
    assert "\x1b" not in checks["reach"]["found"]


def test_a_login_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = b"<!DOCTYPE html><html>Please log in</html>"
    site = Site({"/v1/models": page, "/metrics": page})
    with serving(site) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 1
    assert checks["api"]["status"] == "fail"
    assert "HTML" in checks["api"]["found"]
    assert "HTML" in checks["metrics"]["found"]


def test_a_certificate_that_nobody_signed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    certificate = make_certificate(tmp_path)
    site = Site({"/v1/models": MODELS})
    with serving(site, certificate.server_context()) as place:
        url = f"https://{place}"
        code, checks = doctor(capsys, "--url", url)
        assert code == 4
        assert "certificate not trusted" in checks["reach"]["found"]
        code, checks = doctor(capsys, "--url", url, "--ca-file", str(certificate.path))
        assert code == 0
        assert "certificate verified" in checks["reach"]["found"]
        assert checks["keep-alive"]["status"] == "warn"
        code, checks = doctor(capsys, "--url", url, "--insecure")
        assert code == 0
        assert "NOT verified" in checks["reach"]["found"]


@pytest.mark.usefixtures("impatient")
def test_https_asked_of_a_plain_server(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Site({"/v1/models": MODELS})) as place:
        code, checks = doctor(capsys, "--url", f"https://{place}")
    assert code == 4
    assert checks["reach"]["status"] == "fail"


def test_a_key_is_asked_for_and_sent_nowhere_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCTOR_KEY", "sk-secret")
    site = Site({"/v1/models": MODELS}, key="Bearer sk-secret")
    other = Site({"/metrics": b"vllm:num_requests_running 0\n"})
    with serving(site) as place, serving(other) as elsewhere:
        url = f"http://{place}"
        code, checks = doctor(capsys, "--url", url)
        assert code == 1
        assert checks["access"]["found"].startswith("not let in (401")
        metrics = f"http://{elsewhere}/metrics"
        flags = ["--api-key-env", "DOCTOR_KEY", "--metrics-url", metrics]
        code, checks = doctor(capsys, "--url", url, *flags)
    assert code == 0
    assert checks["access"]["status"] == "ok"
    assert checks["metrics"]["found"] == "1 series of vLLM"
    assert other.asked == [("GET", "/metrics")]
    assert "secret" not in "".join(other.heads)


def test_a_redirect_is_not_followed(capsys: pytest.CaptureFixture[str]) -> None:
    other = Site({"/v1/models": MODELS})
    with serving(other) as elsewhere:

        async def moved(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(b"", 307, Location=f"http://{elsewhere}/v1/models"))
            await writer.drain()

        with serving(moved) as place:
            code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 1
    assert "sent elsewhere (307" in checks["access"]["found"]
    assert other.asked == []


def test_answers_without_end_are_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "MAX_BYTES", 20_000)
    monkeypatch.setattr(ask, "MAX_METRICS_BYTES", 20_000)
    endless = b"vllm:num_requests_running 1\n" * 100

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(endless)
            await writer.drain()

    with serving(flood) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 1
    assert "no JSON" in checks["api"]["found"]
    assert checks["metrics"]["status"] == "warn"  # its last line is torn


@pytest.mark.usefixtures("impatient")
def test_a_server_that_falls_silent_does_not_hold_us(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen.append(1)
        if len(seen) == 1:
            writer.write(answer(MODELS))
        await reader.read()

    with serving(once) as place:
        code, checks = doctor(capsys, "--url", f"http://{place}")
    assert code == 0
    assert checks["metrics"]["found"] == "no answer within 0.5 s"
    assert checks["keep-alive"]["status"] == "unknown"
    assert len(seen) < 15  # the rest was not even asked


def test_an_idle_connection_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(MODELS).replace(b"Connection: close\r\n", b""))

    with serving(kept) as place:
        _, checks = doctor(capsys, "--url", f"http://{place}")
    assert "still open" in checks["keep-alive"]["found"]


def test_a_hostile_name_is_shown_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;owned\x07\u202e" + "m" * 5000
    models = {"data": [{"id": hostile, "owned_by": hostile, "max_model_len": hostile}]}
    site = Site({"/v1/models": models, "/version": {"version": hostile}})
    with serving(site) as place:
        code = main(["doctor", "--url", f"http://{place}"])
    shown = capsys.readouterr().out
    assert code == 0
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert max(map(len, shown.splitlines())) <= 80
