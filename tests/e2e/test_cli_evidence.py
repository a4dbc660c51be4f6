"""What is known beside the answers: the engine behind a gateway, and its logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadgen.cli.__main__ import main
from tests.recording_server import Answer, Recording, recording_server

OVERFLOW = (
    b"upstream connect error or disconnect/reset before headers. reset reason: overflow"
)


class RefusingGateway(Recording):
    """A gateway that lets nothing through, and logs so."""

    def post(self, headers: dict[str, str], body: bytes) -> Answer:
        super().post(headers, body)
        return 503, "text/plain", OVERFLOW


@contextmanager
def standin() -> Iterator[str]:
    """A fast stand-in in a process of its own; it ends with its standard input."""
    argv = [sys.executable, "-m", "loadgen.standin", "--parent-stdin", "--speed", "50"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.communicate(timeout=20)


def burst(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    fixed = "burst --rate 40/s --duration 100ms --arrivals constant --quiet --json"
    main([*fixed.split(), *arguments])
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def test_the_engine_behind_a_gateway_says_that_it_saw_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --engine-url the counters and token counts are the engine's own."""

    with standin() as engine_url, recording_server(RefusingGateway()) as gateway:
        summary = burst(
            capsys,
            *("--url", gateway.url, "--engine-url", engine_url),
            *("--out", str(tmp_path)),
        )
    assert summary["outcomes"] == {"ok": 0, "http_reject": 4}
    (cause,) = summary["rejections"]
    assert (cause["layer"], cause["accepted"]) == ("gateway", "no")
    assert summary["prompt_tokens"]["by_source"].keys() == {"tokenize"}
    assert summary["reconciliation"]["engine"]["success"] == 0
    assert "never reached the engine" in json.dumps(summary["reconciliation"])
    (folder,) = tmp_path.iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "answers GET /health with 200" in str(manifest["target"]["notes"])


def test_a_users_own_signature_is_heeded_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[signature]]\nid = "ours"\nsystem = "our edge"\nlayer = "router"\n'
        'resource = "concurrency"\nsource = "our runbook"\nstatus = [503]\n'
        'text = ["reset reason: overflow"]\n'
    )
    out = tmp_path / "runs"
    with recording_server(RefusingGateway()) as gateway:
        summary = burst(
            capsys,
            *("--url", gateway.url, "--signatures", str(own), "--out", str(out)),
        )
    (cause,) = summary["rejections"]
    assert cause["layer"] == "router"
    assert any("ours" in words for words in cause["evidence"])


def test_a_gateways_log_moves_the_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is read afterwards by `report`; ids join it with the records."""
    out = tmp_path / "runs"
    with recording_server(RefusingGateway()) as gateway:
        burst(capsys, "--url", gateway.url, "--out", str(out))
    (folder,) = out.iterdir()
    records = (folder / "requests.jsonl").read_text().splitlines()
    ids = [json.loads(line)["request_id"] for line in records]
    log = tmp_path / "access.log"
    log.write_text(
        "".join(
            json.dumps({"request_id": name, "status": 503, "flags": "RL"}) + "\n"
            for name in ids
        )
    )
    assert main(["report", str(folder), "--gateway-log", str(log), "--json"]) == 0
    (cause,) = json.loads(capsys.readouterr().out)["rejections"]
    assert cause["limiting_resource"] == "rate_limit_requests"


def test_an_engine_that_does_not_answer_is_noted_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recording_server(Recording()) as server:
        summary = burst(
            capsys,
            *("--url", server.url, "--engine-url", "http://127.0.0.1:1"),
            *("--out", str(tmp_path)),
        )
    assert summary["outcomes"] == {"ok": 4}
    (folder,) = tmp_path.iterdir()
    assert "does not answer" in (folder / "manifest.json").read_text()
