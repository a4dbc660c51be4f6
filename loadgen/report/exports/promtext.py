"""The Prometheus text format, for node_exporter's textfile collector.

A value that is not known has no line: in this format absence is the only null.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import BinaryIO, NamedTuple

from loadgen.analysis.latency import Latency
from loadgen.analysis.stats import Spread
from loadgen.analysis.summary import Group, Summary
from loadgen.report.escape import safe
from loadgen.report.exports.run import Exported

__all__ = ["write_promtext"]

ALL = ""
"""The label ``group`` of what holds for all groups together."""
_LEVELS = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99"}
_LATENCIES = {
    "ttft_s": "loadgen_ttft_seconds",
    "ttft_from_sent_s": "loadgen_ttft_from_sent_seconds",
    "itl_s": "loadgen_itl_seconds",
    "tpot_s": "loadgen_tpot_seconds",
    "e2e_s": "loadgen_e2e_seconds",
    "time_to_reject_s": "loadgen_time_to_reject_seconds",
}
_HELP = {
    "loadgen_run_info": "Which run this is; always 1.",
    "loadgen_run_start_timestamp_seconds": "When the run began.",
    "loadgen_run_valid": "1 where the numbers may be believed, 0 where not.",
    "loadgen_offered_requests": "Requests in the schedule.",
    "loadgen_offered_rate_rps": "Requests offered per second of schedule.",
    "loadgen_outcome_requests": "Requests by how they ended.",
    "loadgen_lost_requests": "Requests lost, by layer and what ran out.",
    "loadgen_good_requests": "Requests answered in full within every target.",
    "loadgen_goodput_ratio": "Good requests over all offered.",
    "loadgen_goodput_rate_rps": "Good requests per second of schedule.",
    "loadgen_slo_seconds": "The longest time that counts as good.",
    "loadgen_ttft_seconds": "First token - scheduled.",
    "loadgen_ttft_from_sent_seconds": "First token - sent.",
    "loadgen_itl_seconds": "Gap between two token events.",
    "loadgen_tpot_seconds": "Mean time per output token of a request.",
    "loadgen_e2e_seconds": "End - scheduled, of ok requests.",
    "loadgen_time_to_reject_seconds": "End - scheduled, of refused requests.",
    "loadgen_send_lag_seconds": "Sent - scheduled: our own lateness.",
    "loadgen_output_tokens_per_second": "Output tokens per second of wall time.",
}


class _Line(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float | None


def write_promtext(run: Exported, out: BinaryIO) -> None:
    """Every series with its help and type, lines of one series together.

    Of two names that are cut to the same label the first one stands: a reader would
    refuse the whole file otherwise.
    """
    by_name: dict[str, dict[str, float]] = {}
    for line in _lines(run):
        if line.value is not None:
            series = by_name.setdefault(line.name, {})
            series.setdefault(_labels(line.labels), line.value)
    for name, series in by_name.items():
        out.write(f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n".encode())
        for labels, value in series.items():
            out.write(f"{name}{labels} {value!r}\n".encode())


def _lines(run: Exported) -> Iterator[_Line]:
    summary = run.summary
    yield _Line(
        "loadgen_run_info",
        {
            "basis": summary.basis,
            "verdict": summary.verdict.status,
            "schedule_digest": summary.offered.schedule_digest,
            "loadgen_version": summary.run.loadgen_version,
            "model": run.terms.model or "",
        },
        1,
    )
    started = _timestamp(summary.run.started_utc)
    yield _Line("loadgen_run_start_timestamp_seconds", {}, started)
    yield _Line("loadgen_run_valid", {}, int(summary.verdict.status == "valid"))
    yield _Line("loadgen_offered_rate_rps", {}, summary.offered.rate_rps)
    for name, limit_s in summary.goodput.slo.items():
        yield _Line("loadgen_slo_seconds", {"limit": name.removesuffix("_s")}, limit_s)
    for row in summary.rejections:
        labels = {
            "layer": row.layer.value,
            "limiting_resource": row.limiting_resource.value,
            "accepted": row.accepted.value,
            "confidence": row.confidence.value,
        }
        yield _Line("loadgen_lost_requests", labels, row.count)
    yield from _parts(run)
    yield from _quantiles("loadgen_send_lag_seconds", {}, summary.client.send_lag_s)
    for source, speed in summary.throughput.output_tokens_per_s_over_wall.items():
        labels = {"counted_by": source}
        yield _Line("loadgen_output_tokens_per_second", labels, speed)


def _parts(run: Exported) -> Iterator[_Line]:
    """What is told of all requests, and of each group."""
    summary = run.summary
    offered = {ALL: summary.offered.requests}
    offered |= {name: group.offered for name, group in summary.groups.items()}
    parts: dict[str, Summary | Group] = {ALL: summary, **summary.groups}
    for name, part in parts.items():
        labels = {"group": name}
        yield _Line("loadgen_offered_requests", labels, offered[name])
        for outcome, count in part.outcomes.items():
            yield _Line(
                "loadgen_outcome_requests", {**labels, "outcome": outcome}, count
            )
        yield _Line("loadgen_good_requests", labels, part.goodput.good)
        yield _Line("loadgen_goodput_ratio", labels, part.goodput.ratio)
        yield _Line("loadgen_goodput_rate_rps", labels, part.goodput.rate_rps)
        yield from _latencies(labels, part.latency)


def _latencies(labels: dict[str, str], latency: Latency) -> Iterator[_Line]:
    for field, name in _LATENCIES.items():
        yield from _quantiles(name, labels, getattr(latency, field))


def _quantiles(name: str, labels: dict[str, str], spread: Spread) -> Iterator[_Line]:
    for field, level in _LEVELS.items():
        yield _Line(name, {**labels, "quantile": level}, getattr(spread, field))


def _timestamp(utc: str) -> float | None:
    try:
        return datetime.fromisoformat(utc).timestamp()
    except ValueError:
        return None


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_value(labels[key])}"' for key in labels) + "}"


def _value(text: str) -> str:
    r"""Visible text with ``\`` and ``"`` escaped; it has no line ends any more."""
    return safe(text, 120).replace("\\", "\\\\").replace('"', '\\"')
