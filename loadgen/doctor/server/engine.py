"""Which engine answers, and which version: by what it says of itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from loadgen.doctor.server.reply import MODELS, SERVER_INFO, Reply
from loadgen.telemetry.vocabulary import Engine, Vocabulary

__all__ = ["STAND_IN", "EngineSeen", "recognise", "text_at"]

STAND_IN = "stand-in"

_TITLES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "ollama": "Ollama",
    "tgi": "Text Generation Inference",
    "triton": "Triton",
    "trtllm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    STAND_IN: "loadgen's stand-in",
}
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "library": "ollama",
    "lmdeploy": "lmdeploy",
    "tensorrt_llm": "trtllm",
    "loadgen-stand-in": STAND_IN,
}
_SERVERS = {"llama.cpp": "llamacpp", "loadgen-stand-in": STAND_IN}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSeen:
    """The engine that the signs speak for.

    Attributes:
        name: as in the vocabulary of series, ``stand-in``, or another known one.
        title: for people.
        version: as it says; None where it does not.
        signs: what spoke for it.
        others: engines that other signs speak for.
    """

    name: str
    title: str
    version: str | None
    signs: tuple[str, ...]
    others: tuple[str, ...] = ()


class _Shape(NamedTuple):
    """An endpoint that only one engine answers in this way."""

    path: str
    engine: str
    fits: Callable[[dict[str, Any]], bool]
    version: str


_SHAPES = (
    _Shape("/props", "llamacpp", lambda o: "total_slots" in o, "build_info"),
    _Shape("/info", "tgi", lambda o: "max_concurrent_requests" in o, "version"),
    _Shape("/v2", "triton", lambda o: o.get("name") == "triton", "version"),
    _Shape(SERVER_INFO, "vllm", lambda o: "vllm_config" in o, "version"),
    _Shape(SERVER_INFO, "sglang", lambda o: "max_running_requests" in o, "version"),
    _Shape(
        "/get_server_info", "sglang", lambda o: "max_running_requests" in o, "version"
    ),
    _Shape("/api/version", "ollama", lambda o: "version" in o, "version"),
    _Shape("/version", "vllm", lambda o: set(o) == {"version"}, "version"),
)


def recognise(
    replies: Mapping[str, Reply], pages: list[Engine], vocabulary: Vocabulary
) -> EngineSeen | None:
    """The engine behind the answers; None where nothing tells.

    Args:
        replies: by path.
        pages: whose names the metrics page has.
        vocabulary: names of engines.
    """
    signs: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    for name, sign, version in _signs(replies, pages):
        signs.setdefault(name, []).append(sign)
        if version is not None:
            versions.setdefault(name, version)
    if STAND_IN in signs:  # it speaks vLLM's dialect, and says what it is
        signs[STAND_IN] += signs.pop("vllm", [])
        versions.setdefault(STAND_IN, versions.pop("vllm", ""))
    if not signs:
        return None
    counts = Counter({name: len(found) for name, found in signs.items()})
    name = counts.most_common(1)[0][0]
    known = vocabulary.engines.get(name)
    return EngineSeen(
        name=name,
        title=_TITLES.get(name) or (known.title if known else name),
        version=versions.get(name) or None,
        signs=tuple(signs[name]),
        others=tuple(_TITLES.get(one, one) for one in signs if one != name),
    )


def _signs(
    replies: Mapping[str, Reply], pages: list[Engine]
) -> Iterator[tuple[str, str, str | None]]:
    for page in pages:
        if page.layer == "engine":
            yield page.name, f"metrics named {page.prefixes[0]}*", None
    for owner in _owners(replies):
        if owner in _OWNERS:
            yield _OWNERS[owner], f"models owned by {owner}", None
    for server in dict.fromkeys(r.header("server") or "" for r in replies.values()):
        product = server.partition("/")[0].lower()
        if product in _SERVERS:
            yield _SERVERS[product], f"Server: {server}", None
    for shape in _SHAPES:
        reply = replies.get(shape.path)
        if reply is not None and reply.ok and shape.fits(reply.object()):
            path = shape.path.partition("?")[0]
            version = text_at(reply.object(), shape.version)
            yield shape.engine, f"{path} answers as it does", version


def _owners(replies: Mapping[str, Reply]) -> list[str]:
    models = replies.get(MODELS)
    listed = models.listed if models is not None else ()
    return list(
        dict.fromkeys(o for m in listed if isinstance(o := m.get("owned_by"), str))
    )


def text_at(holder: Mapping[str, Any], name: str) -> str | None:
    """A text member of an object; None where there is none."""
    value = holder.get(name)
    return value if isinstance(value, str) and value else None
