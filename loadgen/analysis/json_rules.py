"""The general rules for a JSON error: an engine's, a router's or a gateway's.

Who wraps an error how is told by `Facts.kind`; what ran out, by its words.
"""

from __future__ import annotations

import re

from loadgen.analysis.answer import Facts
from loadgen.analysis.clues import (
    BUSY,
    CONCURRENT,
    CONNECT,
    CONTEXT,
    ENGINE_DOWN,
    EVICTED,
    KV,
    MONEY,
    NO_ROOM,
    NO_SLOT,
    NONE_LEFT,
    NOT_YET,
    PICKS_ENGINES,
    PROOF_HEADERS,
    QUEUE,
    RETRIED,
    SHUTDOWN,
    TIMED_OUT,
    Guess,
    has_any,
    is_rate,
    rate_resource,
    spent,
)
from loadgen.model import Layer, Resource

__all__ = ["json_rule"]


def json_rule(facts: Facts) -> Guess | None:
    """A JSON error: an engine's or a router's, by its words and envelope."""
    if facts.shape not in ("json", "stream") or facts.kind is None:
        return None
    for rule in (_json_limits, _json_path, _json_engine):
        found = rule(facts)
        if found is not None:
            return found
    return None


def _json_limits(facts: Facts) -> Guess | None:
    text = facts.text
    if CONTEXT.search(text):
        return Guess(
            Layer.ENGINE_ADMISSION, Resource.CONTEXT_LENGTH, "words about the context"
        )
    used_up = spent(facts)
    if used_up is not None or MONEY.search(text):
        return Guess(Layer.GATEWAY, used_up or Resource.OTHER, "a limit used up")
    if is_rate(facts) and not CONCURRENT.search(text):
        return Guess(Layer.GATEWAY, rate_resource(text), "words about a rate limit")
    return None


def _json_path(facts: Facts) -> Guess | None:
    """Words about the way to an engine: a router's, or an API gateway's."""
    text = facts.text
    proof = has_any(facts, PROOF_HEADERS)
    if proof is not None:
        if CONNECT.search(text):
            why = f"{proof}: an upstream answered, then was lost"
            return Guess(Layer.ENGINE_FAILURE, Resource.OTHER, why)
        if not NONE_LEFT.search(text):
            return None
    outer = Layer.NETWORK if facts.kind == "message" else Layer.ROUTER
    if TIMED_OUT.search(text) and 504 in (facts.status, facts.code):
        if "upstream" not in text and facts.type == "gatewaytimeout":
            return Guess(Layer.GATEWAY, Resource.TIMEOUT, "a gateway's timeout")
        return Guess(outer, Resource.TIMEOUT, "words about a timeout on the way")
    if TIMED_OUT.search(text) and facts.status == 408:
        return Guess(outer, Resource.TIMEOUT, "words about a timeout on the way")
    if NONE_LEFT.search(text) and not QUEUE.search(text):
        return Guess(outer, Resource.NO_CAPACITY, "words: no engine is left")
    if RETRIED.search(text):
        return Guess(outer, Resource.OTHER, "words: tries upstream used up")
    if CONNECT.search(text):
        return Guess(outer, Resource.CONNECTIONS, "words about the connection upstream")
    return _json_router(facts)


def _json_router(facts: Facts) -> Guess | None:
    text = facts.text
    if not (PICKS_ENGINES.search(text) or _word_code(facts)):
        return None
    if QUEUE.search(text):
        return Guess(Layer.ROUTER, Resource.QUEUED_REQUESTS, "a router's queue")
    if NOT_YET.search(text) or BUSY.search(text):
        return Guess(Layer.ROUTER, Resource.NO_CAPACITY, "words of a router")
    return None


def _word_code(facts: Facts) -> bool:
    """A code in words ("service_unavailable") beside an error: proxies do so."""
    code = facts.code
    return facts.kind == "object" and isinstance(code, str) and not code.isdigit()


_ENGINE_WORDS: tuple[tuple[re.Pattern[str], Layer, Resource], ...] = (
    (QUEUE, Layer.ENGINE_ADMISSION, Resource.QUEUED_REQUESTS),
    (EVICTED, Layer.ENGINE_ADMISSION, Resource.QUEUED_REQUESTS),
    (NO_SLOT, Layer.ENGINE_ADMISSION, Resource.ACTIVE_SEQUENCES),
    (CONCURRENT, Layer.ENGINE_ADMISSION, Resource.CONCURRENCY),
    (ENGINE_DOWN, Layer.ENGINE_FAILURE, Resource.NO_CAPACITY),
    (SHUTDOWN, Layer.ENGINE_ADMISSION, Resource.SHUTDOWN),
    (NOT_YET, Layer.ENGINE_ADMISSION, Resource.NO_CAPACITY),
    (NO_ROOM, Layer.ENGINE_ADMISSION, Resource.KV_MEMORY),
    (KV, Layer.ENGINE_FAILURE, Resource.KV_MEMORY),
    (TIMED_OUT, Layer.ENGINE_ADMISSION, Resource.TIMEOUT),
)


def _json_engine(facts: Facts) -> Guess | None:
    if facts.kind == "message":
        if CONCURRENT.search(facts.text):
            return Guess(Layer.GATEWAY, Resource.CONCURRENCY, "a gateway's message")
        return None
    text, status = facts.text, facts.status
    for words, layer, resource in _ENGINE_WORDS:
        hit = words.search(text)
        if hit is not None:
            tokens = resource is Resource.QUEUED_REQUESTS and "token" in text
            return Guess(
                layer,
                Resource.QUEUED_TOKENS if tokens else resource,
                f"an engine's envelope with the words {hit[0]!r}",
            )
    code = facts.code if isinstance(facts.code, int) else status
    refusing = {status, code} & {429, 503, 529}
    if BUSY.search(text) and (refusing or facts.in_stream):
        # Bare message, type and code, with no "object" beside them: a frontend's.
        if facts.kind == "flat" and "object" not in facts.keys:
            return Guess(Layer.ROUTER, Resource.NO_CAPACITY, "a frontend that is busy")
        return Guess(
            Layer.ENGINE_ADMISSION, Resource.QUEUED_REQUESTS, "an engine that is busy"
        )
    if code in (400, 404, 405, 413, 415, 422):
        return Guess(
            Layer.ENGINE_ADMISSION, Resource.OTHER, "a request the engine cannot serve"
        )
    if code == 500 or "internal" in text or facts.in_stream:
        if re.search(r"\bprovider\b", text):
            return Guess(Layer.PROVIDER, Resource.OTHER, "words about a provider")
        return Guess(Layer.ENGINE_FAILURE, Resource.OTHER, "an error inside the engine")
    return None
