"""Envoy's own word on a request: access log lines in any format, and counters."""

from __future__ import annotations

import json

import pytest

from loadgen.analysis.evidence import GatewayLine
from loadgen.analysis.evidence_gateway import (
    GatewayCounts,
    parse_access_log,
    parse_gateway_counters,
)

WANTED = frozenset({"lg-1-7", "lg-1-8"})
DEFAULT = (
    '[2026-11-30T21:08:23.123Z] "POST /v1/chat/completions HTTP/1.1" 503 UO 0 81 0 - '
    '"-" "python" "lg-1-7" "127.0.0.1:28100" "-"'
)
CUSTOM = (
    "2026-11-30T21:08:23.123Z to lg-1-7 504 UT response_timeout up=127.0.0.1:18000 "
    "dur=1000"
)
PLAIN_STATS = """
cluster.engine.upstream_cx_connect_fail: 4
cluster.engine.upstream_rq_active_overflow: 2
cluster.engine.upstream_rq_pending_overflow: 30
cluster.engine.upstream_rq_5xx: 3
cluster.engine.upstream_rq_timeout: 1
cluster.engine.upstream_rq_time: P0(1,1.0) P50(2,2.1)
http.admin.downstream_rq_5xx: 9
http.ingress.downstream_rq_5xx: 33
http_local_rate_limiter.http_local_rate_limit.rate_limited: 35
"""
PROMETHEUS = """
# TYPE envoy_cluster_upstream_rq_pending_overflow counter
envoy_cluster_upstream_rq_pending_overflow{envoy_cluster_name="engine"} 30
envoy_cluster_upstream_rq_active_overflow{envoy_cluster_name="engine"} 2
envoy_cluster_upstream_cx_connect_fail{envoy_cluster_name="engine"} 4
envoy_cluster_upstream_rq_timeout{envoy_cluster_name="engine"} 1
envoy_cluster_upstream_rq_xx{envoy_response_code_class="5",envoy_cluster_name="e"} 3
envoy_cluster_upstream_rq_xx{envoy_response_code_class="2",envoy_cluster_name="e"} 8
envoy_http_downstream_rq_xx{envoy_response_code_class="5",\
envoy_http_conn_manager_prefix="ingress"} 33
envoy_http_downstream_rq_xx{envoy_response_code_class="5",\
envoy_http_conn_manager_prefix="admin"} 9
envoy_http_local_rate_limit_rate_limited{envoy_local_http_ratelimit_prefix="x"} 35
"""


def one(line: str) -> GatewayLine:
    (found,) = parse_access_log([line], WANTED)
    return found


def test_default_format() -> None:
    assert one(DEFAULT) == GatewayLine(
        request_id="lg-1-7", status=503, flags=("UO",), details=None
    )


def test_a_format_of_ones_own() -> None:
    assert one(CUSTOM) == GatewayLine(
        request_id="lg-1-7",
        status=504,
        flags=("UT",),
        details="response_timeout",
        upstream="127.0.0.1:18000",
    )


def test_json_format() -> None:
    line = {
        "req": "lg-1-8",
        "response_code": 503,
        "response_flags": "URX,UF",
        "response_code_details": "upstream_reset",
        "upstream_host": None,
    }
    assert one(json.dumps(line)) == GatewayLine(
        request_id="lg-1-8",
        status=503,
        flags=("URX", "UF"),
        details="upstream_reset",
    )


def test_no_flag() -> None:
    assert one("t cb lg-1-7 200 - via_upstream up=1.2.3.4:80").flags == ()


def test_status_0_when_the_client_left_first() -> None:
    found = one("t cb lg-1-7 0 DC downstream_remote_disconnect up=1.2.3.4:80")
    assert (found.status, found.flags) == (None, ("DC",))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "lg-1-7",
        "{",
        '{"a": "lg-1-9", "status": 503}',
        '["lg-1-7"]',
        "lg-1-70 503 UO",
        "[" * 100_000,
        "{" * 100_000,
        "\x00\xff lg-1-7 abc UO",
        "{" + '"a":{' * 20_000 + "}" * 20_001,
    ],
)
def test_lines_that_say_nothing_are_passed_over(line: str) -> None:
    assert list(parse_access_log([line], WANTED)) == []


@pytest.mark.parametrize("text", [PLAIN_STATS, PROMETHEUS])
def test_counters(text: str) -> None:
    counts = parse_gateway_counters(text)
    assert counts == GatewayCounts(
        overflow=32,
        rate_limited=35,
        timeouts=1,
        connect_failures=4,
        no_healthy=None,
        sent_5xx=33,
        got_5xx=3,
    )
    assert counts.own_5xx == 30


def test_what_envoy_made_itself_in_a_run() -> None:
    before = GatewayCounts(overflow=2, sent_5xx=5, got_5xx=5)
    after = GatewayCounts(overflow=12, sent_5xx=25, got_5xx=15, timeouts=1)
    run = after - before
    assert (run.overflow, run.own_5xx) == (10, 10)
    assert run.timeouts is None  # not there before: no delta, and not 0


def test_a_counter_that_went_back_has_no_delta() -> None:
    assert (GatewayCounts(overflow=1) - GatewayCounts(overflow=2)).overflow is None
