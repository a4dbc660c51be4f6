"""What a metrics page has, lacks, or calls by an old name."""

from __future__ import annotations

import pytest

from loadgen.doctor.check import Status
from loadgen.doctor.server.reply import Reply
from tests.unit.doctor_replies import VLLM, VLLM_PAGE, look, reply


def test_a_page_that_has_all_it_should() -> None:
    checks = look(*VLLM, page=reply("/metrics", VLLM_PAGE))
    assert checks["metrics"].found == "8 series of vLLM"
    assert checks["series"].status is Status.OK
    assert "vllm:gpu_cache_usage_perc" in checks["series"].meaning


def test_a_page_that_lacks_some() -> None:
    page = reply("/metrics", VLLM_PAGE.replace(b"vllm:num_requests_waiting 0\n", b""))
    check = look(*VLLM, page=page)["series"]
    assert check.status is Status.WARN
    assert check.found == "MISSING vllm:num_requests_waiting"


def test_a_page_with_an_old_name() -> None:
    page = reply("/metrics", VLLM_PAGE.replace(b":kv_cache", b":gpu_cache"))
    check = look(*VLLM, page=page)["series"]
    assert check.status is Status.WARN
    assert "vllm:kv_cache_usage_perc is vllm:gpu_cache_usage_perc" in check.found


def test_what_a_version_has_not_yet_is_not_missing() -> None:
    old = reply("/version", {"version": "0.8.5"}, server="uvicorn")
    page = VLLM_PAGE.replace(b"vllm:admission_rejections_total 0\n", b"")
    replies = (VLLM[0], old, *VLLM[2:])
    assert look(*replies, page=reply("/metrics", page))["series"].status is Status.OK
    assert look(*VLLM, page=reply("/metrics", page))["series"].status is Status.WARN


def test_a_series_that_is_said_to_be_read() -> None:
    asked = ("vllm:gpu_cache_usage_perc", "vllm:num_requests_running")
    checks = look(*VLLM, page=reply("/metrics", VLLM_PAGE), series=asked)
    lost = checks["series.vllm:gpu_cache_usage_perc"]
    assert (lost.status, lost.found) == (Status.FAIL, "MISSING")
    assert lost.do == "read vllm:kv_cache_usage_perc"
    assert checks["series.vllm:num_requests_running"].status is Status.OK
    blind = look(*VLLM, page=reply("/metrics", b"", 404), series=asked)
    assert blind["series.vllm:num_requests_running"].status is Status.FAIL


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (reply("/metrics", b"", 404), "nothing there (404)"),
        (reply("/metrics", b"", 501), "metrics disabled (501)"),
        (reply("/metrics", b"", 401), "not let in (401)"),
        (reply("/metrics", b"", 302), "a redirect (302)"),
        (reply("/metrics", b"<html>hi</html>"), "an HTML page"),
        (reply("/metrics", b"vllm:a 1\n\0\n"), "binary"),
        (reply("/metrics", b"hello there you"), "not metrics"),
        (reply("/metrics", b""), "an empty page"),
        (Reply(path="/metrics", trouble="timeout", words="no answer"), "no answer"),
        (None, "not asked"),
    ],
)
def test_no_metrics_is_a_warning_that_says_why(page: Reply | None, found: str) -> None:
    check = look(*VLLM, page=page)["metrics"]
    assert check.status is Status.WARN
    assert found in check.found


def test_how_metrics_are_turned_on() -> None:
    llama = reply("/props", {"total_slots": 4})
    assert "--metrics" in (
        look(llama, page=reply("/metrics", b"", 501))["metrics"].do or ""
    )
