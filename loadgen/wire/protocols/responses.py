"""OpenAI responses: typed events, of which only the deltas carry output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import (
    MALFORMED,
    NOTHING,
    Delta,
    Framing,
    Output,
    Usage,
    sign,
)
from loadgen.wire.protocols.encoding import (
    bearer,
    body_prefix,
    closed,
    length_member,
    quoted,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, text_of, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["OpenAiResponses"]


class _Details(msgspec.Struct, gc=False):
    reasoning_tokens: Any = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    output_tokens: Any = None
    output_tokens_details: _Details | None = None


class _Why(msgspec.Struct, gc=False):
    reason: Any = None


class _Item(msgspec.Struct, gc=False):
    type: Any = None
    content: Any = None


class _Response(msgspec.Struct, gc=False):
    id: Any = None
    model: Any = None
    status: Any = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Why | None = None
    error: Any = None


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    delta: Any = None
    response: _Response | None = None
    error: Any = None


_read = lenient.reader(_Event)
_read_whole = lenient.reader(_Response)
_ENDS = ("completed", "incomplete", "failed", "cancelled")


def _decode(event: Event) -> Delta:
    data = event.data
    found = _read(data)
    if found is None:
        bare = sign(data)
        return Delta(error=error_of_event(data)) if event.kind == b"error" else bare
    if found.error or found.type == "error" or event.kind == b"error":
        return Delta(error=error_of_event(data))
    if not isinstance(found.type, str):
        return MALFORMED
    if found.type.endswith(".delta"):
        return _delta(found.type, found.delta)
    return NOTHING if found.response is None else _state(found.response, found.type)


def _decode_whole(body: bytes) -> Delta:
    found = _read_whole(body)
    if found is None:
        return MALFORMED
    if found.output is None:
        error = error_in(lenient.loads(body))
        return MALFORMED if error is None else Delta(error=error)
    kinds = {item.type for item in found.output}
    output: Output = "reasoning" if "reasoning" in kinds else "none"
    answered = kinds - {"reasoning"}
    texts = (text_of(i.content) for i in found.output if i.type == "message")
    state = _state(found, f"response.{found.status}")
    return msgspec.structs.replace(
        state, output="answer" if answered else output, text="".join(texts)
    )


def _delta(kind: str, piece: Any) -> Delta:
    if not isinstance(piece, str):
        return NOTHING
    if not piece:
        return Delta("empty")
    if "reasoning" in kind:
        return Delta("reasoning")
    # Arguments of a tool call are output but no answer text.
    return Delta("answer", piece if kind == "response.output_text.delta" else "")


def _state(response: _Response, kind: str) -> Delta:
    """What an event about the whole response says."""
    end = kind.removeprefix("response.")
    error = error_in({"error": response.error}) if response.error else None
    if end == "failed" and error is None:
        error = error_in({"error": "failed"})
    why = response.incomplete_details
    reason = None if why is None else word(why.reason)
    ended = end in _ENDS
    return Delta(
        finish_reason=(reason or end) if ended and error is None else None,
        usage=_usage(response.usage),
        error=error,
        done=ended,
        model=response.model,
        response_id=response.id,
    )


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.output_tokens_details
    return Usage(
        count(usage.input_tokens),
        count(usage.output_tokens),
        None if details is None else count(details.reasoning_tokens),
    )


class OpenAiResponses:
    """``/v1/responses``."""

    name = "openai-responses"
    path = "/v1/responses"
    framing: Framing = "sse"
    cumulative = False
    done_ends = True
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(_decode)
    decode_whole = staticmethod(_decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        prefix = body_prefix(
            {"model": model, "stream": stream},
            extra_body,
            reserved=("model", "stream", "max_output_tokens", "input"),
        )

        def encode(prompt: Prompt) -> bytes:
            members = length_member("max_output_tokens", prompt.max_tokens)
            if prompt.tenant is not None and "user" not in extra_body:
                members.append(b'"user":' + quoted(prompt.tenant))
            text = quoted(prompt.text) if prompt.messages is None else prompt.messages
            members.append(b'"input":' + text)
            return closed(prefix, members)

        return encode
