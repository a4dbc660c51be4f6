"""What a server's answers mean for a load test. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.caps import caps_check
from loadgen.doctor.server.clock import clock_check, difference
from loadgen.doctor.server.engine import EngineSeen, recognise
from loadgen.doctor.server.gateway import gateway_check
from loadgen.doctor.server.kept import keep_alive_check
from loadgen.doctor.server.reply import METRICS, Looked, Reply
from loadgen.doctor.server.series import read_metrics, series_checks
from loadgen.report.escape import safe
from loadgen.telemetry.vocabulary import Vocabulary
from loadgen.units import format_duration
from loadgen.wire.protocols import PROTOCOLS, Protocol

__all__ = ["Asked", "server_checks"]

QUOTED = 80
SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asked for.

    Attributes:
        protocol: the dialect that a run would speak.
        model: the one a run would name; None: the only one listed.
        series: names that somebody says are read.
        own_metrics: whether the metrics come from the server itself.
        verified: whether its certificate was verified; None: no TLS.
        probe: whether one generation was wanted.
    """

    protocol: Protocol
    model: str | None = None
    series: Sequence[str] = ()
    own_metrics: bool = True
    verified: bool | None = None
    probe: bool = False


def server_checks(looked: Looked, asked: Asked, vocabulary: Vocabulary) -> list[Check]:
    """Every check of a server; where it does not answer, that one alone."""
    reach = _reach(looked.first, asked)
    if looked.first.trouble:
        return [reach]
    metrics = read_metrics(looked.metrics, vocabulary)
    replies = dict(looked.replies)
    if asked.own_metrics and looked.metrics is not None:
        replies[METRICS] = looked.metrics
    engine = recognise(replies, metrics.engines, vocabulary)
    checks = [
        reach,
        _access(looked.first),
        _engine(engine),
        _ready(replies.get("/health"), looked.first),
        _models(looked.first, asked.model),
        _api(looked, asked, engine),
        caps_check(engine, replies),
        *series_checks(metrics, engine, vocabulary, asked.series),
        gateway_check(replies, engine, metrics.engines),
        keep_alive_check(replies, looked.idle),
        clock_check(difference(replies.values())),
    ]
    if asked.probe:
        checks.append(_generation(looked.generated, asked.protocol))
    return checks


def _check(
    thing: str,
    name: str,
    status: Status,
    found: str,
    meaning: str = "",
    do: str | None = None,
) -> Check:
    return Check(
        id=f"server.{thing}",
        name=name,
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )


def _quoted(text: str) -> str:
    return f"'{safe(text, QUOTED)}'"


_REMEDIES = {
    "connect": "is the server up, and is this its port?",
    "tls": "give --ca-file, or --insecure to go on without verification; is it https?",
    "timeout": "is it overloaded, or is something else listening there?",
    "protocol": "is this an HTTP server, or https?",
}


def _reach(first: Reply, asked: Asked) -> Check:
    if first.trouble:
        return _check(
            "reach",
            "answers",
            Status.FAIL,
            f"GET {first.path}: {safe(first.words)}",
            "nothing else was asked",
            _REMEDIES[first.trouble],
        )
    took = format_duration(first.answered_ns - first.asked_ns)
    tls = {None: "", True: ", certificate verified", False: ", NOT verified (TLS)"}
    return _check(
        "reach",
        "answers",
        Status.OK,
        f"GET {first.path}: {first.status} in {took}, connecting included"
        + tls[asked.verified],
    )


def _access(first: Reply) -> Check:
    if first.status in (401, 403, 407):
        return _check(
            "access",
            "access",
            Status.FAIL,
            f"not let in ({first.status} {_quoted(first.text)})",
            "a run would be refused before it starts",
            "give the key by --api-key-env NAME or --api-key-file FILE",
        )
    if first.status is not None and 300 <= first.status < 400:
        where = _quoted(first.header("location") or "")
        return _check(
            "access",
            "access",
            Status.FAIL,
            f"sent elsewhere ({first.status} to {where})",
            "loadgen follows no redirect: where requests go must not change",
            "give the address it points to",
        )
    return _check("access", "access", Status.OK, "let in")


def _engine(engine: EngineSeen | None) -> Check:
    if engine is None:
        return _check(
            "engine",
            "engine",
            Status.UNKNOWN,
            "not recognised",
            "refusals are then judged by their words alone",
        )
    version = safe(engine.version, 40) if engine.version else "version not told"
    signs = "; ".join(safe(sign, 60) for sign in engine.signs[:SHOWN])
    if engine.others:
        return _check(
            "engine",
            "engine",
            Status.WARN,
            f"{engine.title}, {version}",
            f"by: {signs}; other signs speak for {', '.join(engine.others)}",
            "is there more than one behind this address?",
        )
    return _check("engine", "engine", Status.OK, f"{engine.title}, {version}", signs)


def _ready(health: Reply | None, first: Reply) -> Check:
    for reply in (health, first):
        if reply is not None and reply.status is not None and reply.status >= 500:
            return _check(
                "ready",
                "ready",
                Status.FAIL,
                f"GET {reply.path}: {reply.status} {_quoted(_message(reply))}",
                "a model that still loads, or an engine that died, refuses all",
                "wait, or look at its log",
            )
    if health is None or health.status != 200:
        return _check(
            "ready", "ready", Status.UNKNOWN, "GET /health tells nothing here"
        )
    return _check("ready", "ready", Status.OK, "GET /health: 200")


def _message(reply: Reply) -> str:
    error = reply.object().get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else reply.text


def _models(first: Reply, wanted: str | None) -> Check:
    names = [n for entry in first.listed if isinstance(n := entry.get("id"), str)]
    if not first.ok or not names:
        return _check(
            "models",
            "models",
            Status.WARN,
            "none listed",
            "a run cannot find out the model's name",
            "name it by --model, with --no-preflight",
        )
    shown = ", ".join(_quoted(name) for name in names[:SHOWN])
    shown += f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
    lengths = [entry.get("max_model_len") for entry in first.listed]
    longest = next((n for n in lengths if type(n) is int), None)
    meaning = "" if longest is None else f"prompt and answer up to {longest:,} tokens"
    if wanted is not None and wanted not in names:
        return _check(
            "models",
            "models",
            Status.FAIL,
            f"{_quoted(wanted)} is not among {shown}",
            "a run that names it would be refused",
            "name one that is listed",
        )
    if wanted is None and len(names) > 1:
        return _check(
            "models", "models", Status.WARN, shown, meaning, "name one by --model"
        )
    return _check("models", "models", Status.OK, shown, meaning)


def _api(looked: Looked, asked: Asked, engine: EngineSeen | None) -> Check:
    first = looked.first
    if first.is_html:
        return _check(
            "api",
            "API",
            Status.FAIL,
            f"GET {first.path} answers an HTML page ({first.status})",
            "no LLM API there, or a page that asks for a login",
            "check host and port",
        )
    if first.ok and not first.object():
        return _check(
            "api",
            "API",
            Status.FAIL,
            f"GET {first.path} answers no JSON: {_quoted(first.text)}",
            "no LLM API there",
            "check host and port",
        )
    there, absent = _dialects(looked)
    told = ", ".join(there) if there else "endpoints are not told apart by GET"
    name = asked.protocol.name
    if name in absent:
        return _check(
            "api",
            "API",
            Status.FAIL,
            f"no {name} ({asked.protocol.path}); there are: {told}",
            "a run as asked for would get 404 from every request",
            "name one of them by --api" if there else None,
        )
    sure = bool(there) or (first.ok and bool(first.listed))
    return _check(
        "api",
        "API",
        Status.OK if sure else Status.UNKNOWN,
        told,
        "these dialects (--api) have an endpoint; whether the model serves them, "
        "--probe shows"
        if there
        else "--probe sends one tiny request and shows",
    )


def _dialects(looked: Looked) -> tuple[list[str], list[str]]:
    """Dialects that have an endpoint, and that have none, by a GET where they POST.

    A server that tells the two apart answers 405 where only POST is allowed and 404
    where there is nothing; one that always says 404 tells nothing.
    """
    statuses = {
        name: reply.status
        for name, protocol in PROTOCOLS.items()
        if (reply := looked.replies.get(protocol.path)) is not None
    }
    there = [name for name, status in statuses.items() if status == 405]
    if not there:
        return [], []
    return there, [name for name, status in statuses.items() if status == 404]


def _generation(reply: Reply | None, protocol: Protocol) -> Check:
    if reply is None:
        return _generated(
            Status.UNKNOWN, "not sent: no model's name", "", "name one by --model"
        )
    likewise = "a run's requests would fare likewise"
    if reply.trouble:
        found = f"POST {reply.path}: {safe(reply.words)}"
        return _generated(Status.FAIL, found, likewise, "look at the server's log")
    if reply.status != 200:
        found = f"POST {reply.path}: {reply.status} {_quoted(_message(reply))}"
        return _generated(Status.FAIL, found, likewise, "check --model and --api")
    answer = protocol.decode_whole(reply.body)
    if answer.error is not None or answer.malformed:
        words = answer.error.message if answer.error else reply.text
        return _generated(
            Status.FAIL,
            f"POST {reply.path}: 200, but {_quoted(words or 'an error')}",
            f"no answer in the words of {protocol.name}",
            "check --api",
        )
    took = format_duration(reply.answered_ns - reply.asked_ns)
    usage = answer.usage
    tokens = (
        "no token counts"
        if usage is None
        else f"{usage.prompt} prompt and {usage.completion} output tokens"
    )
    return _generated(
        Status.OK,
        f"POST {reply.path}: 200 in {took}, {tokens}",
        f"finish_reason {_quoted(answer.finish_reason or 'none')}",
    )


def _generated(
    status: Status, found: str, meaning: str, do: str | None = None
) -> Check:
    return _check("generation", "one generation", status, found, meaning, do)
