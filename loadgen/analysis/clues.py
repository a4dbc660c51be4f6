"""The words, headers and envelopes by which refusals are told apart.

Words are looked for in lower-case text. They are clues, not proofs: what they
mean together is said in `general_rules`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from loadgen.analysis.answer import Facts
from loadgen.model import Layer, Resource

__all__ = [
    "ACCOUNT",
    "BUSY",
    "CLOSED_EARLY",
    "CONCURRENT",
    "CONNECT",
    "CONTEXT",
    "DROPPED",
    "ENGINE_DOWN",
    "EVICTED",
    "GOOGLE_STATUS",
    "ID_HEADERS",
    "KV",
    "MONEY",
    "NAMED_PROVIDER",
    "NONE_LEFT",
    "NOT_YET",
    "NO_ROOM",
    "NO_SLOT",
    "OF_TOKENS",
    "PICKS_ENGINES",
    "PROOF_HEADERS",
    "PROVIDER_HEADERS",
    "QUEUE",
    "RATE",
    "READ_HEADERS",
    "RETRIED",
    "SHUTDOWN",
    "TELLING_HEADER",
    "TIMED_OUT",
    "Guess",
    "has_any",
    "is_rate",
    "rate_resource",
    "spent",
]


class Guess(NamedTuple):
    """A layer and resource by general rule, and the words that led there."""

    layer: Layer
    resource: Resource
    why: str


PROOF_HEADERS = (
    "x-envoy-upstream-service-time",
    "x-kong-upstream-latency",
    "x-kong-upstream-status",
    "x-apisix-upstream-status",
    "llm_provider-*",
)
PROVIDER_HEADERS = (
    "anthropic-*",
    "openai-*",
    "x-amzn-bedrock-*",
    "x-goog-*",
    "apim-request-id",
    "x-ms-region",
    "x-groq-*",
)
ID_HEADERS = frozenset({"request-id", "x-request-id"})
# name -> whether its value is read; what `Signatures.headers_of` has to keep
READ_HEADERS: dict[str, bool] = {
    **dict.fromkeys((*PROOF_HEADERS, *PROVIDER_HEADERS), False),
    **dict.fromkeys(ID_HEADERS, True),
    "server": True,
    "x-ratelimit-remaining": True,
    "x-ratelimit-remaining-requests": True,
    "x-ratelimit-remaining-tokens": True,
    "ratelimit-remaining": True,
    "x-amzn-errortype": True,
    "x-amz-apigw-id": False,
}


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


CONTEXT = _words(
    r"context[ _-]?(length|size|window|limit)",
    r"max(imum)?[ _-](context|sequence|model|seq|input|total)[ _-]?(len|length|tokens)",
    r"(prompt|input)s? (is |are )?(too long|longer than)",
    r"too many (input |prompt )?tokens in",
    r"reduce the (length|number of tokens)",
)
KV = _words(
    r"kv[ _-]?cache",
    r"out of memory",
    r"\boom\b",
    r"memory pressure",
    r"free (kv )?blocks",
)
NO_ROOM = _words(
    r"kv[ _-]?cache (is |usage )?(full|exhausted|above|at)", r"cannot admit"
)
MONEY = _words(
    r"\bbudget", r"billing", r"\bcredits?\b", r"insufficient_quota", r"payment"
)
RATE = _words(
    r"rate[ _-]?limit",
    r"ratelimit",
    r"too many requests",
    r"toomanyrequests",
    r"too frequent",
    r"throttl",
    r"slow down",
    r"(requests?|tokens?|calls?) per (second|minute|hour|day|min)\b",
    r"\b[rt]p[ms]\b",
    r"\bquota\b",
)
OF_TOKENS = _words(
    r"tokens? per ",
    r"\btpm\b",
    r"\btpd\b",
    r"tokens? (rate|quota|limit|budget)",
    r"too many tokens",
    r"(number|amount) of (\w+ )?tokens",
    r"type: tokens",
)
QUEUE = _words(
    r"queued?\b",
    r"queue_",
    r"_queue",
    r"pending[ _]requests?",
    r"back-?log",
    r"back-?pressure",
    r"waiting (list|requests)",
)
CONCURRENT = _words(
    r"concurren",
    r"in[ -]flight",
    r"parallel[ _]requests",
    r"simultaneous",
    r"too many (active|running) ",
)
BUSY = _words(
    r"overload",
    r"\bbusy\b",
    r"capacity",
    r"saturat",
    r"try again",
    r"retry (later|shortly)",
    r"high (load|demand|traffic)",
    r"resource_?exhausted",
    r"(temporarily|service|currently) ?unavailable",
    r"shedd?",
)
TIMED_OUT = _words(r"tim(ed?|ing)[ _-]?out", r"deadline", r"took too long", r"\bttl\b")
SHUTDOWN = _words(
    r"shut(ting)?[ _-]?down",
    r"\bdraining\b",
    r"\bpaused\b",
    r"\bretired\b",
    r"being terminated",
    r"is stopping",
)
NOT_YET = _words(
    r"\bloading\b",
    r"not (yet )?ready",
    r"warm(ing)?[ -]?up",
    r"\bwaking\b",
    r"\bstarting\b",
    r"\bscaling\b",
    r"\bsleeping\b",
    r"cold[ -]start",
    r"initializing",
)
PICKS_ENGINES = _words(
    r"\bworkers?\b",
    r"\bdeployments?\b",
    r"\breplicas?\b",
    r"\bendpoints?\b",
    r"\bbackends?\b",
    r"\bpods?\b",
    r"model group",
    r"/v1/",
    r"\brout(e|er|ing)\b",
    r"circuit",
    r"cool-?down",
)
NONE_LEFT = _words(
    r"\bno (\w+ ){0,3}(server|host|upstream|peer|target|worker|backend|endpoint"
    r"|deployment|replica|node|instance|provider|channel)s?\b",
    r"get a peer",
    r"unhealthy (server|host|upstream|worker|backend|endpoint)",
    r"\b(all|every) (\w+ ){0,2}(server|host|upstream|worker|backend|endpoint"
    r"|deployment|replica|node|instance)s?\b",
    r"circuit",
    r"cool-?down",
    r"not (discovered|registered)",
    r"failed to deploy",
    r"selecting (a )?target",
)
CONNECT = _words(
    r"connect(ion)? (error|refused|reset|failed|failure|timeout|attempts? failed)",
    r"(failed|unable|could not|cannot) (to )?(connect|communicate|reach)",
    r"econn(refused|reset)",
    r"dial tcp",
    r"error sending request",
    r"unreachable",
    r"connecterror",
    r"bad gateway",
    r"fetch failed",
    r"invalid response was received from",
)
CLOSED_EARLY = _words(
    r"connection termination",
    r"prematurely",
    r"incomplete response",
    r"closed (the )?connection (before|without)",
    r"without (sending )?(a )?response",
)
RETRIED = _words(r"\bretried\b", r"retries (exhausted|failed)", r"max(imum)? retries")
NO_SLOT = _words(
    r"no (free |idle |available )?slots?\b", r"\bslots? (are )?(full|busy)"
)
EVICTED = _words(r"preempt", r"higher[ -]priority", r"evicted")
DROPPED = _words(r"\bdropped\b", r"\bshed(d\w+)?\b")
ENGINE_DOWN = _words(
    r"(engine|model server|backend model) (is |has )?"
    r"(unavailable|dead|died|crashed|stopped|not running)"
)
NAMED_PROVIDER = _words(
    r"anthropicexception", r"bedrock", r"vertex_?ai", r"gemini", r"azure openai"
)
GOOGLE_STATUS = re.compile(r'"status"\s*:\s*"[a-z_]+"')
ACCOUNT = _words(
    r"organi[sz]ation",
    r"pricing tier",
    r"your (current )?(plan|quota|account|subscription|tier)",
    r"billing",
    r"per-minute rate limit",
    r"service tier",
    r"\bworkspace\b",
    r"trial key",
    r"provisioned (throughput|deployment)",
)
TELLING_HEADER = _words(
    r"error", r"reject", r"dropped", r"overload", r"shed", r"throttl", r"limited"
)


def has_any(facts: Facts, names: tuple[str, ...]) -> str | None:
    """The first of the headers ``names`` (a ``*`` ends a prefix) that is there."""
    for header in facts.headers:
        for name in names:
            if header == name or (name[-1] == "*" and header.startswith(name[:-1])):
                return header
    return None


def rate_resource(text: str) -> Resource:
    """What a rate limit counts: requests, tokens, or money (other)."""
    if MONEY.search(text):
        return Resource.OTHER
    if OF_TOKENS.search(text):
        return Resource.RATE_LIMIT_TOKENS
    return Resource.RATE_LIMIT_REQUESTS


def spent(facts: Facts) -> Resource | None:
    """What a rate limit header says is used up."""
    for name, value in facts.headers.items():
        if "ratelimit-remaining" in name and value.strip() in ("0", "-1"):
            by_token = "token" in name or OF_TOKENS.search(facts.text)
            return (
                Resource.RATE_LIMIT_TOKENS if by_token else Resource.RATE_LIMIT_REQUESTS
            )
    return None


def is_rate(facts: Facts) -> bool:
    """Whether the words are of a rate limit, and not of a queue."""
    return bool(RATE.search(facts.text)) and not QUEUE.search(facts.text)
