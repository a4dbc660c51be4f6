"""Summaries and manifests as a hostile server, file or user would have them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from hypothesis import strategies as st

from loadgen.model import Layer, Outcome, Resource

nasty = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;owned\x07",
            "[bold red]x[/] :boom: \\[",
            "a\nVerdict: VALID\r\n",
            "\u202egnp\u2066",
            "e" + "\u0301" * 50,
            "漢" * 90,
            "\ud800\x00\x9b",
            "x" * 5000,
            "</title></style></svg><script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "",
        ]
    ),
)
sizes = st.integers(min_value=0, max_value=10**9)
seconds = st.none() | st.floats(min_value=0, max_value=1e6)


def named(
    known: type[StrEnum], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    names = st.sampled_from(list(known)).map(str) | nasty
    return st.dictionaries(names, values, max_size=5)


spreads = st.fixed_dictionaries(
    {"n": sizes, "n_missing": sizes, "p50": seconds, "p95": seconds, "p99": seconds}
)
latencies = st.dictionaries(
    st.sampled_from(["ttft_s", "itl_s", "tpot_s", "e2e_s", "time_to_reject_s"]), spreads
)
goodputs = st.fixed_dictionaries(
    {
        "slo": st.dictionaries(
            st.sampled_from(["ttft_s", "tpot_s", "e2e_s"]), st.floats(1e-6, 1e3)
        ),
        "good": sizes,
        "offered": sizes,
        "ci95": st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1)),
        "rate_rps": seconds,
        "scope": nasty,
    }
)
groups = st.fixed_dictionaries(
    {
        "offered": sizes,
        "outcomes": named(Outcome, sizes),
        "latency": latencies,
        "goodput": goodputs,
    }
)
rejections = st.fixed_dictionaries(
    {
        "layer": st.sampled_from(list(Layer)).map(str) | nasty,
        "limiting_resource": st.sampled_from(list(Resource)).map(str) | nasty,
        "unit": nasty,
        "count": sizes,
        "by_outcome": named(Outcome, sizes),
        "by_group": st.dictionaries(nasty, sizes, max_size=3),
        "statuses": st.dictionaries(nasty, sizes, max_size=3),
        "accepted": nasty,
        "evidence": st.lists(nasty, max_size=4),
        "confidence": nasty,
        "prompt_tokens": st.fixed_dictionaries(
            {
                "by_source": st.dictionaries(
                    nasty,
                    st.just({"min": 3, "per_request": {"n": 2, "max": 9.0}}),
                    max_size=2,
                )
            }
        ),
    }
)
reasons = st.lists(
    st.fixed_dictionaries({"code": nasty, "text": nasty, "remedy": nasty}), max_size=3
)
summaries = st.fixed_dictionaries(
    {
        "basis": nasty,
        "run": st.fixed_dictionaries({"name": nasty}),
        "verdict": st.fixed_dictionaries(
            {"status": nasty | st.none(), "reasons": reasons, "warnings": reasons}
        ),
        "offered": st.fixed_dictionaries(
            {"requests": sizes, "duration_s": st.floats(0, 1e6), "rate_rps": seconds}
        ),
        "outcomes": named(Outcome, sizes),
        "rejections": st.lists(rejections, max_size=3),
        "latency": latencies,
        "groups": st.dictionaries(nasty, groups, max_size=4),
        "goodput": goodputs,
        "fairness": st.none()
        | st.fixed_dictionaries(
            {"tenants": st.dictionaries(nasty, st.just({"offered": 3}), max_size=3)}
        ),
        "client": st.fixed_dictionaries(
            {"receive_clock": nasty, "stopped": nasty, "send_lag_s": spreads}
        ),
        "findings": st.lists(
            st.fixed_dictionaries({"text": nasty, "code": nasty, "first_seq": sizes}),
            max_size=3,
        ),
        "reconciliation": st.none()
        | st.dictionaries(
            st.sampled_from(["engine", "difference", "finding", "status", "findings"]),
            nasty | sizes | st.dictionaries(nasty, nasty | sizes, max_size=3),
        ),
    }
)
manifests = st.fixed_dictionaries(
    {
        "name": nasty,
        "command": st.lists(nasty, max_size=4),
        "target": st.fixed_dictionaries({"url": nasty | sizes}),
        "config": st.fixed_dictionaries({"metrics_url": st.none()}),
    }
)
