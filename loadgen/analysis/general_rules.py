"""What an answer no signature knows most likely is: words, shapes, proofs.

Each rule reads one kind of answer and says a layer and a resource, or passes
on. All of it is worth low confidence: a wrong layer costs an operator more
than "unknown", so a rule speaks only when the shape and the words agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from loadgen.analysis.answer import Facts
from loadgen.analysis.clues import (
    ACCOUNT,
    BUSY,
    CLOSED_EARLY,
    CONCURRENT,
    CONNECT,
    CONTEXT,
    DROPPED,
    GOOGLE_STATUS,
    KV,
    MONEY,
    NAMED_PROVIDER,
    NONE_LEFT,
    PICKS_ENGINES,
    PROOF_HEADERS,
    PROVIDER_HEADERS,
    QUEUE,
    RATE,
    RETRIED,
    SHUTDOWN,
    TELLING_HEADER,
    TIMED_OUT,
    Guess,
    has_any,
    is_rate,
    rate_resource,
    spent,
)
from loadgen.analysis.json_rules import json_rule
from loadgen.model import Accepted, Layer, Resource

__all__ = ["accepted_by", "guess"]

Rule = Callable[[Facts], Guess | None]


def guess(facts: Facts) -> Guess | None:
    """What the answer most likely is; None when no rule fits."""
    for rule in _RULES:
        found = rule(facts)
        if found is not None:
            return found
    return None


def accepted_by(layer: Layer, resource: Resource, facts: Facts) -> Accepted:
    """Whether the engine had taken the request, as far as a guess allows."""
    if facts.tokens:
        return Accepted.YES
    if layer in (Layer.ENGINE_FAILURE, Layer.UNKNOWN) or resource is Resource.TIMEOUT:
        return Accepted.UNKNOWN
    if layer is Layer.NETWORK and facts.status == 502:
        return Accepted.UNKNOWN
    return Accepted.NO


def _aborted(facts: Facts) -> Guess | None:
    """A stream that ends in finish_reason abort: a refusal, or a run cut short."""
    if facts.finish != "abort" and '"abort"' not in facts.text:
        return None
    if facts.tokens:
        return Guess(Layer.ENGINE_FAILURE, Resource.OTHER, "aborted after output")
    if QUEUE.search(facts.text) or BUSY.search(facts.text):
        return Guess(
            Layer.ENGINE_ADMISSION, Resource.QUEUED_REQUESTS, "aborted: the queue"
        )
    if facts.zero_usage:
        why = "aborted with no output counted: a refusal in the form of an answer"
        return Guess(Layer.ENGINE_ADMISSION, Resource.UNKNOWN, why)
    return Guess(Layer.ENGINE_FAILURE, Resource.OTHER, "aborted by the engine")


def _provider(facts: Facts) -> Guess | None:
    """A hosted API: its header, its envelope, or its talk of accounts."""
    sign = has_any(facts, PROVIDER_HEADERS) or _provider_sign(facts)
    if sign is None:
        return None
    return Guess(Layer.PROVIDER, _provider_resource(facts), sign)


def _provider_sign(facts: Facts) -> str | None:
    text = facts.text
    for name in ("request-id", "x-request-id"):
        if facts.headers.get(name, "").startswith("req_"):
            return f"{name} of the form req_…"
    named = facts.headers.keys()
    if "x-amzn-errortype" in named and "x-amz-apigw-id" not in named:
        return "x-amzn-errortype, and no API gateway's id"
    if facts.kind == "object" and "code" in facts.keys and GOOGLE_STATUS.search(text):
        return "Google's error envelope"
    enveloped = facts.status == 529 or "request_id" in facts.keys
    if (
        facts.type == "overloaded_error"
        and enveloped
        and not (QUEUE.search(text) or PICKS_ENGINES.search(text))
    ):
        return "Anthropic's error envelope"
    if facts.shape != "html" and NAMED_PROVIDER.search(text):
        return "a provider's name in the message"
    if facts.shape != "html" and ACCOUNT.search(text):
        return "words of an account with a provider"
    return None


def _provider_resource(facts: Facts) -> Resource:
    text = facts.text
    if CONTEXT.search(text):
        return Resource.CONTEXT_LENGTH
    used_up = spent(facts)
    if RATE.search(text) or MONEY.search(text):
        return used_up or rate_resource(text)
    if BUSY.search(text) or facts.status in (503, 529):
        return Resource.NO_CAPACITY
    return used_up or Resource.OTHER


def _after_tokens(facts: Facts) -> Guess | None:
    """An error once output has come: the engine had taken the request."""
    if not facts.tokens:
        return None
    text = facts.text
    resource = Resource.OTHER
    if KV.search(text):
        resource = Resource.KV_MEMORY
    elif TIMED_OUT.search(text):
        resource = Resource.TIMEOUT
    elif SHUTDOWN.search(text):
        resource = Resource.SHUTDOWN
    if re.search(r"\bprovider\b", text):
        return Guess(Layer.PROVIDER, resource, "a provider lost after output had come")
    return Guess(Layer.ENGINE_FAILURE, resource, "an error after output had come")


def _client_left(facts: Facts) -> Guess | None:
    """A server that says we hung up."""
    if facts.status == 499 or "client closed request" in facts.text:
        return Guess(Layer.CLIENT, Resource.OTHER, "the server says the client left")
    return None


def _access(facts: Facts) -> Guess | None:
    """A key or a permission that is missing is refused at the door."""
    if facts.status not in (401, 403, 407) or is_rate(facts):
        return None
    return Guess(Layer.GATEWAY, Resource.OTHER, "access was refused")


def _page(facts: Facts) -> Guess | None:
    """An HTML page: no engine writes one."""
    if facts.shape != "html":
        return None
    text = facts.text
    used_up = spent(facts)
    if used_up is not None or is_rate(facts):
        return Guess(
            Layer.GATEWAY,
            used_up or rate_resource(text),
            "an HTML page about a rate limit",
        )
    if re.search(r"gateway[ -]time-?d?[ -]?out|in time|timed out", text):
        return Guess(Layer.NETWORK, Resource.TIMEOUT, "an HTML page about a timeout")
    if NONE_LEFT.search(text):
        return Guess(Layer.NETWORK, Resource.NO_CAPACITY, "an HTML page: no server")
    if CLOSED_EARLY.search(text):
        return Guess(
            Layer.ENGINE_FAILURE, Resource.OTHER, "an HTML page: the answer broke off"
        )
    if CONNECT.search(text) or facts.status == 502:
        return Guess(
            Layer.NETWORK, Resource.CONNECTIONS, "an HTML page about the upstream"
        )
    resource = {
        503: Resource.NO_CAPACITY,
        504: Resource.TIMEOUT,
        408: Resource.TIMEOUT,
    }.get(facts.status or 0, Resource.OTHER)
    return Guess(Layer.GATEWAY, resource, "an HTML page cannot be the engine's")


def _plain(facts: Facts) -> Guess | None:
    """Plain text: a proxy's or a router's own line."""
    if facts.shape != "text":
        return None
    text = facts.text
    used_up = spent(facts)
    for_router = "inference" in text or PICKS_ENGINES.search(text) is not None
    path = Layer.ROUTER if for_router else Layer.NETWORK
    if used_up is not None or is_rate(facts):
        return Guess(
            Layer.GATEWAY, used_up or rate_resource(text), "text about a rate limit"
        )
    if TIMED_OUT.search(text):
        layer = Layer.ROUTER if facts.status in (408, 429) or for_router else path
        return Guess(layer, Resource.TIMEOUT, "text about a timeout")
    if QUEUE.search(text):
        return Guess(Layer.ROUTER, Resource.QUEUED_REQUESTS, "text about a queue")
    if DROPPED.search(text):
        return Guess(Layer.ROUTER, Resource.QUEUED_REQUESTS, "text: dropped on purpose")
    if "overflow" in text:
        return Guess(Layer.GATEWAY, Resource.CONCURRENCY, "text about an overflow")
    if CONCURRENT.search(text):
        return Guess(Layer.GATEWAY, Resource.CONCURRENCY, "text about concurrency")
    if NONE_LEFT.search(text):
        layer = Layer.GATEWAY if re.fullmatch(r"circuit[^a-z]*.*", text) else path
        return Guess(layer, Resource.NO_CAPACITY, "text: no server is left")
    if SHUTDOWN.search(text):
        return Guess(path, Resource.SHUTDOWN, "text about a shutdown")
    return _plain_path(facts, path) or _plain_by_status(facts, for_router)


def _plain_path(facts: Facts, path: Layer) -> Guess | None:
    """A line about the way to the server behind."""
    text = facts.text
    if RETRIED.search(text):
        return Guess(path, Resource.OTHER, "text: tries upstream used up")
    if CLOSED_EARLY.search(text):
        return Guess(
            Layer.ENGINE_FAILURE, Resource.OTHER, "text: the server behind hung up"
        )
    if CONNECT.search(text):
        return Guess(path, Resource.CONNECTIONS, "text about the connection upstream")
    edge_code = re.match(r"error code: 5(\d\d)", text)
    if edge_code:
        slow = edge_code[1] in ("04", "24")
        resource = Resource.TIMEOUT if slow else Resource.CONNECTIONS
        return Guess(Layer.NETWORK, resource, "an edge's code for its origin")
    return None


def _plain_by_status(facts: Facts, for_router: bool) -> Guess | None:
    proof = has_any(facts, PROOF_HEADERS)
    if BUSY.search(facts.text) and facts.status in (429, 503, 529):
        if proof:
            return Guess(
                Layer.ENGINE_ADMISSION, Resource.QUEUED_REQUESTS, f"{proof}: answered"
            )
        layer = Layer.ROUTER if for_router else Layer.GATEWAY
        return Guess(layer, Resource.NO_CAPACITY, "plain text, unavailable")
    if facts.status == 500 and "internal server error" in facts.text:
        return Guess(Layer.ENGINE_FAILURE, Resource.OTHER, "a server's bare 500")
    return None


_HEADER_RESOURCES = (
    (TIMED_OUT, Resource.TIMEOUT),
    (RATE, Resource.RATE_LIMIT_REQUESTS),
    (QUEUE, Resource.QUEUED_REQUESTS),
    (NONE_LEFT, Resource.NO_CAPACITY),
    (CONNECT, Resource.CONNECTIONS),
    (CONCURRENT, Resource.CONCURRENCY),
    (BUSY, Resource.CONCURRENCY),
)


def _header_words(facts: Facts) -> Guess | None:
    """No body to speak of, but a header that says what was done and why."""
    used_up = spent(facts)
    if used_up is not None and facts.status in (429, 503):
        return Guess(Layer.GATEWAY, used_up, "a rate limit header at zero")
    for name, value in facts.headers.items():
        if not TELLING_HEADER.search(name) or facts.in_stream:
            continue
        said = f"{name} {value}".replace("-", " ").replace("_", " ")
        for words, resource in _HEADER_RESOURCES:
            if words.search(said):
                routes = PICKS_ENGINES.search(said) or QUEUE.search(said)
                layer = Layer.ROUTER if routes else Layer.GATEWAY
                return Guess(layer, resource, f"header {name}: {value}")
    return None


_RULES: tuple[Rule, ...] = (
    _aborted,
    _after_tokens,
    _provider,
    _client_left,
    _access,
    _page,
    _plain,
    json_rule,
    _header_words,
)
