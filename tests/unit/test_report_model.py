"""A report comes from a judgement, fresh or stored, whole or from another version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadgen.analysis.summary import encode
from loadgen.errors import RunDirError
from loadgen.model import Basis, Outcome
from loadgen.report.facts import read_summary
from loadgen.report.model import build
from loadgen.report.screen import Screen
from loadgen.report.terminal import report_text
from tests.runs import answered, judged, refused

LEAST: dict[str, Any] = {"basis": "measured", "outcomes": {"ok": 2, "http_reject": 1}}


def test_a_fresh_judgement_and_its_stored_json_read_the_same() -> None:
    summary = judged(
        [
            answered(0, events_ms=[100, 110, 120], end_ms=125),
            refused(1, due_ms=600),
            refused(2, due_ms=900, status=200, outcome=Outcome.IN_STREAM_REJECT),
        ],
        offered=3,
    )
    stored = json.loads(encode(summary))
    assert read_summary(summary) == read_summary(stored)
    assert build(summary) == build(stored)
    report = build(summary)
    assert report.headline.startswith("3 requests offered in ")
    assert "2 refused by the engine's admission" in report.headline


def test_the_least_an_older_run_can_hold() -> None:
    report = build(LEAST)
    assert report.title == "run"
    assert report.valid is None
    assert report.verdict == "NOT JUDGED"
    assert report.reconciliation == report.findings == ()
    assert not report.files
    assert report.folder is None
    shown = report_text(report, Screen())
    assert "Verdict: NOT JUDGED" in shown
    assert "Files in" not in shown


def test_null_is_absent_and_unknown_keys_are_passed_over() -> None:
    nulls = {name: None for name in ("verdict", "goodput", "client", "reconciliation")}
    latency = {"ttft_s": {}, "itl_s": None, "from_the_future": {"n": 1}}
    assert build({**LEAST, **nulls, "latency": latency, "new": 1}) == build(LEAST)


@pytest.mark.parametrize("wrong", [{}, {"basis": "measured"}, {**LEAST, "groups": 3}])
def test_what_is_no_summary_is_said(wrong: dict[str, Any]) -> None:
    with pytest.raises(RunDirError, match=r"summary\.json cannot be read"):
        build(wrong)


def test_what_is_no_manifest_is_said() -> None:
    with pytest.raises(RunDirError, match=r"manifest\.json cannot be read"):
        build(LEAST, {"command": "loadgen"})


def test_reconciliation_in_lines() -> None:
    told = {
        "engine": {"success": 8, "admission_rejections": 160, "aborted": None},
        "difference": 128,
        "status": "explained",
        "finding": "the engine refused 160 but the client saw 32",
        "findings": ["aborts are not counted by this engine"],
    }
    assert build({**LEAST, "reconciliation": told}).reconciliation == (
        "explained: the engine refused 160 but the client saw 32",
        "it counted success 8, admission rejections 160; difference to our count +128",
        "aborts are not counted by this engine",
    )


def test_findings_say_how_many_and_what() -> None:
    findings = [
        {"code": "model_fallback", "count": 2, "text": "by other", "first_seq": 0},
        {"code": "silence", "count": 3, "text": "all streams fell silent"},
        {"code": "flaw", "text": "requests-0.jsonl: the last line is torn"},
        *({"code": f"c{n}", "text": f"t{n}"} for n in range(9)),
    ]
    found = build({**LEAST, "findings": findings}).findings
    assert found[:3] == (
        "2 requests (67%), model_fallback: by other",
        "3 times: all streams fell silent",
        "requests-0.jsonl: the last line is torn",
    )
    assert found[-1] == "4 more in summary.json"


def test_the_basis_marks_every_line_that_matters() -> None:
    report = build({**LEAST, "basis": Basis.SIMULATED})
    assert report.headline.startswith("Simulated, no server was asked.")
    lines = report_text(report, Screen()).splitlines()
    assert sum("[simulated]" in line for line in lines) == len(report.tables) + 2


def test_reasons_come_with_their_remedy() -> None:
    reason = {"code": "send_lag", "text": "too late", "remedy": "use another machine"}
    verdict = {"status": "invalid", "reasons": [reason], "warnings": [reason]}
    shown = report_text(build({**LEAST, "verdict": verdict}), Screen())
    assert (
        "Verdict: INVALID, do not use these numbers\n"
        "  because too late\n"
        "    to do: use another machine\n"
        "  warning: too late\n"
        "    to do: use another machine\n"
    ) in shown
