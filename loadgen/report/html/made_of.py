"""What was run, so that a stranger can repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loadgen.report.escape import safe
from loadgen.report.facts import Facts, Lengths, Made
from loadgen.report.headline import offered, slo_words
from loadgen.report.html import blocks
from loadgen.report.numbers import count, percent, rate, seconds
from loadgen.report.words import plural, source_words

__all__ = ["what_was_run"]

NOT_TOLD = "not told"
VALUE_CELLS = 400
_LIMITS = ("connect_timeout", "idle_timeout", "timeout", "drain")
_SHOWN_TARGET = frozenset(
    {"url", "models", "version", "server_header", "max_model_len", "notes"}
)


def what_was_run(facts: Facts, made: Made) -> Iterator[blocks.Facts]:
    """The server, the load and the client, each as far as it is known."""
    yield blocks.Facts("Server", tuple(_server(facts, made)))
    yield blocks.Facts("Load", tuple(_load(facts, made)))
    yield blocks.Facts("Client", tuple(_client(facts, made)))


def _said(value: object) -> str:
    """Any value of a manifest in one line."""
    if value is None or value in ([], {}, ""):
        return NOT_TOLD
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return safe(", ".join(f"{k} {_said(v)}" for k, v in value.items()), VALUE_CELLS)
    if isinstance(value, list | tuple):
        return safe(", ".join(map(_said, value)), VALUE_CELLS)
    return safe(str(value), VALUE_CELLS)


def _server(facts: Facts, made: Made) -> Iterator[tuple[str, str]]:
    target = made.target
    yield "address", _said(target.get("url"))
    yield "model asked for", _said(made.config.get("model"))
    yield "models it lists", _said(target.get("models"))
    yield "version", _said(target.get("version"))
    yield "Server header", _said(target.get("server_header"))
    yield "longest context", _tokens(target.get("max_model_len"))
    if target.get("notes"):
        yield "notes", _said(target.get("notes"))
    for key, value in target.items():
        if key not in _SHOWN_TARGET:
            yield safe(key.replace("_", " "), 40), _said(value)
    yield "basis of the numbers", safe(facts.basis)


def _tokens(value: object) -> str:
    return plural(value, "token") if isinstance(value, int) else NOT_TOLD


def _load(facts: Facts, made: Made) -> Iterator[tuple[str, str]]:
    config = made.config
    yield "workload", _said(config.get("workload"))
    yield "seed", _said(config.get("seed"))
    yield "arrivals", _arrivals(config.get("arrivals"))
    yield (
        "offered",
        f"{plural(offered(facts), 'request')} in {seconds(facts.offered.duration_s)}, "
        f"{rate(facts.offered.rate_rps)}; open loop, each once",
    )
    asked = facts.offered.asked
    if asked:
        words = f"{rate(asked.get('rate_rps'))} for {seconds(asked.get('duration_s'))}"
        yield "asked for", words
    for name, group in facts.groups.items():
        words = f"{plural(group.offered, 'request')}{_lengths(group.prompt_tokens)}"
        yield f"group {safe(name, 24)}", words
    yield "answers", _answers(facts)
    yield "target (SLO)", slo_words(facts.goodput.slo) or "none"
    yield "warm-up", _warmup(facts)
    yield "schedule digest", safe(facts.offered.schedule_digest, 80) or NOT_TOLD


def _arrivals(value: object) -> str:
    if not isinstance(value, Mapping):
        return _said(value)
    words = [_said(value.get("process"))]
    words += [
        f"{key.replace('_', ' ')} {_said(number)}"
        for key, number in value.items()
        if key not in ("process", "rate_rps", "duration_ns")
    ]
    return safe(", ".join(words), VALUE_CELLS)


def _lengths(lengths: Lengths) -> str:
    parts = []
    for source, tokens in lengths.by_source.items():
        middle, longest = tokens.per_request.p50, tokens.per_request.max
        if tokens.min is None or longest is None:
            continue
        half = "" if middle is None else f", half of them above {middle:,.0f}"
        parts.append(
            f"prompts of {tokens.min:,} to {longest:,.0f} tokens{half}, "
            f"by {safe(source_words(source), 30)}"
        )
    return f"; {'; '.join(parts)}" if parts else ""


def _answers(facts: Facts) -> str:
    parts = []
    for source, tokens in facts.output_tokens.by_source.items():
        each = tokens.per_request
        if each.p50 is not None and each.max is not None and tokens.min is not None:
            parts.append(
                f"{tokens.total:,} tokens in all, {tokens.min:,} to {each.max:,.0f} "
                f"each, p50 {each.p50:,.0f}, by {safe(source_words(source), 30)}"
            )
    return "; ".join(parts) or "no length known"


def _warmup(facts: Facts) -> str:
    number = facts.warmup.requests
    return f"{plural(number, 'request')}, not counted" if number else "none"


def _client(facts: Facts, made: Made) -> Iterator[tuple[str, str]]:
    config, client = made.config, facts.client
    yield "started", safe(facts.run.started_utc or made.started_utc, 40) or NOT_TOLD
    yield "loadgen", _said(facts.run.loadgen_version or made.loadgen_version)
    yield "Python", _said(made.python_version)
    yield "machine", _said(made.host)
    yield "interface", f"{_said(config.get('api'))}, {_said(config.get('path'))}"
    yield "streamed", _said(config.get("stream"))
    yield "retries", count(client.retries)
    fresh = config.get("fresh_connections")
    yield "connections", _connections(fresh, facts)
    limits = [
        f"{k.replace('_', ' ')} {_said(config[k])}" for k in _LIMITS if k in config
    ]
    yield "limits", ", ".join(limits) or NOT_TOLD
    yield "receive clock", _said(client.receive_clock)
    if client.coalesced_share is not None:
        yield "inexact token times", percent(client.coalesced_share)
    yield "processes", count(client.processes)


def _connections(fresh: Any, facts: Facts) -> str:
    words = "a new one for every request" if fresh else "kept alive and reused"
    opened = facts.client.connections.get("opened")
    peak = facts.client.connections.get("peak_in_flight")
    if opened is None or peak is None:
        return words
    return f"{words}; {opened:,} opened, at most {peak:,} requests in flight"
