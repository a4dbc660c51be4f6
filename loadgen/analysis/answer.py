"""What one failed request's answer says, reduced to what attribution reads.

An `Answer` holds the raw facts and is hashable, so that equal answers are
judged once; `Facts` is what is derived from it. The text comes from the
server and is hostile: it is bounded here and never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from loadgen.model import RequestRecord, ServerError, TokenSource

__all__ = ["Answer", "Facts", "Shape", "facts_of", "quote"]

Shape = Literal["empty", "html", "json", "text", "stream"]
Kind = Literal["object", "string", "flat", "detail", "message"]

MAX_TEXT_CHARS = 4096
MAX_QUOTE_CHARS = 160

_SERVER_COUNTS = (TokenSource.USAGE, TokenSource.CONTINUOUS_USAGE)
_KEY = re.compile(r'"([\w.-]{1,64})"\s*:')
_WRAPPED = re.compile(r'"error"\s*:\s*([{"])')
_FLAT = re.compile(r'"object"\s*:\s*"error"')


class Answer(NamedTuple):
    """The facts of one answer that can decide its attribution.

    ``headers`` holds only the names some signature or rule reads, sorted;
    a header of which only the presence matters has the value ``""``.
    ``zero_usage`` is True when the server counted no output token.
    """

    status: int | None
    error: ServerError | None
    excerpt: str | None
    headers: tuple[tuple[str, str], ...]
    tokens: bool
    zero_usage: bool
    finish: str | None

    @classmethod
    def of(cls, record: RequestRecord, headers: tuple[tuple[str, str], ...]) -> Answer:
        """Take the facts of a record, with its headers already reduced.

        Once output has come the body is the model's words, not the server's,
        and only the error says anything.
        """
        tokens = record.first_token_ns is not None
        return cls(
            status=record.status,
            error=record.error,
            excerpt=None if tokens else record.body_excerpt,
            headers=headers,
            tokens=tokens,
            zero_usage=record.output_tokens == 0
            and record.output_tokens_source in _SERVER_COUNTS,
            finish=record.finish_reason,
        )


class Facts(NamedTuple):
    """An answer, read: everything in lower case except ``message``.

    ``kind`` is how the error is wrapped: ``{"error":{…}}`` is object,
    ``{"error":"…"}`` string, ``{"object":"error"}`` or bare message, type and
    code flat, ``{"detail":…}`` detail, a lone ``{"message":…}`` (or error_msg, or a
    problem document's title) message.
    """

    status: int | None
    in_stream: bool
    tokens: bool
    zero_usage: bool
    finish: str | None
    message: str
    text: str
    type: str | None
    code: int | str | None
    keys: frozenset[str]
    shape: Shape
    kind: Kind | None
    headers: Mapping[str, str]


def facts_of(answer: Answer) -> Facts:
    """Read an answer; never fails, whatever the bytes are."""
    excerpt = (answer.excerpt or "")[:MAX_TEXT_CHARS].strip()
    shape = _shape(excerpt, answer.error)
    error = answer.error
    if error is None and shape in ("json", "stream"):
        error = _error_in(excerpt)
    message = (error.message if error else None) or ""
    text = f"{message[:MAX_TEXT_CHARS]}\n{excerpt}".strip().lower()
    keys = frozenset(key.lower() for key in _KEY.findall(excerpt))
    return Facts(
        status=answer.status,
        in_stream=answer.status is not None and 200 <= answer.status < 300,
        tokens=answer.tokens,
        zero_usage=answer.zero_usage,
        finish=answer.finish,
        message=message or (excerpt if shape == "text" else ""),
        text=text,
        type=error.type.lower() if error and error.type else None,
        code=_code(error.code if error else None),
        keys=keys,
        shape=shape,
        kind=_kind(excerpt, keys) if shape in ("json", "stream") else None,
        headers=dict(answer.headers),
    )


def _shape(excerpt: str, error: ServerError | None) -> Shape:
    if not excerpt:
        return "empty" if error is None else "json"
    if excerpt[0] in "{[":
        return "json"
    if excerpt[0] == "<" or "<html" in excerpt[:512].lower():
        return "html"
    if re.match(r"(?:data|event|error|id|retry)?:", excerpt):
        return "stream"
    return "text"


def _kind(excerpt: str, keys: frozenset[str]) -> Kind | None:
    wrapped = _WRAPPED.search(excerpt)
    if wrapped:
        return "object" if wrapped[1] == "{" else "string"
    if not excerpt or "error" in keys:
        return "object"
    if _FLAT.search(excerpt) or {"message", "type", "code"} <= keys:
        return "flat"
    if "title" in keys or "error_msg" in keys:
        return "message"
    if "detail" in keys:
        return "detail"
    return "message" if "message" in keys else None


def _code(code: int | str | None) -> int | str | None:
    return code.lower() if isinstance(code, str) else code


def _error_in(excerpt: str) -> ServerError | None:
    """Find the error of a JSON body, a JSON line or an event of a stream."""
    for line in (excerpt, *reversed(excerpt.splitlines())):
        candidate = line.removeprefix("data:").removeprefix("error:").strip()
        if not candidate.startswith("{"):
            continue
        try:
            body = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        error = _error_of(body)
        if error is not None:
            return error
    return None


def _error_of(body: Mapping[str, Any]) -> ServerError | None:
    inner = body.get("error", body)
    if isinstance(inner, str):
        return ServerError(message=inner, type=_text(body.get("error_type")))
    if not isinstance(inner, Mapping):
        return None
    message = next(
        (
            inner[key]
            for key in ("message", "detail", "error_msg", "text", "title")
            if isinstance(inner.get(key), str)
        ),
        None,
    )
    code = next(
        (
            inner[key]
            for key in ("code", "error_code", "http_status_code", "statusCode")
            if isinstance(inner.get(key), int | str)
        ),
        None,
    )
    kind = _text(inner.get("type")) or _text(inner.get("status"))
    if message is None and code is None and kind is None:
        return None
    return ServerError(message=message, type=kind, code=code)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def quote(text: str, limit: int = MAX_QUOTE_CHARS) -> str:
    """A server's text made short, on one line and printable."""
    line = " ".join(text[: 4 * limit].split())
    if not line.isprintable():
        line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
