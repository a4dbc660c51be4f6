"""Whether something stands between us and the engine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.engine import STAND_IN, EngineSeen
from loadgen.doctor.server.reply import METRICS, NO_SUCH_PATH, Reply
from loadgen.report.escape import safe
from loadgen.telemetry.vocabulary import Engine

__all__ = ["gateway_check"]

# Header names, or beginnings of them, that only the thing named writes.
_HEADERS = {
    "via": "a proxy",
    "x-envoy-": "Envoy",
    "x-kong-": "Kong",
    "x-apisix-": "APISIX",
    "x-litellm-": "LiteLLM",
    "x-varnish": "Varnish",
    "x-amz-cf-": "CloudFront",
    "x-amzn-": "an AWS gateway",
    "x-azure-ref": "Azure Front Door",
    "apim-request-id": "Azure API Management",
    "cf-ray": "Cloudflare",
    "x-served-by": "a cache or proxy",
    "x-forwarded-server": "a proxy",
    "x-proxy-": "a proxy",
}
_SERVERS = (
    "envoy",
    "istio-envoy",
    "nginx",
    "openresty",
    "apisix",
    "kong",
    "caddy",
    "traefik",
    "haproxy",
    "awselb",
    "cloudflare",
    "cloudfront",
    "apache",
    "varnish",
)
# What each engine's own HTTP server calls itself, in every answer.
_OWN_SERVER = {
    "vllm": "uvicorn",
    "sglang": "uvicorn",
    "llamacpp": "llama.cpp",
    STAND_IN: "loadgen-stand-in",
}


class _Sign(NamedTuple):
    """Something that speaks for a layer in between; weak ones may have other causes."""

    words: str
    weak: bool = False


def gateway_check(
    replies: Mapping[str, Reply], engine: EngineSeen | None, pages: list[Engine]
) -> Check:
    """What stands in front, by every sign there is.

    Args:
        replies: by path, the metrics' among them if it is the same server's.
        engine: which engine answers; None where it is not known.
        pages: whose names the metrics page has.
    """
    signs = list(dict.fromkeys(_signs(replies, engine, pages)))
    if not signs:
        return _check(
            Status.OK,
            "none seen",
            "no answer bears a proxy's mark; one that hides itself leaves none",
            None,
        )
    strong = [sign.words for sign in signs if not sign.weak]
    words = strong or [sign.words for sign in signs]
    likely = "one stands in front" if strong else "maybe one stands in front"
    return _check(
        Status.WARN,
        f"{likely}: {'; '.join(words[:4])}",
        "a 503, 429 or timeout may be its own and not the engine's; its retries, "
        "limits and idle timeouts are part of what is measured",
        "give its access log by --gateway-log, the engine's metrics by --metrics-url",
    )


def _signs(
    replies: Mapping[str, Reply], engine: EngineSeen | None, pages: list[Engine]
) -> Iterator[_Sign]:
    for reply in replies.values():
        for name, value in reply.headers:
            for start, product in _HEADERS.items():
                if name == start or (start.endswith("-") and name.startswith(start)):
                    shown = f"{name}: {safe(value, 40)}" if name == "via" else name
                    yield _Sign(f"{product} (header {shown})")
    for server in _servers(replies):
        product = server.partition("/")[0].partition(" ")[0].lower()
        if product in _SERVERS:
            yield _Sign(f"Server: {safe(server, 40)}")
    for page in pages:
        if page.layer != "engine":
            yield _Sign(f"metrics are those of {page.title}")
    yield from _strange_server(replies, engine)
    yield from _strange_404(replies.get(NO_SUCH_PATH), engine)


def _servers(replies: Mapping[str, Reply]) -> list[str]:
    found = (reply.header("server") for reply in replies.values())
    return list(dict.fromkeys(one for one in found if one))


def _strange_server(
    replies: Mapping[str, Reply], engine: EngineSeen | None
) -> Iterator[_Sign]:
    answered = {path: r for path, r in replies.items() if r.status is not None}
    named = {
        (reply.header("server") or "none").partition("/")[0].lower()
        for path, reply in answered.items()
        if path != METRICS
    }
    if len(named) > 1:
        told = ", ".join(safe(name, 30) for name in sorted(named))
        yield _Sign(f"endpoints differ in their Server header ({told})")
        return
    own = _OWN_SERVER.get(engine.name) if engine is not None else None
    if own is not None and engine is not None and named and named != {own}:
        [name] = named
        yield _Sign(
            f"{engine.title} says 'Server: {own}', here it is {safe(name, 30)}",
            weak=name == "none",
        )


def _strange_404(reply: Reply | None, engine: EngineSeen | None) -> Iterator[_Sign]:
    """A path that nobody has: each server says so in its own way."""
    if reply is None or reply.status is None or engine is None:
        return
    if reply.status != 404:
        yield _Sign(f"an unknown path is answered with {reply.status}", weak=True)
    elif engine.name in ("vllm", "sglang", STAND_IN):
        if reply.object().get("detail") != "Not Found":
            yield _Sign("an unknown path is refused in other words", weak=True)
    elif engine.name == "llamacpp" and "error" not in reply.object():
        yield _Sign("an unknown path is refused in other words", weak=True)


def _check(status: Status, found: str, meaning: str, do: str | None) -> Check:
    return Check(
        id="server.gateway",
        name="gateway in front",
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )
