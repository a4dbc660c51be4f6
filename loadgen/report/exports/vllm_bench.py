"""The keys of ``vllm bench serve --save-result``, for dashboards that read them.

Its keys keep its definitions: TTFT and E2EL count from the send, the client's queue
is told apart, the duration includes the drain, and tokens count of answered requests
alone. What the report says, from the scheduled instant and over all offered
requests, is under ``loadgen``. A value that is not known is null, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.latency import gaps_of
from loadgen.analysis.lengths import Lengths
from loadgen.model import Outcome
from loadgen.report.exports.run import Exported
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["write_vllm_bench"]

_LEVELS = (50, 90, 95, 99)
_DIGITS = 6
_BACKENDS = {"openai-chat": "openai-chat", "openai-completions": "openai"}

Numbers = NDArray[np.float64] | NDArray[np.int64]


def write_vllm_bench(run: Exported, out: BinaryIO) -> None:
    """One JSON object, as one run of the benchmark writes it."""
    found = {**_setting(run), **_totals(run), **_lists(run), **dict(_times(run))}
    found["loadgen"] = run.summary
    out.write(msgspec.json.encode(found) + b"\n")


def _setting(run: Exported) -> dict[str, Any]:
    summary, config = run.summary, run.manifest.config
    backend = _BACKENDS.get(str(config.get("api")), config.get("api"))
    arrivals = config.get("arrivals")
    return {
        "date": _date(summary.run.started_utc),
        "endpoint_type": backend,
        "backend": backend,
        "label": summary.run.name,
        "model_id": run.terms.model,
        "tokenizer_id": run.terms.model,
        "num_prompts": summary.offered.requests,
        "request_rate": summary.offered.rate_rps,
        "burstiness": arrivals.get("burstiness")
        if isinstance(arrivals, dict)
        else None,
        "max_concurrency": None,
        "ramp_up_strategy": None,
        "ramp_up_start_rps": None,
        "ramp_up_end_rps": None,
    }


def _date(utc: str) -> str | None:
    try:
        return datetime.fromisoformat(utc).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return None


def _totals(run: Exported) -> dict[str, Any]:
    summary = run.summary
    wall_s = summary.throughput.wall_s
    ok = summary.outcomes[Outcome.OK]
    read = _answered_prompt_tokens(run)
    written = _one_count(summary.output_tokens)
    both = None if read is None or written is None else read + written

    def per_second(amount: float | None) -> float | None:
        return None if amount is None or not wall_s else amount / wall_s

    return {
        "duration": wall_s,
        "completed": ok,
        "failed": summary.offered.requests - ok,
        "total_input_tokens": read,
        "total_output_tokens": written,
        "request_throughput": summary.throughput.ok_rps_over_wall,
        "request_goodput": per_second(summary.goodput.good),
        "output_throughput": per_second(written),
        "total_token_throughput": per_second(both),
        "max_output_tokens_per_s": _most_tokens_in_a_second(run),
        "max_concurrent_requests": summary.client.connections.get("peak_in_flight"),
        "rtfx": None,
    }


def _answered_prompt_tokens(run: Exported) -> int | None:
    """Of ok requests; None where one has no count or two counted."""
    data = run.data
    counts = data.prompt_tokens[data.ok]
    if not np.isfinite(counts).all() or len(_sources(run)) > 1:
        return None
    return int(counts.sum())


def _sources(run: Exported) -> dict[str, int]:
    return run.data.prompt_tokens_source.counts(run.data.ok)


def _one_count(lengths: Lengths) -> int | None:
    """A total that one source counted, of all answers; counts are never mixed."""
    if lengths.n_missing or len(lengths.by_source) > 1:
        return None
    return sum(tokens.total for tokens in lengths.by_source.values())


def _most_tokens_in_a_second(run: Exported) -> int | None:
    """None where an event holds several tokens: their instants are not known then."""
    if run.summary.tokens_per_event != 1:
        return None
    rows = np.repeat(run.data.ok, run.data.token_count)
    seconds = run.data.token_ns[rows] // NS_PER_S
    return int(np.bincount(seconds - seconds.min()).max()) if seconds.size else None


def _lists(run: Exported) -> dict[str, list[float]]:
    """Of each answered request in seconds: from its send to its end, and late by."""
    ok, times = run.data.ok & np.isfinite(run.times.e2e), run.times
    queue = times.send_lag[ok] / NS_PER_S
    whole = times.e2e[ok] / NS_PER_S
    return {"latencies": (whole - queue).tolist(), "queue_times": queue.tolist()}


def _times(run: Exported) -> Iterator[tuple[str, float | None]]:
    """Mean, median, standard deviation and percentiles, in milliseconds."""
    times, gaps, ok = run.times, gaps_of(run.data), run.data.ok
    exact = gaps.exact & ok[gaps.row]
    yield from _spread("ttft", times.ttft_from_sent[ok])
    yield from _spread("tpot", times.tpot[ok])
    yield from _spread("itl", gaps.ns[exact])
    yield from _spread("e2el", (times.e2e - times.send_lag)[ok])
    yield from _spread("client_queue_time", times.send_lag[ok])
    yield from _spread("e2el_including_client_queue", times.e2e[ok])


def _spread(name: str, values_ns: Numbers) -> Iterator[tuple[str, float | None]]:
    present = values_ns[np.isfinite(values_ns)]
    some = present.size > 0
    yield f"mean_{name}_ms", _ms(float(present.mean())) if some else None
    yield f"median_{name}_ms", _ms(float(np.median(present))) if some else None
    yield f"std_{name}_ms", _ms(float(present.std())) if some else None
    for level in _LEVELS:
        value = float(np.percentile(present, level)) if some else None
        yield f"p{level}_{name}_ms", None if value is None else _ms(value)


def _ms(value_ns: float) -> float | None:
    return round(value_ns / NS_PER_MS, _DIGITS) if math.isfinite(value_ns) else None
