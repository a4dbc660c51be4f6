"""Ollama's own chat: one JSON object a line, the last one ``done``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.wire.framing import Event
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import (
    MALFORMED,
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
    messages,
    nested,
)
from loadgen.wire.protocols.errors import error_in, error_of_event
from loadgen.wire.protocols.values import count, text_of, word

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["OllamaChat"]


class _Message(msgspec.Struct, gc=False):
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None


class _Line(msgspec.Struct, gc=False):
    model: Any = None
    message: _Message | None = None
    response: Any = None
    thinking: Any = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


_read = lenient.reader(_Line)


def _decode(event: Event) -> Delta:
    return _decode_bytes(event.data, event.kind == b"error")


def _decode_whole(body: bytes) -> Delta:
    return _decode_bytes(body, False)


def _decode_bytes(data: bytes, failed: bool) -> Delta:
    if failed:
        return Delta(error=error_of_event(data))
    line = _read(data)
    if line is None:
        return sign(data)
    if line.error or (line.message is None and line.response is None and not line.done):
        error = error_in(lenient.loads(data))
        return MALFORMED if error is None else Delta(error=error)
    done = line.done is True
    output, text = _output(line)
    if done and output == "empty":
        output = "none"  # the last line has no text of its own
    usage = Usage(count(line.prompt_eval_count), count(line.eval_count))
    return Delta(
        output=output,
        text=text,
        finish_reason=word(line.done_reason) if done else None,
        usage=usage if usage != Usage() else None,
        done=done,
        model=line.model,
    )


def _output(line: _Line) -> tuple[Output, str]:
    """What a line carries, and its answer text."""
    message = line.message or _Message(line.response, line.thinking)
    text = text_of(message.content)
    if text:
        return "answer", text
    if message.tool_calls:
        return "answer", ""
    if message.thinking:
        return "reasoning", ""
    return ("empty" if message.content == "" else "none"), ""


class OllamaChat:
    """``/api/chat``; lines of ``/api/generate`` are understood too."""

    name = "ollama"
    path = "/api/chat"
    framing: Framing = "ndjson"
    cumulative = False
    done_ends = True
    headers: tuple[tuple[str, str], ...] = ()
    auth = staticmethod(bearer)
    decode = staticmethod(_decode)
    decode_whole = staticmethod(_decode_whole)

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        options, rest = nested(extra_body, "options", reserved=("num_predict",))
        prefix = body_prefix(
            {"model": model, "stream": stream},
            rest,
            reserved=("model", "stream", "messages"),
        )

        def encode(prompt: Prompt) -> bytes:
            limit = closed(options, length_member("num_predict", prompt.max_tokens))
            text = b'"messages":' + messages(prompt)
            return closed(prefix, [b'"options":' + limit, text])

        return encode
